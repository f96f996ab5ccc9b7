"""The page of a replay: predicted against counted, engine by engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.compare import headline
from kvtools.report.coverage import coverage_lines
from kvtools.report.html.replay_figures import replay_drawings
from kvtools.report.html.shell import ROWS_SHOWN, decoded, filled
from kvtools.report.numbers import percent
from kvtools.report.words import say, spoken, told, words

if TYPE_CHECKING:
    from kvtools.report.replay import ReplayReport


def render_replay_html(report: ReplayReport, *, lang: str = "en", command: str | None = None) -> str:
    """Return the report of a replay as one HTML page in ``lang``; ``command`` made it.

    Raises:
        UsageError: a language that the page is not written in.
    """
    differences = [] if report.compare is None else report.compare.differences
    with spoken(lang):
        return filled(
            "replay.html.j2",
            decoded(report),
            replay_drawings(report, words(lang)),
            lang,
            r=report,
            headline=_headline(report),
            coverage=coverage_lines(report.coverage, report.requests),
            differences=list(enumerate(differences))[:ROWS_SHOWN],
            differences_left=max(len(differences) - ROWS_SHOWN, 0),
            command=command,
        )


def _headline(report: ReplayReport) -> str:
    if report.compare is not None:
        return headline(report.compare)
    first = report.replays[0]
    return say(
        "{rate} of prompt tokens hit the prefix cache ({engine}, {state} start).",
        rate=percent(first.hit_rate),
        engine=told(first.engine),
        state=told(first.start_state),
    )
