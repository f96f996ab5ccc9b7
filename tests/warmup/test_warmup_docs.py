"""Every JSON name of a warm-up report is defined, and the table in the docs is the benchmark's size."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtools.report import warmup, warmup_send

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    warmup.WarmupItem, warmup.Way, warmup.LeftOut, warmup.Budget, warmup.Horizon, warmup.Warmup, warmup.Start, warmup.CurvePoint,
    warmup.Evaluation, warmup.AheadItem, warmup.Ahead, warmup_send.SentItem, warmup_send.SendReport,
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_name_is_defined(part: type) -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    section = text[text.index("## Warm-up") : text.index("## KV memory")]
    for name in part.__struct_fields__:  # type: ignore[attr-defined]
        assert name in section or f"`{name}`" in text, name


def test_the_table_has_every_cell() -> None:
    rows = [line.split("|") for line in (ROOT / "docs/warmup.md").read_text().splitlines()]
    cells = [row for row in rows if len(row) == 10 and row[3].strip().isdecimal()]
    assert len(cells) == 4 * 4 * 5  # logs, cache sizes, budgets
    ratios = {
        int(row[3]): float(row[6])
        for row in cells
        if (row[1].strip(), row[2].strip()) == ("peers 2,000", "unlimited")
    }
    assert min(ratios[20], ratios[50]) >= 1.2
