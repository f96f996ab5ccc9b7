"""Hot and cold on a page: two lines of classes, the rules on arrival, and what article B watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.numbers import counted, percent, seconds

if TYPE_CHECKING:
    from kvtools.report.heat import ClassFigures, HeatFigures
    from kvtools.report.model import Report

_SHOWN_CHARS = 160


def class_lines(report: Report) -> list[tuple[str, str]]:
    """Return labels and texts: the classes, each one's traffic, and the rules that tell them on arrival."""
    heat = report.heat
    if heat is None:
        return []
    if heat.n_classes == 1:
        return [("Classes", f"one class: {heat.reason}"), *_labelled("", _moved(heat))]
    parts = [
        f"{one.name} {_whole(one.request_share)}{' of requests' if first else ''}, "
        f"{_whole(one.uncached_token_share)}{' of prefill work' if first else ''}"
        for first, one in ((place == 0, one) for place, one in enumerate(report.classes))
    ]
    lines = [" · ".join(parts), *map(_traffic, report.classes), *_rules(heat), *_moved(heat), *_watched(heat)]
    return _labelled("Classes", lines)


def _labelled(label: str, lines: list[str]) -> list[tuple[str, str]]:
    return [("" if place else label, line) for place, line in enumerate(lines)]


def _whole(part: float | None) -> str:
    return "n/a" if part is None else f"{100 * part:.0f} %"


def _traffic(one: ClassFigures) -> str:
    parts = []
    if one.prompt_tokens is not None:
        parts.append(f"{one.prompt_tokens.p50:,.0f} tokens (p95 {one.prompt_tokens.p95:,.0f})")
    if one.interarrival_s is not None:
        parts.append(f"next after {seconds(one.interarrival_s.p50)} (p95 {seconds(one.interarrival_s.p95)})")
    if one.hit_rate is not None:
        parts.append(f"{percent(one.hit_rate)} hit")
    if one.latency is not None:
        p50, p90, p99 = one.latency.p50_ms, one.latency.p90_ms, one.latency.p99_ms
        parts.append(f"latency p50 {p50:,.0f}, p90 {p90:,.0f}, p99 {p99:,.0f} ms")
    return f"{one.name}: {' · '.join(parts)}"


def _rules(heat: HeatFigures) -> list[str]:
    """Return the thresholds as sentences, and how far they can be trusted."""
    lines = []
    for rule in heat.rules:
        if rule.name.startswith("model-"):
            when = rule.when if len(rule.when) <= _SHOWN_CHARS else f"{rule.when[:_SHOWN_CHARS]}…"
            lines.append(f"{rule.label} on arrival: {when}")
    if not lines:
        return ["nothing that is known on arrival tells them apart"]
    judged = "" if heat.fidelity_holdout is None else f", {_whole(heat.fidelity_holdout)} on the last 30 %"
    return [*lines, f"so told rightly: {_whole(heat.fidelity)} of the first 70 % of the time{judged}"]


def _moved(heat: HeatFigures) -> list[str]:
    return [
        f"{counted(rule.moved, 'request')} made {rule.label} by rule: {rule.when}"
        for rule in heat.rules
        if rule.moved and not rule.name.startswith("model-")
    ]


def _watched(heat: HeatFigures) -> list[str]:
    lines = []
    if heat.cold_share is not None and heat.cold_share > heat.cold_share_limit:
        lines.append(
            f"cold share {_whole(heat.cold_share)}: above the {_whole(heat.cold_share_limit)} line of a shared queue"
        )
    if heat.hot_share_5s_p50 is not None:
        lines.append(
            f"hot in 5 s: {_whole(heat.hot_share_5s_p50)} (p50); below 70 % in "
            f"{_whole(heat.windows_below_70_share)} of the windows"
        )
    if heat.latency_limits:
        met = [limit.scenario for limit in heat.latency_limits if limit.met]
        lines.append(f"hot latency is within the limits of: {', '.join(met) or 'no scenario'}")
    return lines
