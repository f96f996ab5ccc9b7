"""The report of a replay on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.compare import differences, headline
from kvtools.report.numbers import counted, percent, short

if TYPE_CHECKING:
    from kvtools.report.replay import Replay, ReplayReport


def render_replay(report: ReplayReport) -> str:
    """Return the report as text: the answer, what it rests on, each engine, and what differs."""
    lines = [_headline(report), *(f"  {line}" for line in _basis(report)), ""]
    for replay in report.replays:
        lines += [*_engine(replay), *(f"  {note}" for note in replay.notes)]
    if report.compare is not None and report.compare.different_requests:
        lines += ["", *differences(report.compare)]
    return "\n".join(lines) + "\n"


def _headline(report: ReplayReport) -> str:
    first = report.replays[0]
    if report.compare is not None:
        return headline(report.compare)
    hit = percent(first.hit_rate)
    return f"{hit} of prompt tokens hit the prefix cache ({first.engine}, {first.start_state} start)."


def _basis(report: ReplayReport) -> list[str]:
    scheduler, coverage, first = report.scheduler, report.coverage, report.replays[0]
    size = "unlimited cache" if first.capacity_blocks is None else counted(first.capacity_blocks, "block")
    how = {
        "sequential": "one request at a time",
        "closed": "all queued at the start",
        "log": "by the log's clock",
    }
    cache = f"block {first.block_size}, {scheduler.rules} rules · {size}"
    gone = (
        (coverage.rejected, "rejected"),
        (coverage.without_prompt, "without prompt"),
        (coverage.duplicates, "duplicates"),
    )
    lines = [
        f"{counted(report.requests, 'request')} · {short(first.queried_tokens)} prompt tokens",
        f"{report.settings.tokenizer} · {cache}",
        f"{how[scheduler.arrivals]} · outputs: {scheduler.outputs}",
        f"read {coverage.read:,} records: " + ", ".join(f"{count:,} {what}" for count, what in gone),
    ]
    if scheduler.free_partial_blocks == "last":
        lines.append("blocks that are not full are reused last, as in vLLM before May 2026")
    if scheduler.commit == "finished":
        lines.append("a block can be hit once its request has finished: another engine than vLLM")
    if scheduler.step_time:
        lines.append(f"step time {scheduler.step_time}")
    if report.requests < report.log_requests:
        lines.append(
            f"whole sessions: {report.requests:,} of the log's {counted(report.log_requests, 'request')}"
        )
    if coverage.rejected:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in coverage.rejected_by_reason.items())
        lines.append(f"rejected: {reasons} (--rejects FILE lists them)")
    if coverage.skipped_files:
        lines.append(f"{counted(len(coverage.skipped_files), 'file')} skipped: no known format")
    return lines


def _engine(replay: Replay) -> list[str]:
    line = (
        f"{replay.engine:<14} {replay.hit_tokens:,} of {replay.queried_tokens:,} tokens hit "
        f"({percent(replay.hit_rate)}), {replay.start_state} start"
    )
    told = [
        f"{count:,} {what}"
        for count, what in ((replay.evictions, "evictions"), (replay.preemptions, "preemptions"))
        if count is not None
    ]
    if replay.refused_requests:
        told.append(f"{replay.refused_requests:,} refused")
    if replay.block_utilization is not None:
        told.append(f"blocks {percent(replay.block_utilization)} filled")
    return [line, f"{'':<14} {', '.join(told)}"] if told else [line]
