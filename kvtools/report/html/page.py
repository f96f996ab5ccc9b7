"""The page of a log: the answer, what breaks the prefix, the cache, the traffic, and what it all is based on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from kvtools.report import numbers
from kvtools.report.coverage import coverage_lines
from kvtools.report.findings_text import SHOWN, named
from kvtools.report.headline import headline_of, replayed
from kvtools.report.html.figures import drawings
from kvtools.report.html.shell import ROWS_SHOWN, decoded, filled
from kvtools.report.html.visible import visible
from kvtools.report.words import say, spoken, told, words

if TYPE_CHECKING:
    from kvtools.report.findings import Finding
    from kvtools.report.model import Report


def render_html(
    report: Report, *, lang: str = "en", command: str | None = None, everything: bool = False
) -> str:
    """Return the report as one HTML page in ``lang`` that opens without a network.

    ``command`` is the one that made the report, to run it again. ``everything`` lists the findings that cost next to
    nothing as well. The page carries the text that the report carries: values are masked unless it was made with
    ``--show-text``.

    Raises:
        UsageError: a language that the page is not written in.
    """
    found = replayed(report)
    with spoken(lang):
        return filled(
            "page.html.j2",
            decoded(report),
            drawings(report, words(lang)).values(),
            lang,
            r=report,
            headline="" if found is None else headline_of(found),
            named=named,
            period=_period(report),
            coverage=coverage_lines(report.coverage, report.requests),
            need=next(
                (n for n, need in enumerate(report.cache_needed) if need.share_of_ceiling == 0.9), None
            ),
            steps=_steps(report),
            command=command,
            **_rows(report, everything=everything),
        )


def _rows(report: Report, *, everything: bool) -> dict[str, Any]:
    """Return the rows of the tables with their places in the report, and how many were left out."""
    findings = report.findings or []
    listed = [(place, f) for place, f in enumerate(findings) if everything or f.severity != "info"][
        :ROWS_SHOWN
    ]
    return {
        "findings": listed,
        "findings_left": len(findings) - len(listed),
        "before_after": [_before_after(f) for _, f in listed[:SHOWN] if f.fields],
        "routes": list(enumerate(report.routes))[:ROWS_SHOWN],
        "routes_left": max(len(report.routes) - ROWS_SHOWN, 0),
    }


def _steps(report: Report) -> list[str]:
    """Return what each step of the best combination does, in the words of its findings."""
    if report.reachable is None:
        return []
    found = {finding.id: finding for finding in report.findings or []}
    return [
        say("; ").join(
            visible(f"{found[one].cluster}: {told(found[one].fix)}" if one in found else one, 160)
            for one in step.findings
        )
        for step in report.reachable.fixes
    ]


def _period(report: Report) -> str:
    covered = report.period or report.traffic.period
    return (
        "" if covered is None else numbers.period(covered.first_us, covered.last_us, covered.utc_offset_min)
    )


def _before_after(finding: Finding) -> dict[str, Any]:
    """Return how a prompt reads before the fix and after it: places and values, no other text."""
    values = [(visible(each.name), each.examples[0] if each.examples else "…") for each in finding.fields]
    inline = Markup(" ").join(Markup("<mark>{}</mark>").format(visible(value)) for _, value in values)
    marks = Markup(" ").join(Markup("<mark>{{{}}}</mark>").format(name) for name, _ in values)
    behind = Markup("\n").join(
        Markup("{}: <mark>{}</mark>").format(name, visible(value)) for name, value in values
    )
    return {
        "title": visible(f"{named(finding)} · {finding.cluster} {finding.route or ''}"),
        "before": Markup("… {} …").format(inline),
        "after": Markup("… {} …\n{}").format(marks, behind),
        "fix": escape(visible(told(finding.fix), 200)),
    }
