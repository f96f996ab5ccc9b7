"""Two reports side by side on one page: before and after a change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvtools.report.headline import headline_of, replayed
from kvtools.report.html.cache_figures import misses, over_time
from kvtools.report.html.drawing import BLUE, GREY, LEGEND, RATE, Drawing, axes
from kvtools.report.html.prefix_figures import findings
from kvtools.report.html.shell import ROWS_SHOWN, decoded, filled
from kvtools.report.html.traffic_figures import lengths
from kvtools.report.html.visible import plot_label
from kvtools.report.words import spoken, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kvtools.report.comparison import Comparison
    from kvtools.report.model import Report

ROUTES_DRAWN = 12
_BESIDE = (over_time, misses, findings, lengths)
"""Drawings of each report that stand beside each other."""
_FORMS = {
    "share": ("percent", "change"),
    "ratio": ("ratio", "ratio_change"),
    "tokens": ("count", "more_or_less"),
    "blocks": ("count", "more_or_less"),
    "requests": ("count", "more_or_less"),
}


def render_comparison_html(before: Report, after: Report, found: Comparison, *, lang: str = "en") -> str:
    """Return two reports side by side as one HTML page in ``lang``; ``found`` is what ``compare_reports`` says of them.

    Raises:
        UsageError: a language that the page is not written in.
    """
    values = {
        "comparison": decoded(found),
        "before": decoded(before),
        "after": decoded(after),
    }
    with spoken(lang):
        return filled(
            "compare.html.j2",
            values,
            _drawings(before, after, found, words(lang)),
            lang,
            c=found,
            sides=(("before", before, _headline(before)), ("after", after, _headline(after))),
            beside=[draw.__name__ for draw in _BESIDE],
            routes=list(enumerate(found.routes))[:ROWS_SHOWN],
            routes_left=max(len(found.routes) - ROWS_SHOWN, 0),
            forms=_FORMS,
        )


def _headline(report: Report) -> str:
    found = replayed(report)
    return "" if found is None else headline_of(found)


def _drawings(
    before: Report, after: Report, found: Comparison, t: Callable[[str], str]
) -> Iterator[Drawing | None]:
    yield _rates(found, t)
    yield _curves(before, after, t)
    yield _routes(found, t)
    for side, report in (("before", before), ("after", after)):
        for draw in _BESIDE:
            drawing = draw(report, t)
            if drawing is not None:
                name, title = f"{side}-{draw.__name__}", f"{drawing.title}: {t(side)}"
                yield replace(drawing, name=name, title=title)


def _rates(found: Comparison, t: Callable[[str], str]) -> Drawing:
    """Return all shares of the two reports as pairs of bars."""
    rows = [row for row in found.figures if row.unit == "share"]
    return _pairs("rates", t("Before and after"), [t(row.name) for row in rows], rows, t)


def _routes(found: Comparison, t: Callable[[str], str]) -> Drawing | None:
    rows = found.routes[:ROUTES_DRAWN]
    if not rows:
        return None
    return _pairs("routes", t("Routes"), [plot_label(row.name, 24) for row in rows], rows, t)


def _pairs(name: str, title: str, names: list[str], rows: Any, t: Callable[[str], str]) -> Drawing:
    sides = (
        (t("before"), [row.before for row in rows], GREY),
        (t("after"), [row.after for row in rows], BLUE),
    )
    said = "; ".join(f"{side}: {', '.join(f'{rate or 0:.1%}' for rate in rates)}" for side, rates, _ in sides)
    data = [
        {"type": "bar", "name": side, "x": names, "y": rates, "marker": {"color": color}}
        for side, rates, color in sides
    ]
    layout = {**axes("", t("share"), y=RATE, barmode="group"), **LEGEND}
    return Drawing(name, title, said, {"data": data, "layout": layout})


def _curves(before: Report, after: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return both hit curves over one axis of cache sizes."""
    sides = ((t("before"), before, GREY, "dash"), (t("after"), after, BLUE, "solid"))
    data = [
        {
            "type": "scatter", "mode": "lines+markers", "name": side, "line": {"color": color, "dash": dash},
            "x": [point.capacity_blocks for point in report.curve],
            "y": [point.hit_rate for point in report.curve],
        }
        for side, report, color, dash in sides
        if report.curve
    ]  # fmt: skip
    if not data:
        return None
    layout = axes(t("cache size in blocks"), t("hit rate"), x={"type": "log", "dtick": 1}, y=RATE)
    said = "; ".join(
        f"{side}: {', '.join(f'{point.capacity_blocks:,}: {point.hit_rate or 0:.1%}' for point in report.curve)}"
        for side, report, *_ in sides
    )
    return Drawing(
        "curves", t("Hit rate by cache size"), said, {"data": data, "layout": {**layout, **LEGEND}}
    )
