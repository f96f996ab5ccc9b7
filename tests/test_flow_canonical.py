"""One log in every format: the same requests, the same tokens, the same hits."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.chat import DEFAULT_TEMPLATE, load
from kvtools.flow import AnalyzeOptions, ReplayOptions, analyze, replay, write_sample
from kvtools.readers import ReadOptions, find_inputs, read

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = "<｜begin▁of▁sentence｜>"


def _hits_by_hand(prompts: list[list[int]]) -> list[int]:
    """vLLM's rules, one request at a time, unlimited: full blocks of 16, at most n-1 tokens."""
    seen: set[tuple[int, ...]] = set()
    hits = []
    for prompt in prompts:
        found = 0
        while found < (len(prompt) - 1) // 16 and tuple(prompt[: 16 * (found + 1)]) in seen:
            found += 1
        hits.append(16 * found)
        seen |= {tuple(prompt[: 16 * (block + 1)]) for block in range(len(prompt) // 16)}
    return hits


def _rows(data: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((data / "canonical.expected.json").read_text())["token-log"]
    return rows


MAPPED: dict[str, Any] = {
    "input_format": "csv",
    "mapping": {"messages": "payload.messages", "tools": "payload.tools", "model": "payload.model"},
}
WITH_PROMPTS = ("chat.jsonl", "batch.jsonl", "exchange.jsonl", "litellm.jsonl", "langfuse.json", "otlp.jsonl", "csv", "vllm.log",
                "tokens.jsonl", "mooncake.jsonl", "bailian.jsonl")  # fmt: skip
LENGTHS_ALONE = ("azure.csv", "burstgpt.csv", "ragpulse.jsonl", "tracelab.jsonl")


@pytest.mark.parametrize("form", WITH_PROMPTS)
def test_every_format_gives_the_same_hits(data: Path, tmp_path: Path, form: str) -> None:
    rows = _rows(data)
    hits = _hits_by_hand([row["token_ids"] for row in rows])
    # c-2 shares one block of system text, c-3 resends c-1, c-4 shares the system text, c-6 repeats c-2.
    assert hits == [0, 16, 32, 16, 0, 32]
    lines = tmp_path / "lines"
    path, given = data / f"canonical.{form}", MAPPED if form == "csv" else {}
    report = replay(path, ReplayOptions(rules="vllm", per_request=lines, **given))
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [line["hit_tokens"] for line in found] == hits
    assert [line["queried_tokens"] for line in found] == [len(row["token_ids"]) for row in rows]
    counted = report.coverage
    assert (report.requests, counted.read, counted.rejected, counted.without_prompt, counted.duplicates) == (
        6,
        6,
        0,
        0,
        0,
    )


def test_the_report_says_what_the_requests_come_to(data: Path) -> None:
    report = analyze(data / "canonical.chat.jsonl", AnalyzeOptions(rules="vllm"))
    assert report.prompt_tokens is not None
    assert report.cache is not None
    assert (report.requests, report.prompt_tokens.total) == (6, 35 + 35 + 52 + 163 + 11 + 35)
    assert report.cache.hit_tokens == 16 + 32 + 16 + 32


def test_a_server_log_with_prompts_gives_the_same_hits(data: Path, tmp_path: Path) -> None:
    """The same log as an older vLLM writes it: the prompt as Python's repr of it, no token ids."""
    chat = [json.loads(line) for line in (data / "canonical.chat.jsonl").read_text().split("\n")[:-1]]
    template = load(DEFAULT_TEMPLATE)
    # Behind the token that the tokenizer itself puts in front of a text.
    prompts = [template.render(r["messages"], r.get("tools")).removeprefix(BEGIN) for r in chat]
    text = (data / "canonical.vllm.log").read_text()
    for prompt in prompts:
        text = text.replace("prompt: None,", f"prompt: {prompt!r},", 1)
    log, lines = tmp_path / "server.log", tmp_path / "lines"
    log.write_text(re.sub(r"prompt_token_ids: \[[^]]*\]", "prompt_token_ids: None", text))
    replay(log, ReplayOptions(rules="vllm", per_request=lines))
    hits = [json.loads(line)["hit_tokens"] for line in lines.read_text().splitlines()]
    assert hits == _hits_by_hand([row["token_ids"] for row in _rows(data)])


@pytest.mark.parametrize("form", LENGTHS_ALONE)
def test_lengths_alone_are_six_requests_without_hits(data: Path, form: str) -> None:
    path = data / f"canonical.{form}"
    log = find_inputs([str(path)])
    (chunk,) = read(log, ReadOptions(), [])
    assert (len(chunk.requests), len(chunk.rejects), chunk.records) == (6, 0, 6)
    assert chunk.requests["prompt_tokens"].tolist() == [len(row["token_ids"]) for row in _rows(data)]
    report = analyze(path)  # no hits, and no rate that could be taken for one
    assert (report.requests, report.coverage.read, report.coverage.rejected) == (0, 6, 0)
    assert (report.coverage.without_prompt, report.cache) == (6, None)


def test_the_committed_samples_are_what_the_generators_write(data: Path, tmp_path: Path) -> None:
    written = [
        *write_sample("canonical", tmp_path),
        *write_sample("shop-assistant", tmp_path / "shop-assistant.jsonl"),
    ]
    assert len(written) == 17
    for path in written:
        assert path.read_bytes() == (data / path.name).read_bytes(), path.name


def test_the_shop_assistant_is_what_its_articles_describe(data: Path, tmp_path: Path) -> None:
    report = analyze(data / "shop-assistant.jsonl")
    assert report.requests == 5_000
    assert len(report.routes) == 3
    assert report.prompt_tokens is not None
    assert report.similarity is not None
    assert report.cache is not None
    assert report.prompt_tokens.mean == pytest.approx(218, abs=5)
    assert report.prompt_tokens.std == pytest.approx(47, abs=5)
    assert report.variable_share == pytest.approx(0.63, abs=0.03)
    assert report.similarity.jaccard_consecutive == pytest.approx(0.15, abs=0.02)
    assert report.cache.hit_rate == pytest.approx(0.28, abs=0.02)
    from kvtools.samples import SAMPLES

    last = tmp_path / "last.jsonl"
    last.write_bytes(b"".join(SAMPLES["shop-assistant"](values="last")))
    cache = analyze(last).cache
    assert cache is not None
    assert cache.hit_rate is not None
    assert cache.hit_rate >= 0.72
