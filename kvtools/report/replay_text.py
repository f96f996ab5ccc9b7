"""The report of a replay on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.compare import differences, headline
from kvtools.report.coverage import read_line, rejected_line, skipped_line
from kvtools.report.numbers import counted, percent
from kvtools.report.phrases import prompt_tokens, size_of
from kvtools.report.words import phrase, say, spoken, told

if TYPE_CHECKING:
    from kvtools.report.replay import Replay, ReplayReport


def render_replay(report: ReplayReport, lang: str = "en") -> str:
    """Return the report as text in ``lang``: the answer, what it rests on, each engine, and what differs."""
    with spoken(lang):
        return "\n".join(_lines(report)) + "\n"


def _lines(report: ReplayReport) -> list[str]:
    lines = [_headline(report), *(f"  {line}" for line in _basis(report)), ""]
    for replay in report.replays:
        lines += [*_engine(replay), *(f"  {told(note)}" for note in replay.notes)]
    if report.compare is not None and report.compare.different_requests:
        lines += ["", *differences(report.compare)]
    return lines


def _headline(report: ReplayReport) -> str:
    first = report.replays[0]
    if report.compare is not None:
        return headline(report.compare)
    return say(
        "{rate} of prompt tokens hit the prefix cache ({engine}, {state} start).",
        rate=percent(first.hit_rate),
        engine=told(first.engine),
        state=told(first.start_state),
    )


def _basis(report: ReplayReport) -> list[str]:
    scheduler, coverage, first = report.scheduler, report.coverage, report.replays[0]
    cache = say("block {size}, {rules} rules", size=first.block_size, rules=told(scheduler.rules))
    lines = [
        f"{counted(report.requests, 'request')} · {prompt_tokens(first.queried_tokens)}",
        f"{told(report.settings.tokenizer)} · {cache} · {size_of(first.capacity_blocks)}",
        f"{say(_ARRIVALS[scheduler.arrivals])} · {say('outputs: {outputs}', outputs=told(scheduler.outputs))}",
        read_line(coverage),
    ]
    if scheduler.free_partial_blocks == "last":
        lines.append(say("blocks that are not full are reused last, as in vLLM before May 2026"))
    if scheduler.commit == "finished":
        lines.append(say("a block can be hit once its request has finished: another engine than vLLM"))
    if scheduler.step_time:
        lines.append(say("step time {model}", model=told(scheduler.step_time)))
    if report.requests < report.log_requests:
        some, requests = f"{report.requests:,}", counted(report.log_requests, "request")
        lines.append(say("whole sessions: {some} of the log's {requests}", some=some, requests=requests))
    return [*lines, *rejected_line(coverage), *skipped_line(coverage)]


_ARRIVALS = {
    "sequential": phrase("one request at a time"),
    "closed": phrase("all queued at the start"),
    "log": phrase("by the log's clock"),
}


def _engine(replay: Replay) -> list[str]:
    line = say(
        "{hit} of {queried} tokens hit ({rate}), {state} start",
        hit=f"{replay.hit_tokens:,}",
        queried=f"{replay.queried_tokens:,}",
        rate=percent(replay.hit_rate),
        state=told(replay.start_state),
    )
    counts = (
        (replay.evictions, phrase("{count} evictions")),
        (replay.preemptions, phrase("{count} preemptions")),
        (replay.refused_requests or None, phrase("{count} refused")),
    )
    further = [say(what, count=f"{count:,}") for count, what in counts if count is not None]
    if replay.block_utilization is not None:
        further.append(say("blocks {part} filled", part=percent(replay.block_utilization)))
    first = f"{replay.engine:<14} {line}"
    return [first, f"{'':<14} {say(', ').join(further)}"] if further else [first]
