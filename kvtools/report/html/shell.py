"""What every page is made of: its template filled with figures that name where in the JSON they stand.

All pages extend one base, which brings the style, the script and, where something is drawn, plotly.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kvtools.report import numbers
from kvtools.report.html.visible import visible
from kvtools.report.words import LANGUAGES, spoken, told, words
from kvtools.resources import bundled_templates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kvtools.report.html.drawing import Drawing

_FOLDER = bundled_templates() / "report"
ROWS_SHOWN = 200
"""Rows of a table: more routes or findings than a person looks through stand in the JSON."""
INPUTS_SHOWN = 20

FORMS: dict[str, Callable[[Any], str]] = {
    "percent": numbers.percent,
    "ratio": numbers.ratio,
    "count": lambda count: "n/a" if count is None else f"{count:,}",
    "short": lambda count: "n/a" if count is None else numbers.short(count),
    "whole": lambda value: "n/a" if value is None else f"{value:,.0f}",
    "points": lambda value: "n/a" if value is None else f"{100 * value:.1f} pt",
    "change": lambda value: "n/a" if value is None else f"{100 * value:+.1f} pt",
    "more_or_less": lambda value: "n/a" if value is None else f"{value:+,}",
    "ratio_change": lambda value: "n/a" if value is None else f"{value:+.2f}",
    "seconds": lambda value: "n/a" if value is None else f"{value:,.1f} s",
    "mebibytes": lambda value: "n/a" if value is None else f"{value / 2**20:,.2f} MiB",
}
"""How a figure is written for people."""


def decoded(document: msgspec.Struct) -> dict[str, Any]:
    """Return what the JSON of a report holds, by which a page names its figures."""
    return msgspec.json.decode(msgspec.json.encode(document), type=dict[str, Any])


def filled(
    template: str, values: dict[str, Any], drawn: Iterable[Drawing | None], lang: str, **more: Any
) -> str:
    """Return a page: ``template`` filled with the figures in ``values`` (the JSON, decoded) and what is drawn.

    Raises:
        UsageError: a language that the page is not written in.
    """
    drawings = {drawing.name: drawing for drawing in drawn if drawing is not None}
    with spoken(lang):
        return (
            _environment()
            .get_template(template)
            .render(
                t=words(lang),
                n=lambda path, form: _number(values, path, form),
                drawings=drawings,
                specs=[(name, _embedded(drawing.spec)) for name, drawing in drawings.items()],
                tag=LANGUAGES[lang],
                rows_shown=ROWS_SHOWN,
                inputs_shown=INPUTS_SHOWN,
                **more,
                **_own_files(with_plotly=bool(drawings)),
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
    environment.filters["told"] = told
    return environment


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
