"""A warm-up set on a terminal: what it saves, beside the naive set and beside nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.coverage import coverage_lines
from kvtools.report.numbers import counted, percent, seconds, short

if TYPE_CHECKING:
    from kvtools.report.warmup import Start, WarmupReport

_SHOWN = 10


def render_warmup(report: WarmupReport, target: str | None = None) -> str:
    """Return the report as text; ``target`` is where the lines were written."""
    lines = [report.conclusion, *(f"  {line}" for line in _basis(report))]
    if report.warmup.items:
        lines += ["", *_starts(report), "", *_curve(report), "", *_items(report)]
    lines += _left_out(report)
    if target is not None and report.warmup.items:
        lines += ["", f"Next: kvtools warmup send {target} --url http://HOST:PORT --verify"]
    return "\n".join(lines) + "\n"


def _basis(report: WarmupReport) -> list[str]:
    warmup, judged, budget = report.warmup, report.evaluation, report.warmup.budget
    size = "unlimited cache" if budget.capacity_blocks is None else counted(budget.capacity_blocks, "block")
    ahead = counted(warmup.horizon.requests, "request")
    if warmup.horizon.seconds is not None:
        ahead += f" ({seconds(warmup.horizon.seconds)})"
    judged_on = (
        f"judged on the {counted(judged.requests, 'request')} it was built from: these figures are optimistic"
        if judged.optimistic
        else f"built on the first {counted(warmup.built_on_requests, 'request')}, "
        f"judged on the {judged.requests:,} after them"
    )
    used = len(report.inputs) and sum(one.requests for one in report.inputs)
    cost = f"{short(budget.used_tokens)} tokens to compute, {counted(budget.used_blocks, 'block')}"
    return [
        judged_on,
        f"{report.settings.tokenizer} · block {warmup.block_size} · {size} · horizon {ahead}",
        f"sends {counted(budget.used_queries, 'request')}: {cost}",
        *coverage_lines(report.coverage, used),
    ]


def _starts(report: WarmupReport) -> list[str]:
    judged = report.evaluation
    rows = (("cold start", judged.cold), ("naive top-K", judged.topk), ("warm-up set", judged.warm))
    head = f"{'Start':<14}{'hit rate':>9}{'tokens saved':>15}{'requests sent':>15}{'tokens spent':>14}"
    return [head, *(_start(name, one) for name, one in rows)]


def _start(name: str, one: Start) -> str:
    return f"{name:<14}{percent(one.hit_rate):>9}{one.saved_tokens:>15,}{one.queries:>15,}{one.spent_tokens:>14,}"


def _curve(report: WarmupReport) -> list[str]:
    head = f"{'First requests':<16}{'cold':>8}{'top-K':>9}{'warm':>9}{'saved so far':>15}"
    return [
        head,
        *(
            f"{point.requests:<16,}{percent(point.cold_hit_rate):>8}{percent(point.topk_hit_rate):>9}"
            f"{percent(point.warm_hit_rate):>9}{point.warm_saved_tokens:>15,}"
            for point in report.evaluation.curve
        ),
    ]


def _items(report: WarmupReport) -> list[str]:
    items = sorted(report.warmup.items, key=lambda one: -one.expected_saved_tokens)
    lines = [f"{'Prefix':<14}{'tokens':>8}{'members':>9}{'expected saving':>17}  made of"]
    for item in items[:_SHOWN]:
        fate = "" if item.survives else "  WOULD NOT SURVIVE"
        lines.append(
            f"{item.id:<14}{item.tokens:>8,}{item.members:>9,}{item.expected_saved_tokens:>17,}"
            f"  {_FORMS[item.form]}{fate}"
        )
    if len(items) > _SHOWN:
        lines.append(f"and {len(items) - _SHOWN:,} more (--format json lists all)")
    return lines


_FORMS = {
    "cut": "messages, the last cut",
    "messages": "whole messages",
    "member": "a whole request of the log",
    "text": "text",
    "ids": "token ids",
    "blocks": "block ids (nothing to send)",
}


def _left_out(report: WarmupReport) -> list[str]:
    warmup = report.warmup
    if not warmup.left_out:
        return []
    lines = ["", f"Left out: {counted(warmup.left_out_count, 'prefix', 'prefixes')}"]
    return lines + [
        f"  {one.tokens:,} tokens, {counted(one.members, 'member')}, "
        f"expected saving {one.expected_saved_tokens:,}: {one.reason}"
        for one in warmup.left_out[:3]
    ]
