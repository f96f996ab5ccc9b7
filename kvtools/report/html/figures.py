"""The drawings of a report's page as plotly figures in JSON, each from bounded lists of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.html.cache_figures import curve, misses, observed, over_time
from kvtools.report.html.class_figures import class_scatter, class_shares, hot_share
from kvtools.report.html.prefix_figures import findings, prefixes
from kvtools.report.html.traffic_figures import gaps, lengths, tiers

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.html.drawing import Drawing
    from kvtools.report.model import Report

_ALL = (
    over_time,
    curve,
    findings,
    misses,
    lengths,
    gaps,
    prefixes,
    tiers,
    observed,
    class_shares,
    class_scatter,
    hot_share,
)


def drawings(report: Report, t: Callable[[str], str]) -> dict[str, Drawing]:
    """Return the figures that this report has something to draw for, by name."""
    made = (draw(report, t) for draw in _ALL)
    return {drawing.name: drawing for drawing in made if drawing is not None}
