"""A page of two million requests is as large as one of two thousand: it holds aggregates and never rows."""

from __future__ import annotations

import runpy
from pathlib import Path

from kvtools.report.html import render_html
from kvtools.report.html.shell import ROWS_SHOWN

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_does_not_grow_with_the_log() -> None:
    draw = runpy.run_path(str(ROOT / "benchmarks/page.py"))
    few, many = (draw["synthetic_report"](draw[name]) for name in ("FEW", "MANY"))
    assert (few.requests, many.requests) == (2_000, 2_000_000)
    # Nothing was left out of the figures to keep them small.
    for report in (few, many):
        for counted in (
            report.over_time,
            report.histograms.prompt_tokens,
            report.class_windows,
            report.class_bins,
        ):
            assert sum(one.requests for one in counted) == report.requests
    assert len(many.routes) > ROWS_SHOWN > len(few.routes)
    small, large = (len(render_html(report).encode()) for report in (few, many))
    assert small * 0.8 < large < small * 1.2
    assert max(small, large) < 6_000_000
