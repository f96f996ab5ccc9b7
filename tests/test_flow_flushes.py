"""A server that lost its cache, by the hits that it reported: named with the time, and only where they show it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvtools.flow import AnalyzeOptions, analyze
from kvtools.report.text import render_text

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.verdict import VerdictFigures


def judged(folder: Path, cached: list[int], **options: float) -> tuple[VerdictFigures, str]:
    """Analyze two prompts of 100 tokens in turn, a minute apart, with the hits that the server told."""
    rows = [
        {
            "id": str(n),
            "ts": 60 * n,
            "prompt_token_ids": list(range(1000 * (n % 2), 1000 * (n % 2) + 100)),
            "cached_tokens": hit,
        }
        for n, hit in enumerate(cached)
    ]
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = analyze(log, AnalyzeOptions(**options))
    assert report.verdict is not None
    return report.verdict, render_text(report)


def test_the_time_of_a_flush_is_told(tmp_path: Path) -> None:
    verdict, page = judged(tmp_path, [0, 0, 96, 96, 96, 96, 0, 0, 96, 96])
    assert verdict.kind == "flushed"
    assert "emptied 1 time (at 360 s)" in verdict.sentence
    assert "192 tokens in all" in verdict.sentence
    assert "emptied 1 time (at 360 s)" in " ".join(page.split())


@pytest.mark.parametrize("cached", [[0, 0, *[96] * 8], [0, 0, 96, 96, 0, 96, 96, 96, 96, 96]])
def test_a_single_miss_or_none_is_no_flush(cached: list[int], tmp_path: Path) -> None:
    assert judged(tmp_path, cached)[0].kind != "flushed"


def test_a_part_of_a_log_is_not_judged(tmp_path: Path) -> None:
    assert judged(tmp_path, [0, 0, 96, 96, 96, 96, 0, 0, 96, 96], measure_from=0.2)[0].kind != "flushed"
