"""The page itself: its template filled with figures that name where in the report they stand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kvtools.report import numbers
from kvtools.report.coverage import coverage_lines
from kvtools.report.findings_text import SHOWN, what
from kvtools.report.html.figures import drawings
from kvtools.report.html.visible import visible
from kvtools.report.html.words import LANGUAGES, words
from kvtools.resources import bundled_templates

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.findings import Finding
    from kvtools.report.model import Report

_FOLDER = bundled_templates() / "report"
ROWS_SHOWN = 200
"""Rows of a table: more routes or findings than a person looks through stand in the JSON."""

FORMS: dict[str, Callable[[Any], str]] = {
    "percent": numbers.percent,
    "ratio": numbers.ratio,
    "count": lambda count: "n/a" if count is None else f"{count:,}",
    "short": lambda count: "n/a" if count is None else numbers.short(count),
    "whole": lambda value: "n/a" if value is None else f"{value:,.0f}",
}


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
    t = words(lang)
    values = json.loads(report.to_json())
    drawn = drawings(report, t)
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            r=report,
            t=t,
            n=lambda path, form: _number(values, path, form),
            what=lambda finding: t(what(finding)),
            period=_period(report),
            coverage=coverage_lines(report.coverage, report.requests),
            drawings=drawn,
            specs=[(name, _embedded(drawing.spec)) for name, drawing in drawn.items()],
            need=next(
                (n for n, need in enumerate(report.cache_needed) if need.share_of_ceiling == 0.9), None
            ),
            command=command,
            tag=LANGUAGES[lang],
            **_rows(report, everything=everything),
            **_own_files(with_plotly=bool(drawn)),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["v"] = visible
    return environment


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


def _own_files(*, with_plotly: bool) -> dict[str, Markup]:
    """Return style and scripts: our own files and the library's, which are not escaped."""
    return {
        "css": Markup((_FOLDER / "page.css").read_text(encoding="utf-8")),  # noqa: S704
        "script": Markup((_FOLDER / "page.js").read_text(encoding="utf-8")),  # noqa: S704
        "plotly": Markup(_plotly() if with_plotly else ""),  # noqa: S704
    }


def _plotly() -> str:
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - heavy

    # A page may hold no "</script" but its own; in the library it can only stand in a string.
    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _number(values: dict[str, Any], path: str, form: str) -> Markup:
    """Return a figure of the report that says where it stands there and what it is exactly."""
    value: Any = values
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return Markup('<span class="n" data-json="{}" data-value="{}">{}</span>').format(
        path, json.dumps(value), FORMS[form](value)
    )


def _embedded(spec: dict[str, Any]) -> Markup:
    """Return JSON that can stand in a script element, whatever text is in it."""
    text = json.dumps(spec, ensure_ascii=True, allow_nan=False)
    for char, code in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, code)
    return Markup(text)  # noqa: S704 - no character that HTML reads is left in it


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
        "title": visible(f"{what(finding)} · {finding.cluster} {finding.route or ''}"),
        "before": Markup("… {} …").format(inline),
        "after": Markup("… {} …\n{}").format(marks, behind),
        "fix": escape(visible(finding.fix, 200)),
    }
