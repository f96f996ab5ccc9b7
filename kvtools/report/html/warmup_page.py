"""The page of a warm-up set: what it saves from the first request on, and what it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.report.coverage import coverage_lines
from kvtools.report.html.drawing import BLUE, GREY, LEGEND, ORANGE, RATE, Drawing, axes
from kvtools.report.html.shell import ROWS_SHOWN, decoded, filled
from kvtools.report.words import spoken, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.warmup import WarmupReport


def render_warmup_html(report: WarmupReport, *, lang: str = "en", command: str | None = None) -> str:
    """Return the report of a warm-up set as one HTML page in ``lang``; ``command`` made it.

    Raises:
        UsageError: a language that the page is not written in.
    """
    # What saves most stands first; the order of sending is a column.
    items = sorted(enumerate(report.warmup.items), key=lambda one: -one[1].expected_saved_tokens)
    used = sum(one.requests for one in report.inputs)
    t = words(lang)
    with spoken(lang):
        return filled(
            "warmup.html.j2",
            decoded(report),
            [_cold_start(report, t), _saved(report, t)],
            lang,
            r=report,
            coverage=coverage_lines(report.coverage, used),
            items=items[:ROWS_SHOWN],
            items_left=max(len(items) - ROWS_SHOWN, 0),
            command=command,
        )


def _cold_start(report: WarmupReport, t: Callable[[str], str]) -> Drawing | None:
    """Return the hit rate so far after the first requests, for each start."""
    curve = report.evaluation.curve
    if not curve:
        return None
    places = [point.requests for point in curve]
    lines = (
        (t("cold start"), [point.cold_hit_rate for point in curve], GREY, "dot", "x"),
        (t("naive top-K"), [point.topk_hit_rate for point in curve], ORANGE, "dash", "diamond"),
        (t("warm-up set"), [point.warm_hit_rate for point in curve], BLUE, "solid", "circle"),
    )
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": name, "x": places, "y": rates,
            "line": {"color": color, "dash": dash, "width": 2}, "marker": {"size": 7, "symbol": symbol},
        }
        for name, rates, color, dash, symbol in lines
    ]  # fmt: skip
    layout = axes(t("first requests"), t("hit rate so far"), x={"type": "log"}, y=RATE)
    said = "; ".join(
        f"{count:,}: {', '.join(f'{name} {rates[n] or 0:.1%}' for name, rates, *_ in lines)}"
        for n, count in enumerate(places)
    )
    title = t("The cold start, request by request")
    return Drawing("cold_start", title, said, {"data": data, "layout": {**layout, **LEGEND}})


def _saved(report: WarmupReport, t: Callable[[str], str]) -> Drawing | None:
    curve = report.evaluation.curve
    if not curve:
        return None
    places = [point.requests for point in curve]
    lines = (
        (t("naive top-K"), [point.topk_saved_tokens for point in curve], ORANGE, "dash", "diamond"),
        (t("warm-up set"), [point.warm_saved_tokens for point in curve], BLUE, "solid", "circle"),
    )
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines+markers", "name": name, "x": places, "y": saved,
            "line": {"color": color, "dash": dash, "width": 2}, "marker": {"size": 7, "symbol": symbol},
        }
        for name, saved, color, dash, symbol in lines
    ]  # fmt: skip
    layout = axes(t("first requests"), t("tokens saved so far"), x={"type": "log"}, y={"rangemode": "normal"})
    said = "; ".join(f"{name}: {saved[-1]:,}" for name, saved, *_ in lines)
    return Drawing("saved", t("Tokens saved so far"), said, {"data": data, "layout": {**layout, **LEGEND}})
