"""One log in every format: the same requests, the same tokens, the same hits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvtools.flow import AnalyzeOptions, analyze, write_sample


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


@pytest.mark.parametrize("form", ["chat", "batch", "tokens", "mooncake"])
def test_every_format_gives_the_same_hits(data: Path, form: str) -> None:
    rows = json.loads((data / "canonical.expected.json").read_text())["token-log"]
    hits = _hits_by_hand([row["token_ids"] for row in rows])
    # c-2 shares one block of system text, c-3 resends c-1, c-4 shares the system text, c-6 repeats c-2.
    assert hits == [0, 16, 32, 16, 0, 32]
    report = analyze(data / f"canonical.{form}.jsonl", AnalyzeOptions(rules="vllm"))
    assert report.requests == 6
    assert report.prompt_tokens.total == sum(len(row["token_ids"]) for row in rows)
    assert report.cache.hit_tokens == sum(hits)


def test_the_committed_samples_are_what_the_generators_write(data: Path, tmp_path: Path) -> None:
    written = [
        *write_sample("canonical", tmp_path),
        *write_sample("shop-assistant", tmp_path / "shop-assistant.jsonl"),
    ]
    assert len(written) == 6
    for path in written:
        assert path.read_bytes() == (data / path.name).read_bytes(), path.name


def test_the_shop_assistant_is_what_its_articles_describe(data: Path, tmp_path: Path) -> None:
    report = analyze(data / "shop-assistant.jsonl")
    assert report.requests == 5_000
    assert len(report.routes) == 3
    assert 213 <= report.prompt_tokens.mean <= 223
    assert 42 <= report.prompt_tokens.std <= 52
    assert 0.60 <= report.variable_share <= 0.66
    assert 0.13 <= report.similarity.jaccard_consecutive <= 0.17
    assert 0.26 <= report.cache.hit_rate <= 0.30
    from kvtools.samples import SAMPLES

    last = tmp_path / "last.jsonl"
    last.write_bytes(b"".join(SAMPLES["shop-assistant"](values="last")))
    assert analyze(last).cache.hit_rate >= 0.72
