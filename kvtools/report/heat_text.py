"""Hot and cold on a page: two lines of classes, the rules on arrival, and what article B watches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.numbers import counted, percent, seconds
from kvtools.report.rules_text import burst
from kvtools.report.words import phrase, say, told

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
        only = say("one class: {reason}", reason=told(heat.reason))
        return [(say("Classes"), only), *_labelled("", [*_moved(heat), *_coming(report, heat)])]
    lines = [_shares(report), *map(_traffic, report.classes), *_likenesses(report.classes), *_rules(heat)]
    lines += [*_moved(heat), *_watched(heat), *_coming(report, heat)]
    return _labelled(say("Classes"), lines)


def _shares(report: Report) -> str:
    """Return each class's shares; what they are of is said once."""
    parts = []
    for place, one in enumerate(report.classes):
        shares = (_whole(one.request_share), _whole(one.uncached_token_share))
        if place:
            parts.append(f"{told(one.name)} {shares[0]}{say(', ')}{shares[1]}")
        else:
            said = phrase("{name} {requests} of requests, {work} of prefill work")
            parts.append(say(said, name=told(one.name), requests=shares[0], work=shares[1]))
    return " · ".join(parts)


def _labelled(label: str, lines: list[str]) -> list[tuple[str, str]]:
    return [("" if place else label, line) for place, line in enumerate(lines)]


def _whole(part: float | None) -> str:
    return say("n/a") if part is None else f"{100 * part:.0f} %"


def _traffic(one: ClassFigures) -> str:
    parts = []
    if one.prompt_tokens is not None:
        p50, p95 = f"{one.prompt_tokens.p50:,.0f}", f"{one.prompt_tokens.p95:,.0f}"
        parts.append(say("{p50} tokens (p95 {p95})", p50=p50, p95=p95))
    if one.interarrival_s is not None:
        p50, p95 = seconds(one.interarrival_s.p50), seconds(one.interarrival_s.p95)
        parts.append(say("next after {p50} (p95 {p95})", p50=p50, p95=p95))
    if one.hit_rate is not None:
        parts.append(say("{rate} hit", rate=percent(one.hit_rate)))
    if one.latency is not None:
        p50, p90, p99 = (f"{ms:,.0f}" for ms in (one.latency.p50_ms, one.latency.p90_ms, one.latency.p99_ms))
        parts.append(say("latency p50 {p50}, p90 {p90}, p99 {p99} ms", p50=p50, p90=p90, p99=p99))
    return f"{told(one.name)}{say(': ')}{' · '.join(parts)}"


def _coming(report: Report, heat: HeatFigures) -> list[str]:
    """Return when the next cold burst is likely; where the log has no cold requests there is nothing to say."""
    if heat.forecast is None or not heat.cold_share:
        return []
    covered = report.period or report.traffic.period
    coming = burst(heat.forecast, covered.utc_offset_min if covered else 0)
    return [say("next cold burst: {burst}", burst=coming)]


def _likenesses(classes: list[ClassFigures]) -> list[str]:
    """Return what the prompts of each class have in common, where that is known."""
    lines = []
    for one in classes:
        parts = []
        if one.variable_share is not None:
            parts.append(say("variable {part}", part=percent(one.variable_share)))
        if one.prefix_jaccard_consecutive is not None:
            prefix = f"{one.prefix_jaccard_consecutive:.2f}"
            if one.jaccard_consecutive is None:
                parts.append(say("Jaccard {prefix} of prefix", prefix=prefix))
            else:
                text = f"{one.jaccard_consecutive:.2f}"
                parts.append(say("Jaccard {text} of text, {prefix} of prefix", text=text, prefix=prefix))
        if one.reuse_blocks is not None:
            p50, p95 = f"{one.reuse_blocks.p50:,.0f}", f"{one.reuse_blocks.p95:,.0f}"
            parts.append(say("reused after {p50} blocks (p95 {p95})", p50=p50, p95=p95))
        if parts:
            lines.append(f"{told(one.name)}{say(': ')}{' · '.join(parts)}")
    return lines


def _rules(heat: HeatFigures) -> list[str]:
    """Return the thresholds as sentences, and how far they can be trusted."""
    lines = []
    for rule in heat.rules:
        if rule.name.startswith("model-"):
            when = rule.when if len(rule.when) <= _SHOWN_CHARS else f"{rule.when[:_SHOWN_CHARS]}…"
            lines.append(say("{label} on arrival: {when}", label=told(rule.label), when=_when(when)))
    if not lines:
        return [say("nothing that is known on arrival tells them apart")]
    learnt, later = _whole(heat.fidelity), _whole(heat.fidelity_holdout)
    judged = say("so told rightly: {learnt} of the first 70 % of the time", learnt=learnt)
    if heat.fidelity_holdout is not None:
        judged += say(", {later} on the last 30 %", later=later)
    return [*lines, judged]


def _when(when: str) -> str:
    """Return the conditions of a rule, joined in the language that is spoken."""
    return say(" and ").join(when.split(" and "))


def _moved(heat: HeatFigures) -> list[str]:
    return [
        say(
            "{requests} made {label} by rule: {when}",
            requests=counted(rule.moved, "request"),
            label=told(rule.label),
            when=_when(rule.when),
        )
        for rule in heat.rules
        if rule.moved and not rule.name.startswith("model-")
    ]


def _watched(heat: HeatFigures) -> list[str]:
    lines = []
    if heat.cold_share is not None:
        share, limit = _whole(heat.cold_share), _whole(heat.cold_share_limit)
        if heat.cold_share > heat.cold_share_limit:
            line = say(
                "cold share {share}: above the {limit} line of a shared queue", share=share, limit=limit
            )
        else:
            line = say(
                "cold share {share}: within the {limit} line of a shared queue", share=share, limit=limit
            )
        lines.append(line)
    if heat.hot_share_5s_p50 is not None:
        share, below = _whole(heat.hot_share_5s_p50), _whole(heat.windows_below_70_share)
        lines.append(
            say("hot in 5 s: {share} (p50); below 70 % in {below} of the windows", share=share, below=below)
        )
    if heat.latency_limits:
        met = [told(limit.scenario) for limit in heat.latency_limits if limit.met]
        names = say(", ").join(met) or say("no scenario")
        lines.append(say("hot latency is within the limits of: {scenarios}", scenarios=names))
    return lines
