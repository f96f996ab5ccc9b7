"""A warm-up set on a terminal: what it saves, beside the naive set and beside nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.compare import left_out
from kvtools.report.coverage import coverage_lines
from kvtools.report.layout import left, right
from kvtools.report.numbers import counted, percent, seconds, short
from kvtools.report.phrases import size_of
from kvtools.report.words import phrase, say, spoken, told

if TYPE_CHECKING:
    from kvtools.report.warmup import Start, WarmupReport

_SHOWN = 10


def render_warmup(report: WarmupReport, target: str | None = None, lang: str = "en") -> str:
    """Return the report as text in ``lang``; ``target`` is where the lines were written."""
    with spoken(lang):
        return "\n".join(_lines(report, target)) + "\n"


def _lines(report: WarmupReport, target: str | None) -> list[str]:
    lines = [told(report.conclusion), *(f"  {line}" for line in _basis(report))]
    if report.warmup.items:
        lines += ["", *_starts(report), "", *_curve(report), "", *_items(report)]
    lines += [*_left_out(report), *_ahead(report)]
    if target is not None and report.warmup.items:
        lines += ["", f"{say('Next: ')}kvtools warmup send {target} --url http://HOST:PORT --verify"]
    return lines


def _basis(report: WarmupReport) -> list[str]:
    warmup, judged, budget = report.warmup, report.evaluation, report.warmup.budget
    ahead = counted(warmup.horizon.requests, "request")
    if warmup.horizon.seconds is not None:
        ahead += f" ({seconds(warmup.horizon.seconds)})"
    if judged.optimistic:
        sentence = phrase("judged on the {requests} it was built from: these figures are optimistic")
        judged_on = say(sentence, requests=counted(judged.requests, "request"))
    else:
        judged_on = say(
            "built on the first {requests}, judged on the {later} after them",
            requests=counted(warmup.built_on_requests, "request"),
            later=f"{judged.requests:,}",
        )
    used = len(report.inputs) and sum(one.requests for one in report.inputs)
    block = say("block {size}", size=warmup.block_size)
    horizon = say("horizon {ahead}", ahead=ahead)
    return [
        judged_on,
        f"{told(report.settings.tokenizer)} · {block} · {size_of(budget.capacity_blocks)} · {horizon}",
        *_rehearsed(report),
        say(
            "sends {requests}: {tokens} tokens to compute, {blocks}",
            requests=counted(budget.used_queries, "request"),
            tokens=short(budget.used_tokens),
            blocks=counted(budget.used_blocks, "block"),
        ),
        *coverage_lines(report.coverage, used),
    ]


def _rehearsed(report: WarmupReport) -> list[str]:
    warmup = report.warmup
    if not warmup.rehearsed_restarts:
        return []
    restarts = counted(warmup.rehearsed_restarts, "restart")
    best = {
        by: max(way.saved_tokens for way in warmup.ways if way.by == by) for by in {w.by for w in warmup.ways}
    }
    return [
        say(
            "chosen by {way}; tokens saved at {restarts} within the first part: {saved}",
            way=say(warmup.chosen_by),
            restarts=restarts,
            saved=", ".join(f"{say(by)} {saved:,}" for by, saved in sorted(best.items())),
        )
    ]


def _starts(report: WarmupReport) -> list[str]:
    judged = report.evaluation
    rows = (
        (phrase("cold start"), judged.cold),
        (phrase("naive top-K"), judged.topk),
        (phrase("warm-up set"), judged.warm),
    )
    head = (
        f"{left(say('Start'), 14)}{right(say('hit rate'), 9)}{right(say('tokens saved'), 15)}"
        f"{right(say('requests sent'), 15)}{right(say('tokens spent'), 14)}"
    )
    return [head, *(_start(say(name), one) for name, one in rows)]


def _start(name: str, one: Start) -> str:
    rate = right(percent(one.hit_rate), 9)
    return f"{left(name, 14)}{rate}{one.saved_tokens:>15,}{one.queries:>15,}{one.spent_tokens:>14,}"


def _curve(report: WarmupReport) -> list[str]:
    head = (
        f"{left(say('First requests'), 16)}{right(say('cold'), 8)}{right('top-K', 9)}{right(say('warm'), 9)}"
        f"{right(say('saved so far'), 15)}"
    )
    return [
        head,
        *(
            f"{point.requests:<16,}{right(percent(point.cold_hit_rate), 8)}"
            f"{right(percent(point.topk_hit_rate), 9)}{right(percent(point.warm_hit_rate), 9)}"
            f"{point.warm_saved_tokens:>15,}"
            for point in report.evaluation.curve
        ),
    ]


def _items(report: WarmupReport) -> list[str]:
    items = sorted(report.warmup.items, key=lambda one: -one.expected_saved_tokens)
    head = f"{left(say('Prefix'), 14)}{right(say('tokens'), 8)}{right(say('members'), 9)}"
    lines = [f"{head}{right(say('expected saving'), 17)}  {say('made of')}"]
    for item in items[:_SHOWN]:
        fate = "" if item.survives else "  " + say("WOULD NOT SURVIVE")
        lines.append(
            f"{item.id:<14}{item.tokens:>8,}{item.members:>9,}{item.expected_saved_tokens:>17,}"
            f"  {say(_FORMS[item.form])}{fate}"
        )
    return [*lines, *left_out(len(items) - _SHOWN, "")]


_FORMS = {
    "cut": phrase("messages, the last cut"),
    "messages": phrase("whole messages"),
    "member": phrase("a whole request of the log"),
    "text": phrase("text"),
    "ids": phrase("token ids"),
    "blocks": phrase("block ids (nothing to send)"),
}


def _ahead(report: WarmupReport) -> list[str]:
    ahead = report.ahead
    if ahead is None:
        return []
    lines = ["", told(ahead.conclusion)]
    if ahead.later_asked_share is not None:
        sentence = phrase("in the later part the same windows of {periods} asked for {share} of these")
        periods, share = counted(ahead.later_periods, "period"), percent(ahead.later_asked_share)
        lines.append("  " + say(sentence, periods=periods, share=share))
    for item in ahead.items[:_SHOWN]:
        asked = say(
            "asked for in {asked} of {periods}", asked=f"{item.asked_periods:,}", periods=ahead.periods
        )
        lines.append(f"  {item.id:<14}{asked}")
    return [*lines, *left_out(len(ahead.items) - _SHOWN, "  ")]


def _left_out(report: WarmupReport) -> list[str]:
    warmup = report.warmup
    if not warmup.left_out:
        return []
    prefixes = counted(warmup.left_out_count, "prefix", "prefixes")
    return ["", say("Left out: {prefixes}", prefixes=prefixes)] + [
        "  "
        + say(
            "{tokens} tokens, {members}, expected saving {saving}: {reason}",
            tokens=f"{one.tokens:,}",
            members=counted(one.members, "member"),
            saving=f"{one.expected_saved_tokens:,}",
            reason=told(one.reason),
        )
        for one in warmup.left_out[:3]
    ]
