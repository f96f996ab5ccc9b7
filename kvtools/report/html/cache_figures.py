"""The cache as drawings: hit rate over time and by size, why tokens missed, and what the server counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.report.html.drawing import BLUE, GREEN, GREY, ORANGE, RATE, Drawing, axes, when

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.model import Cache, CurvePoint, Report

GIB_TICKS = 6


def over_time(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the hit rate and the number of requests over time."""
    if not report.over_time:
        return None
    windows = report.over_time
    offset = report.period.utc_offset_min if report.period else 0
    clock = windows[0].from_us is not None
    places: list[Any] = [
        number if window.from_us is None else when(window.from_us, offset)
        for number, window in enumerate(windows)
    ]
    rates = [window.hit_rate for window in windows]
    known = [rate for rate in rates if rate is not None]
    layout = axes(t("time") if clock else t("part of the log"), t("hit rate"), y=RATE)
    layout["yaxis2"] = {
        "title": {"text": t("requests")}, "overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False,
    }  # fmt: skip
    return Drawing(
        "over_time",
        t("Hit rate over time"),
        f"{t('Hit rate over time')}: {min(known, default=0):.1%} - {max(known, default=0):.1%}",
        {
            "data": [
                {
                    "type": "bar", "x": places, "y": [w.requests for w in windows], "yaxis": "y2",
                    "name": t("requests"), "marker": {"color": GREY, "opacity": 0.35},
                },
                {
                    "type": "scatter", "mode": "lines+markers", "x": places, "y": rates, "name": t("hit rate"),
                    "line": {"color": BLUE, "width": 2}, "marker": {"size": 4}, "connectgaps": False,
                },
            ],
            "layout": layout,
        },
    )  # fmt: skip


def curve(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the hit rate by cache size, in blocks and where a block's bytes are known in GiB, with today's marked."""
    cache, points = report.cache, report.curve
    if not points or cache is None:
        return None
    layout = axes(t("cache size in blocks"), t("hit rate"), x={"type": "log", "dtick": 1}, y=RATE)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines+markers", "line": {"color": BLUE, "shape": "spline", "width": 2},
            "x": [p.capacity_blocks for p in points], "y": [p.hit_rate for p in points], "name": t("hit rate"),
        }
    ]  # fmt: skip
    size, label = cache.capacity_blocks, t("now")
    if size is None:
        # Without a limit every block of the log fits: that is where the curve ends.
        size, label = points[-1].capacity_blocks, f"{label}: {t('unlimited')}"
    else:
        line = {"color": ORANGE, "dash": "dash"}
        layout["shapes"] = [
            {"type": "line", "x0": size, "x1": size, "y0": 0, "y1": 1, "yref": "paper", "line": line}
        ]
    left = size > points[0].capacity_blocks
    data.append(
        {
            "type": "scatter", "mode": "markers+text", "x": [size], "y": [cache.hit_rate], "text": [label],
            "textposition": "bottom left" if left else "bottom right", "name": label, "cliponaxis": False,
            "marker": {"color": ORANGE, "symbol": "diamond", "size": 11},
        }
    )  # fmt: skip
    _add_gibibytes(cache, points, layout, data)
    return Drawing(
        "curve",
        t("Hit rate by cache size"),
        f"{label}: {size:,}; " + ", ".join(f"{p.capacity_blocks:,}: {p.hit_rate or 0:.1%}" for p in points),
        {"data": data, "layout": layout},
    )


def _add_gibibytes(
    cache: Cache, points: list[CurvePoint], layout: dict[str, Any], data: list[dict[str, Any]]
) -> None:
    if cache.block_bytes is None:
        return
    step = -(-len(points) // GIB_TICKS)
    sizes = [point.capacity_blocks for point in points[::-1][::step]][::-1]
    layout["xaxis2"] = {
        "type": "log", "overlaying": "x", "matches": "x", "side": "top", "showgrid": False,
        "title": {"text": "GiB"}, "tickmode": "array", "tickvals": sizes,
        "ticktext": [f"{size * cache.block_bytes / 2**30:.3g}" for size in sizes],
    }  # fmt: skip
    layout["margin"] = {"l": 60, "r": 56, "t": 52, "b": 48}
    # An axis that no line uses is not drawn.
    data.append(
        {
            "type": "scatter", "mode": "lines", "xaxis": "x2", "x": sizes, "y": [None] * len(sizes),
            "hoverinfo": "skip",
        }
    )  # fmt: skip


def misses(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return why tokens missed."""
    found = report.misses
    if found is None:
        return None
    parts = (
        (t("first seen"), found.cold, GREY),
        (t("behind another prefix"), found.diverged, ORANGE),
        (t("evicted"), found.evicted, BLUE),
        (t("other"), found.other, GREEN),
    )
    shown = [(name, tokens, color) for name, tokens, color in parts if tokens]
    if not shown:
        return None
    return Drawing(
        "misses",
        t("Why tokens missed"),
        "; ".join(f"{name}: {tokens:,}" for name, tokens, _ in shown),
        {
            "data": [
                {
                    "type": "bar", "x": [name for name, _, _ in shown], "y": [tokens for _, tokens, _ in shown],
                    "marker": {"color": [color for _, _, color in shown]},
                }
            ],
            "layout": axes("", t("tokens")),
        },
    )  # fmt: skip


def observed(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the predicted rate beside the one that the server reported in the log."""
    seen = report.observed
    if seen is None:
        return None
    names, rates = (
        [t("predicted"), t("counted by the server")],
        [seen.predicted_hit_rate, seen.observed_hit_rate],
    )
    return Drawing(
        "observed",
        t("Predicted and counted"),
        "; ".join(f"{name}: {rate or 0:.1%}" for name, rate in zip(names, rates, strict=True)),
        {
            "data": [{"type": "bar", "x": names, "y": rates, "marker": {"color": [BLUE, GREEN]}}],
            "layout": axes("", t("hit rate"), y=RATE),
        },
    )
