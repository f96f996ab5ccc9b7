"""Hot and cold as drawings: each class's shares, where its requests lie, and how much of the traffic is hot when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.report.heat import HOT_SHARE_LIMIT
from kvtools.report.html.drawing import BLUE, GREY, LEGEND, ORANGE, Drawing, axes, when
from kvtools.report.html.visible import plot_label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvtools.report.class_shape import ClassBin
    from kvtools.report.model import Report

_COLORS = {"hot": ORANGE, "cold": BLUE}
_SYMBOLS = {"hot": "circle", "cold": "diamond-open"}
_SHARE = {"tickformat": ".0%", "range": [0, 1]}
_LARGEST_PX = 34
_OPEN_END = 2**0.5
"""A last bin has no upper edge: it is drawn as wide as the others."""


def class_shares(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the shares of two classes, ``None`` where there is one or none."""
    if len(report.classes) < 2:
        return None
    names = [t("requests"), t("prompt tokens"), t("prefill work")]
    shares = [
        (
            plot_label(t(one.name)),
            [one.request_share, one.token_share, one.uncached_token_share],
            _COLORS.get(one.name, GREY),
        )
        for one in report.classes
    ]
    return Drawing(
        "classes",
        t("Hot and cold"),
        "; ".join(f"{name}: {', '.join(f'{part or 0:.0%}' for part in parts)}" for name, parts, _ in shares),
        {
            "data": [
                {
                    "type": "bar", "orientation": "h", "name": name, "y": names, "x": parts,
                    "marker": {"color": color}, "texttemplate": f"{name} %{{x:.0%}}", "textposition": "inside",
                }
                for name, parts, color in shares
            ],
            "layout": axes(t("share"), "", x=_SHARE, y={"automargin": True}, barmode="stack", height=220),
        },
    )  # fmt: skip


def hot_share(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return the share of hot requests over time, beside the share below which article B asks for action."""
    windows = report.class_windows
    if not windows:
        return None
    covered = report.period or report.traffic.period
    offset = covered.utc_offset_min if covered else 0
    clock = windows[0].from_us is not None
    places: list[Any] = [
        number if window.from_us is None else when(window.from_us, offset)
        for number, window in enumerate(windows)
    ]
    shares = [window.hot_share for window in windows]
    known = [share for share in shares if share is not None]
    layout = axes(t("time") if clock else t("part of the log"), t("share of hot requests"), y=_SHARE)
    line = {"color": GREY, "dash": "dot"}
    limit = HOT_SHARE_LIMIT
    layout["shapes"] = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit, "y1": limit, "line": line}
    ]
    return Drawing(
        "hot_share",
        t("Hot requests over time"),
        f"{t('share of hot requests')}: {min(known, default=0):.0%} - {max(known, default=0):.0%}",
        {
            "data": [
                {
                    "type": "scatter", "mode": "lines+markers", "x": places, "y": shares, "connectgaps": False,
                    "name": t("share of hot requests"), "line": {"color": ORANGE, "width": 2}, "marker": {"size": 4},
                    "customdata": [window.requests for window in windows],
                    "hovertemplate": f"%{{y:.1%}} · %{{customdata:,}} {t('requests')}<extra></extra>",
                }
            ],
            "layout": layout,
        },
    )  # fmt: skip


def class_scatter(report: Report, t: Callable[[str], str]) -> Drawing | None:
    """Return where the requests of each class lie, by prompt length and gap; by length alone without a clock."""
    bins = report.class_bins
    if not bins:
        return None
    timed = [one for one in bins if one.gap_at_least_s is not None]
    counts = {name: sum(one.requests for one in bins if one.name == name) for name in _COLORS}
    said = "; ".join(f"{t(name)}: {count:,} {t('requests')}" for name, count in counts.items())
    data, layout = _points(timed, t) if timed else _columns(bins, t)
    return Drawing(
        "class_scatter", t("Where hot and cold requests lie"), said, {"data": data, "layout": layout}
    )


def _points(bins: Sequence[ClassBin], t: Callable[[str], str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a marker for each cell, its area by the requests in it."""
    most = max(one.requests for one in bins)
    data = []
    for name, color in _COLORS.items():
        cells = [one for one in bins if one.name == name]
        data.append(
            {
                "type": "scatter", "mode": "markers", "name": t(name),
                "x": [_middle(one.tokens_at_least, one.tokens_below) for one in cells],
                "y": [_middle(one.gap_at_least_s or 0.0, one.gap_below_s) for one in cells],
                "customdata": [one.requests for one in cells],
                "hovertemplate": f"%{{customdata:,}} {t('requests')}<extra>%{{fullData.name}}</extra>",
                "marker": {
                    "color": color, "symbol": _SYMBOLS[name], "opacity": 0.7, "sizemode": "area", "sizemin": 3,
                    "sizeref": 2.0 * most / _LARGEST_PX**2, "size": [one.requests for one in cells],
                },
            }
        )  # fmt: skip
    layout = axes(
        t("prompt tokens"),
        t("seconds since the request before in its group"),
        x={"type": "log", "dtick": "D2"},
        y={"type": "log", "dtick": "D2", "rangemode": "normal"},
    )
    return data, {**layout, **LEGEND}


def _columns(
    bins: Sequence[ClassBin], t: Callable[[str], str]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a bar for each length: a log without a clock has no gaps."""
    edges = sorted({one.tokens_at_least for one in bins})
    data = []
    for name, color in _COLORS.items():
        by_edge = {one.tokens_at_least: one.requests for one in bins if one.name == name}
        data.append(
            {
                "type": "bar", "name": t(name), "x": [f"{edge:.3g}" for edge in edges],
                "y": [by_edge.get(edge, 0) for edge in edges], "marker": {"color": color},
            }
        )  # fmt: skip
    layout = axes(t("prompt tokens"), t("requests"), x={"type": "category"}, barmode="stack")
    return data, {**layout, **LEGEND}


def _middle(at_least: float, below: float | None) -> float:
    """Return the geometric middle of a bin; one that begins at 0 is drawn at half its end."""
    end = at_least * _OPEN_END**2 if below is None else below
    return end / 2 if at_least == 0 else float((at_least * end) ** 0.5)
