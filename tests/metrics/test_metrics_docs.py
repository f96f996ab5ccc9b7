"""Every JSON name of ``analyze metrics`` and ``watch`` is defined, and every verdict described."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from kvtools.monitor.agreement import Kind
from kvtools.monitor.query_faults import Rule
from kvtools.report import metrics, query_lint, watch

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    metrics.MetricsReport, metrics.WindowFigures, metrics.EngineFigures, metrics.KvUsage, metrics.Stopped,
    metrics.PredictedFigures, metrics.MetricsVerdict, watch.LogTick, watch.ServerTick, watch.Stretch, watch.Worst,
    query_lint.QueryLintReport, query_lint.QueryCounts, query_lint.LintedQuery, query_lint.QueryFinding,
)  # fmt: skip


@pytest.fixture(scope="module")
def sections() -> str:
    text = (ROOT / "docs/metrics.md").read_text()
    start = text.index("## Counters of engines")
    return text[start : text.find("\n## ", text.index("## Watch", start) + 1) % (len(text) + 1)]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_json_name_is_defined(part: type, sections: str) -> None:
    for name in part.__struct_fields__:  # type: ignore[attr-defined]
        assert f"{name}`" in sections, name


def test_every_verdict_is_described() -> None:
    text = (ROOT / "docs/monitoring.md").read_text()
    for kind in get_args(Kind):
        assert f"| `{kind}` |" in text, kind


def test_every_rule_of_queries_is_described() -> None:
    text = (ROOT / "docs/monitoring.md").read_text()
    for rule in get_args(Rule):
        assert f"| `{rule}`" in text, rule
