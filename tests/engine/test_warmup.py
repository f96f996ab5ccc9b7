"""What a warm-up set is said to save is what vLLM counts behind it: in process and over HTTP."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import BLOCK_TOKENS, kvtools, replayed

from kvtools.chat import load
from kvtools.tokens import load_tokenizer

BUILT_ON = 210  # 70 % of the 300 requests


@pytest.fixture
def log(peers: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in peers.read_text().splitlines()]


def _built(peers: Path, out: Path, *options: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(
        kvtools("warmup", peers, "-o", out, "--block-size", str(BLOCK_TOKENS), "--format", "json", *options)
    )
    assert report["warmup"]["built_on_requests"] == BUILT_ON
    # Which way did best at the rehearsed restarts is not this test's matter: a set there is, and it is judged.
    assert report["warmup"]["chosen_by"] != "nothing"
    assert report["evaluation"]["warm"]["saved_tokens"] > 0
    return report


def _bodies(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["body"] for line in out.read_text().splitlines()]


@pytest.mark.parametrize("capacity", ["unlimited", "400"])
def test_in_process_the_later_requests_hit_what_was_predicted(
    peers: Path, log: list[dict[str, Any]], tmp_path: Path, capacity: str
) -> None:
    size = [] if capacity == "unlimited" else ["--capacity-blocks", capacity]
    report = _built(peers, tmp_path / "out.jsonl", "--write", "token-ids", "--budget-queries", "20", *size)
    warm = [
        {"id": f"w{n}", "model": body["model"], "prompt_token_ids": body["prompt"]}
        for n, body in enumerate(_bodies(tmp_path / "out.jsonl"))
    ]
    texts = [load("deepseek").render(row["messages"], row.get("tools")) for row in log[BUILT_ON:]]
    ids = load_tokenizer().encode(texts)
    later = [
        {"id": row["id"], "model": row["model"], "prompt_token_ids": ids.row(place).tolist()}
        for place, row in enumerate(log[BUILT_ON:])
    ]
    both = tmp_path / "both.jsonl"
    both.write_text("\n".join(map(json.dumps, warm + later)))
    lines = tmp_path / "lines.jsonl"
    found = replayed(both, "--engine", "simulator,vllm", "--per-request", lines, *size)
    assert found["compare"]["different_requests"] == 0, found["compare"]["differences"]
    counted = [json.loads(line)["hit_tokens"] for line in lines.read_text().splitlines()]
    assert len(counted) == len(warm) + 90
    assert sum(counted[len(warm) :]) == report["evaluation"]["warm"]["hit_tokens"]


def _ask(server: str, model: str, row: dict[str, Any]) -> int:
    body = {"model": model, "messages": row["messages"], "max_tokens": 1, "temperature": 0}
    if row.get("tools"):
        body |= {"tools": row["tools"], "tool_choice": "none"}
    request = urllib.request.Request(  # noqa: S310 - our own http
        f"{server}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        details = json.load(answer)["usage"]["prompt_tokens_details"]
    return details["cached_tokens"] if details else 0


@pytest.mark.parametrize("write", ["batch", "prompts", "token-ids"])
def test_a_server_hits_what_was_predicted_behind_the_set(
    server: str, peers: Path, log: list[dict[str, Any]], tmp_path: Path, write: str
) -> None:
    out = tmp_path / "out.jsonl"
    report = _built(peers, out, "--write", write, "--budget-queries", "20")
    with urllib.request.urlopen(f"{server}/v1/models") as answer:  # noqa: S310 - our own http
        model = json.load(answer)["data"][0]["id"]
    urllib.request.urlopen(urllib.request.Request(f"{server}/reset_prefix_cache", method="POST"))  # noqa: S310
    sent = json.loads(
        kvtools(
            "warmup", "send", out, "--url", server, "--model", model, "--in-flight", "1", "--format", "json"
        )
    )
    assert (sent["requests"], sent["refused_requests"]) == (20, 0)
    computed = sent["prompt_tokens"] - sent["cached_tokens"]
    assert (
        computed == report["warmup"]["budget"]["used_tokens"] == report["evaluation"]["warm"]["spent_tokens"]
    )
    assert sent["counted_hit_tokens"] == sent["cached_tokens"]
    hits = [_ask(server, model, row) for row in log[BUILT_ON:]]
    assert sum(hits) == report["evaluation"]["warm"]["hit_tokens"]
    again = json.loads(
        kvtools("warmup", "send", out, "--url", server, "--model", model, "--verify", "--format", "json")
    )
    assert again["verified_as_expected"] == again["verified_requests"] == 20
    options = ("--model", model, "--verify", "--members", peers, "--format", "json")
    by_members = json.loads(kvtools("warmup", "send", out, "--url", server, *options))
    assert by_members["verified_by"] == "member"
    assert by_members["verified_as_expected"] == by_members["verified_requests"] == 20


def test_a_model_that_is_not_served_is_named(server: str, peers: Path, tmp_path: Path) -> None:
    _built(peers, tmp_path / "out.jsonl", "--budget-queries", "2")
    kvtools("warmup", "send", tmp_path / "out.jsonl", "--url", server, code=3)
