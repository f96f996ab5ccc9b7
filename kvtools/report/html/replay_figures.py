"""A replay as drawings: what each engine counted, over all and over time, and why requests differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.report.html.drawing import BLUE, GREEN, LEGEND, ORANGE, RATE, Drawing, axes, when
from kvtools.report.html.visible import plot_label
from kvtools.report.words import told

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.replay import ReplayReport

REASONS_DRAWN = 8
_LINES = ((BLUE, "solid", "circle"), (GREEN, "dash", "diamond"))


def replay_drawings(report: ReplayReport, t: Callable[[str], str]) -> list[Drawing | None]:
    """Return the drawings of a replay."""
    return [_rates(report, t), _tokens(report, t), _over_time(report, t), _reasons(report, t)]


def _rates(report: ReplayReport, t: Callable[[str], str]) -> Drawing:
    """Return the rate of each engine. Where two are compared, over the requests that both counted."""
    names = [plot_label(one.engine) for one in report.replays]
    rates = [one.hit_rate for one in report.replays]
    title = t("Hit rate by engine")
    if report.compare is not None:
        rates = [report.compare.predicted_hit_rate, report.compare.observed_hit_rate]
        names = [f"{names[0]} ({t('predicted')})", f"{names[1]} ({t('counted')})"]
        title = t("Predicted and counted")
    return Drawing(
        "engines",
        title,
        "; ".join(f"{name}: {rate or 0:.2%}" for name, rate in zip(names, rates, strict=True)),
        {
            "data": [
                {
                    "type": "bar", "x": names, "y": rates, "texttemplate": "%{y:.2%}",
                    "marker": {"color": [BLUE, GREEN][: len(names)]},
                }
            ],
            "layout": axes("", t("hit rate"), y=RATE),
        },
    )  # fmt: skip


def _tokens(report: ReplayReport, t: Callable[[str], str]) -> Drawing:
    names = [plot_label(one.engine) for one in report.replays]
    parts = (
        (t("hit"), [one.hit_tokens for one in report.replays], BLUE),
        (t("computed"), [one.prefill_tokens for one in report.replays], ORANGE),
    )
    return Drawing(
        "engine_tokens",
        t("Tokens hit and computed"),
        "; ".join(f"{name}: {', '.join(f'{count:,}' for count in counts)}" for name, counts, _ in parts),
        {
            "data": [
                {"type": "bar", "name": name, "x": names, "y": counts, "marker": {"color": color}}
                for name, counts, color in parts
            ],
            "layout": {**axes("", t("tokens"), barmode="stack"), **LEGEND},
        },
    )


def _over_time(report: ReplayReport, t: Callable[[str], str]) -> Drawing | None:
    """Return the rate of each engine over time; an engine that tells only a total has no line."""
    told_of = [one for one in report.replays if one.over_time]
    if not told_of:
        return None
    data: list[dict[str, Any]] = []
    clock = told_of[0].over_time[0].from_us is not None
    for one, (color, dash, symbol) in zip(told_of, _LINES, strict=False):
        data.append(
            {
                "type": "scatter", "mode": "lines+markers", "name": plot_label(one.engine), "connectgaps": False,
                "x": [n if w.from_us is None else when(w.from_us, 0) for n, w in enumerate(one.over_time)],
                "y": [window.hit_rate for window in one.over_time],
                "line": {"color": color, "dash": dash}, "marker": {"size": 5, "symbol": symbol},
            }
        )  # fmt: skip
    name = t("time (UTC)") if clock else t("part of the log")
    return Drawing(
        "engines_over_time",
        t("Hit rate over time"),
        f"{t('Hit rate over time')}: {', '.join(plot_label(one.engine) for one in told_of)}",
        {"data": data, "layout": {**axes(name, t("hit rate"), y=RATE), **LEGEND}},
    )


def _reasons(report: ReplayReport, t: Callable[[str], str]) -> Drawing | None:
    if report.compare is None or not report.compare.reasons:
        return None
    listed = sorted(report.compare.reasons.items(), key=lambda entry: entry[1])[-REASONS_DRAWN:]
    names = [plot_label(told(reason), 60) for reason, _ in listed]
    counts = [count for _, count in listed]
    return Drawing(
        "reasons",
        t("Why requests differ"),
        "; ".join(f"{name}: {count:,}" for name, count in zip(names, counts, strict=True)),
        {
            "data": [
                {"type": "bar", "orientation": "h", "y": names, "x": counts, "marker": {"color": ORANGE}}
            ],
            "layout": axes(t("requests"), "", y={"automargin": True}, height=90 + 36 * len(listed)),
        },
    )
