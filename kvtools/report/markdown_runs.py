"""A replay and a warm-up set as Markdown, for a pull request or a wiki."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.compare import headline
from kvtools.report.coverage import coverage_lines
from kvtools.report.markdown import plain
from kvtools.report.numbers import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.report.replay import ReplayReport
    from kvtools.report.warmup import WarmupReport

REASONS_SHOWN = 10


def replay_markdown(report: ReplayReport) -> str:
    """Return the report of a replay as GitHub's Markdown: the answer, the engines, why requests differ."""
    first, found = report.replays[0], report.compare
    answer = f"{percent(first.hit_rate)} of prompt tokens hit the prefix cache ({first.engine})."
    rows = [
        f"| {plain(one.engine)} | {plain(one.start_state)} | {percent(one.hit_rate)} | {one.hit_tokens:,} "
        f"| {one.queried_tokens:,} | {one.refused_requests:,} |"
        for one in report.replays
    ]
    reasons = [] if found is None else list(found.reasons.items())
    return _page(
        answer if found is None else headline(found),
        ["| engine | start | hit rate | hit | queried | refused |", "|---|---|--:|--:|--:|--:|", *rows],
        [f"- {count:,} requests differ: {plain(reason, 200)}" for reason, count in reasons[:REASONS_SHOWN]],
        coverage_lines(report.coverage, report.requests),
    )


def warmup_markdown(report: WarmupReport) -> str:
    """Return the report of a warm-up set as GitHub's Markdown: what it saves, beside the naive set and nothing."""
    judged = report.evaluation
    starts = (("cold start", judged.cold), ("naive top-K", judged.topk), ("warm-up set", judged.warm))
    rows = [
        f"| {name} | {percent(one.hit_rate)} | {one.saved_tokens:,} | {one.queries:,} | {one.spent_tokens:,} |"
        for name, one in starts
    ]
    used = sum(one.requests for one in report.inputs)
    return _page(
        report.conclusion,
        [
            "| start | hit rate | tokens saved | requests sent | tokens spent |",
            "|---|--:|--:|--:|--:|",
            *rows,
        ],
        [] if report.ahead is None else [f"{plain(report.ahead.conclusion, 500)}", ""],
        coverage_lines(report.coverage, used),
    )


def _page(answer: str, table: Sequence[str], notes: Sequence[str], coverage: Sequence[str]) -> str:
    lines = [
        f"**{plain(answer, 500)}**",
        "",
        *table,
        "",
        *notes,
        *(f"- {plain(line, 300)}" for line in coverage),
    ]
    return "\n".join(lines) + "\n"
