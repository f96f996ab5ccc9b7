"""Text requests to a running ``vllm serve``: cached tokens per request and the counters equal the prediction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import BLOCK_TOKENS, kvtools, replayed


@pytest.mark.parametrize(("name", "requests"), [("peers", 100), ("shop", 200), ("canonical", 6)])
def test_predicted_equals_counted(
    server: str, peers: Path, data: Path, tmp_path: Path, name: str, requests: int
) -> None:
    source = {
        "peers": peers,
        "shop": data / "shop-assistant.jsonl",
        "canonical": data / "canonical.chat.jsonl",
    }[name]
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\n".join(source.read_bytes().split(b"\n")[:requests]))
    report = replayed(log, "--engine", "simulator,server", "--url", server)
    predicted, observed = report["replays"]
    assert observed["start_state"] == "cold"  # reset before the replay
    assert report["compare"]["differences"] == []
    assert report["compare"]["equal_requests"] == requests
    assert predicted["queried_tokens"] == observed["queried_tokens"]
    assert observed["notes"] == [
        f"the server's counters agree: {predicted['hit_tokens']:,} of {predicted['queried_tokens']:,} tokens."
    ]


def test_a_request_over_max_model_len_is_refused_and_counted(server: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rows = [
        {"id": "short", "prompt": "Does rosemary survive frost?"},
        {"id": "long", "prompt": "rosemary " * 5_000},
    ]
    log.write_text("\n".join(map(json.dumps, rows)))
    report = replayed(log, "--engine", "server", "--url", server)
    (figures,) = report["replays"]
    assert (figures["requests"], figures["refused_requests"]) == (1, 1)
    assert "context length" in figures["notes"][0]


def test_per_request_lines(server: str, data: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    kvtools(
        "replay", data / "canonical.chat.jsonl", "--engine", "server", "--url", server,
        "--block-size", str(BLOCK_TOKENS), "--per-request", lines,
    )  # fmt: skip
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"c-{n}" for n in range(1, 7)]
    # Blocks of 32: c-3 resends c-1 (35 tokens: one block), c-6 repeats c-2; the system text alone fills none.
    assert [row["hit_tokens"] for row in rows] == [0, 0, 32, 0, 0, 32]
