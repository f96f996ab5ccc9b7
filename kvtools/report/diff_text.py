"""The reports of ``kvtools diff`` on a terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from kvtools.report.explain_text import basis, excerpt_lines, in_language, printable, shown_name, where
from kvtools.report.numbers import counted, percent, short
from kvtools.report.words import say, spoken

if TYPE_CHECKING:
    from kvtools.report.diff import DiffedLog, LogDiff, RequestChange, RequestDiff

CHANGES_SHOWN = 5
BLOCKS_SHOWN = 3


def render_request_diff(report: RequestDiff, lang: str = "en") -> str:
    """Return two requests side by side as text in ``lang``."""
    a, b = (shown_name(side.request) for side in (report.a, report.b))
    length, block_size = report.a.request.prompt_tokens, report.cache.block_size
    lines = []
    if report.outcome == "equal":
        lines.append(f"{a} and {b} are equal: {counted(length, 'token')}.")
    elif report.parting is None:
        shorter, longer = (a, b) if report.outcome == "a_begins_b" else (b, a)
        lines.append(f"{longer} begins with all of {shorter}: {counted(report.shared_tokens, 'token')}.")
    else:
        lines.append(f"{a} and {b} part {where(report.parting, length, block_size)}.")
        lines += excerpt_lines(report.parting, (a, b))
    if not report.same_namespace:
        lines.append("They never share a block: model, adapter or salt differ.")
    else:
        lines.append(
            f"They share {counted(report.shared_blocks, 'block')} of {block_size:,} tokens"
            + (
                "; no full block of both differs."
                if report.first_different_block is None
                else f"; block {report.first_different_block:,} (from 0) is the first that differs."
            )
        )
    if report.identical_tokens_behind is not None and report.parting is not None:
        lines.append(f"Behind it {counted(report.identical_tokens_behind, 'token')} are identical again.")
    for side, name in ((report.a, a), (report.b, b)):
        tokens = counted(side.request.prompt_tokens, "token")
        lines.append(f"  {name}: {tokens}, {side.hit_tokens:,} hit · {printable(side.request.source)}")
    lines += basis(report.settings, report.cache, report.coverage)
    return "\n".join(in_language(lines, lang)) + "\n"


def render_log_diff(report: LogDiff, lang: str = "en") -> str:
    """Return two logs side by side as text in ``lang``."""
    lines = [
        f"Hit rate {_rates(report)}, each log alone from an empty cache.",
        *_log("A", report.a),
        *_log("B", report.b),
        *_heads(report),
        *_matched(report),
        *(_change(change) for change in report.changes[:CHANGES_SHOWN]),
    ]
    more = len(report.changes) - CHANGES_SHOWN
    if more > 0:
        lines.append(f"  and {more:,} more (--format json lists all)")
    with spoken(lang):
        following = _next(report)
    return "\n".join([*in_language(lines, lang), *following]) + "\n"


def _rates(report: LogDiff) -> str:
    rates = f"{percent(report.a.hit_rate)} → {percent(report.b.hit_rate)}"
    change = report.hit_rate_change
    return rates if change is None else f"{rates} ({100 * change:+.1f} points)"


def _log(name: str, log: DiffedLog) -> list[str]:
    paths = ", ".join(printable(entry.path) for entry in log.inputs[:3]) + (
        ", …" if len(log.inputs) > 3 else ""
    )
    size = f"{short(log.prompt_tokens)} prompt tokens · {log.hit_tokens:,} hit"
    head = f"all begin with the same {counted(log.common_head_tokens, 'token')}"
    return [
        f"{name}  {counted(log.requests, 'request')} · {size}",
        f"   {paths}",
        f"   {head}" if log.common_head_tokens else "   they have no beginning in common",
        *(f" {line}" for line in basis(log.settings, log.cache, log.coverage)),
    ]


def _heads(report: LogDiff) -> list[str]:
    if report.shared_head_tokens is None:
        return [
            "Blocks cannot be compared: other block sizes, or text in one log and block ids in the other."
        ]
    heads = report.a.common_head_tokens, report.b.common_head_tokens
    shared = report.shared_head_tokens
    if shared == max(heads):
        return [f"Both logs begin with the same {counted(shared, 'token')}."] if shared else []
    size = report.a.cache.block_size
    if not min(heads):
        return []
    if shared == min(heads):
        return [
            f"The shorter of the two common heads ({shared:,} of {max(heads):,} tokens) begins the longer one."
        ]
    return [f"The common heads part at token {shared:,}, in block {shared // size:,} (from 0)."]


def _matched(report: LogDiff) -> list[str]:
    if report.matched_by is None:
        return ["No request id is in both logs: single requests cannot be compared."]
    same = report.matched_requests - report.more_requests - report.less_requests
    both = f"{counted(report.matched_requests, 'request')} in both (by {report.matched_by})"
    hits = f"{report.more_requests:,} hit more in B, {report.less_requests:,} less, {same:,} the same"
    lines = [
        f"{both}: {hits}.",
        f"{report.only_a_requests:,} only in A, {report.only_b_requests:,} only in B.",
    ]
    if report.equal_prompts is not None:
        firsts = sorted(report.first_different_blocks, key=lambda entry: (-entry.requests, entry.block))
        named = ", ".join(
            f"block {entry.block:,} in {counted(entry.requests, 'request')}"
            for entry in firsts[:BLOCKS_SHOWN]
        )
        more = f" and {len(firsts) - BLOCKS_SHOWN:,} other blocks" if len(firsts) > BLOCKS_SHOWN else ""
        first = f"; first different (from 0): {named}{more}" if named else ""
        lines.append(f"{counted(report.equal_prompts, 'prompt')} equal in every full block{first}.")
        if report.a.settings.tokenizer_check == "not needed":
            lines.append("Block ids are compared as logged: it takes the same hash and key in both logs.")
    return lines


def _change(change: RequestChange) -> str:
    name = printable(change.id or change.a_source)
    block = (
        ""
        if change.first_different_block is None
        else f" · differs from block {change.first_different_block:,}"
    )
    delta = change.b_hit_tokens - change.a_hit_tokens
    return (
        f"  {name}  {delta:+,} tokens: {change.a_hit_tokens:,} of {change.a_prompt_tokens:,} → "
        f"{change.b_hit_tokens:,} of {change.b_prompt_tokens:,}{block}"
    )


def _next(report: LogDiff) -> list[str]:
    first = next((change for change in report.changes if change.first_different_block is not None), None)
    if first is None or len(report.a.inputs) != 1 or len(report.b.inputs) != 1:
        return []
    paths = report.a.inputs[0].path, report.b.inputs[0].path
    if "<stdin>" in paths:
        return []
    return ["", say("Next: ") + shlex.join(["kvtools", "diff", first.a_source, first.b_source, *paths])]
