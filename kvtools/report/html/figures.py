"""The drawings of the page as plotly figures in JSON, each from bounded lists of the report."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from kvtools.report.findings_text import what
from kvtools.report.html.class_figures import class_shares
from kvtools.report.html.drawing import BLUE, GREEN, GREY, ORANGE, Drawing, axes
from kvtools.report.html.visible import plot_label
from kvtools.report.verdict import TRACE_LIMIT_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.model import Report
    from kvtools.report.shape import Bin

FINDINGS_DRAWN = 12


def drawings(report: Report, t: Callable[[str], str]) -> dict[str, Drawing]:
    """Return the figures that this report has something to draw for, by name."""
    made = (
        _over_time(report, t),
        _curve(report, t),
        _findings(report, t),
        _misses(report, t),
        _lengths(report, t),
        _gaps(report, t),
        _prefixes(report, t),
        _tiers(report, t),
        _observed(report, t),
        class_shares(report, t),
    )
    return {drawing.name: drawing for drawing in made if drawing is not None}


_RATE = {"tickformat": ".0%", "range": [0, 1]}


def _over_time(report: Report, t: Callable[[str], str]) -> Drawing | None:
    if not report.over_time:
        return None
    windows = report.over_time
    offset = report.period.utc_offset_min if report.period else 0
    clock = windows[0].from_us is not None
    places: list[Any] = [
        number if window.from_us is None else _when(window.from_us, offset)
        for number, window in enumerate(windows)
    ]
    rates = [window.hit_rate for window in windows]
    known = [rate for rate in rates if rate is not None]
    layout = axes(t("time") if clock else t("part of the log"), t("hit rate"), y=_RATE)
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


def _when(us: int, offset_min: int) -> float | str:
    if us < TRACE_LIMIT_US:
        return us / 1e6
    zone = timezone(timedelta(minutes=offset_min))
    return datetime.fromtimestamp(us / 1e6, zone).strftime("%Y-%m-%d %H:%M:%S")


def _curve(report: Report, t: Callable[[str], str]) -> Drawing | None:
    if not report.curve or report.cache is None:
        return None
    size = report.cache.capacity_blocks
    layout = axes(t("cache size in blocks"), t("hit rate"), x={"type": "log", "dtick": 1}, y=_RATE)
    if size is not None:
        line = {"color": ORANGE, "dash": "dash"}
        layout["shapes"] = [
            {"type": "line", "x0": size, "x1": size, "y0": 0, "y1": 1, "yref": "paper", "line": line}
        ]
    return Drawing(
        "curve",
        t("Hit rate by cache size"),
        ", ".join(f"{p.capacity_blocks:,}: {p.hit_rate or 0:.1%}" for p in report.curve),
        {
            "data": [
                {
                    "type": "scatter", "mode": "lines+markers", "line": {"color": BLUE, "shape": "spline", "width": 2},
                    "x": [p.capacity_blocks for p in report.curve], "y": [p.hit_rate for p in report.curve],
                }
            ],
            "layout": layout,
        },
    )  # fmt: skip


def _findings(report: Report, t: Callable[[str], str]) -> Drawing | None:
    ranked = [f for f in report.findings or [] if f.severity != "info" and f.tokens_lost is not None]
    ranked = ranked[:FINDINGS_DRAWN][::-1]
    if not ranked:
        return None
    names = [
        f"{len(ranked) - place}. {plot_label(what(f))} · {plot_label(f.cluster, 12)}"
        for place, f in enumerate(ranked)
    ]
    return Drawing(
        "findings",
        t("What each cause costs"),
        "; ".join(f"{name}: {f.tokens_lost:,}" for name, f in zip(names, ranked, strict=True)),
        {
            "data": [
                {
                    "type": "bar", "orientation": "h", "y": names, "x": [f.tokens_lost for f in ranked],
                    "marker": {"color": ORANGE},
                }
            ],
            "layout": axes(t("tokens lost"), "", y={"automargin": True}, height=90 + 28 * len(ranked)),
        },
    )  # fmt: skip


def _misses(report: Report, t: Callable[[str], str]) -> Drawing | None:
    misses = report.misses
    if misses is None:
        return None
    parts = (
        (t("first seen"), misses.cold, GREY),
        (t("behind another prefix"), misses.diverged, ORANGE),
        (t("evicted"), misses.evicted, BLUE),
        (t("other"), misses.other, GREEN),
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


def _lengths(report: Report, t: Callable[[str], str]) -> Drawing | None:
    title = t("Prompt length")
    return _histogram("lengths", title, t("prompt tokens"), t, report.histograms.prompt_tokens)


def _gaps(report: Report, t: Callable[[str], str]) -> Drawing | None:
    title = t("Time between requests")
    return _histogram("gaps", title, t("seconds"), t, report.histograms.interarrival_s)


def _histogram(name: str, title: str, unit: str, t: Callable[[str], str], bins: list[Bin]) -> Drawing | None:
    if not bins:
        return None
    edges = [f"{bin_.at_least:.3g} - {bin_.below:.3g}" for bin_ in bins]
    most = max(bins, key=lambda bin_: bin_.requests)
    return Drawing(
        name,
        title,
        f"{title}: {most.at_least:.3g} - {most.below:.3g} {unit}: {most.requests:,} {t('requests')}",
        {
            "data": [
                {"type": "bar", "x": edges, "y": [bin_.requests for bin_ in bins], "marker": {"color": BLUE}}
            ],
            "layout": axes(
                unit, t("requests"), x={"type": "category", "tickangle": -45, "nticks": 10}, bargap=0.05
            ),
        },
    )


def _prefixes(report: Report, t: Callable[[str], str]) -> Drawing | None:
    nodes = report.prefix_tree
    if not nodes:
        return None
    labels = [plot_label(node.route or "", 24) or f"{node.tokens:,} {t('tokens')}" for node in nodes]
    hits = [None if n.hit_tokens is None else n.hit_tokens / n.prompt_tokens for n in nodes]
    said = f"{len(nodes)} {t('shared prefixes')}"
    return Drawing(
        "prefixes",
        t("Shared prefixes"),
        said,
        {
            "data": [
                {
                    "type": "icicle", "root": {"color": "rgba(0,0,0,0)"}, "branchvalues": "total", "maxdepth": 5,
                    "ids": [str(n) for n in range(len(nodes))],
                    "parents": ["" if node.parent is None else str(node.parent) for node in nodes],
                    "labels": labels,
                    "values": [node.below_prompt_tokens for node in nodes],
                    "customdata": [
                        [node.first_token, node.tokens, node.requests, "n/a" if hit is None else f"{hit:.1%}"]
                        for node, hit in zip(nodes, hits, strict=True)
                    ],
                    "hovertemplate": f"%{{label}}<br>{t('from token')} %{{customdata[0]:,}}: %{{customdata[1]:,}} "
                    f"{t('tokens')}<br>%{{customdata[2]:,}} {t('requests')}<br>{t('hit rate')} %{{customdata[3]}}"
                    "<extra></extra>",
                    "marker": {
                        "colors": [0 if hit is None else hit for hit in hits], "cmin": 0, "cmax": 1,
                        "colorscale": [[0, "#fdd0a2"], [1, "#6baed6"]], "showscale": True,
                        "colorbar": {"title": {"text": t("hit rate")}, "tickformat": ".0%"},
                    },
                    "textfont": {"color": "#111"},
                }
            ],
            "layout": {"height": 420, "margin": {"l": 8, "r": 8, "t": 8, "b": 8}},
        },
    )  # fmt: skip


def _tiers(report: Report, t: Callable[[str], str]) -> Drawing | None:
    if report.sessions is None:
        return None
    tiers = report.sessions.tiers
    names = [
        f"{tier.above_tokens:,} - {'∞' if tier.up_to_tokens is None else format(tier.up_to_tokens, ',')}"
        for tier in tiers
    ]
    hit, computed = [tier.hit_tokens for tier in tiers], [tier.computed_tokens for tier in tiers]
    parts = ((t("hit"), hit, BLUE), (t("computed"), computed, ORANGE))
    return Drawing(
        "tiers",
        t("Conversations by prompt length"),
        "; ".join(
            f"{name}: {tier.requests:,} {t('requests')}" for name, tier in zip(names, tiers, strict=True)
        ),
        {
            "data": [
                {"type": "bar", "name": name, "x": names, "y": tokens, "marker": {"color": color}}
                for name, tokens, color in parts
            ],
            "layout": {**axes(t("prompt tokens"), t("tokens"), barmode="stack"), "showlegend": True},
        },
    )


def _observed(report: Report, t: Callable[[str], str]) -> Drawing | None:
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
            "layout": axes("", t("hit rate"), y=_RATE),
        },
    )
