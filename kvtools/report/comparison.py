"""Two reports side by side, before and after: the figures that both have, and the causes that came and went."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvtools import __version__
from kvtools.errors import InputError
from kvtools.report.findings_text import what
from kvtools.report.markdown import plain
from kvtools.report.model import SCHEMA_VERSION
from kvtools.report.words import phrase, say, spoken, told

if TYPE_CHECKING:
    from kvtools.report.findings import Finding
    from kvtools.report.model import Report

Unit = Literal["share", "ratio", "tokens", "blocks", "requests"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure before and after; ``change`` is after - before, ``None`` where one of them is not known."""

    name: str
    unit: Unit
    before: float | int | None
    after: float | int | None
    change: float | int | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``differences`` are settings in which the reports differ, so that their rates are not about the same thing."""

    schema_version: int
    kvtools_version: str
    figures: list[Row]
    routes: list[Row]
    causes_gone: list[str]
    causes_new: list[str]
    differences: list[str]

    def to_json(self) -> str:
        """Return the comparison as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def compare_reports(before: Report, after: Report) -> Comparison:
    """Return what changed between two reports.

    Raises:
        InputError: one of them has no request with a prompt.
    """
    if before.cache is None or after.cache is None:
        raise InputError(
            "a report on requests without prompts has no hit rate to compare; compare two that have."
        )
    old, new = {r.route: r for r in before.routes}, {r.route: r for r in after.routes}
    # A report made without findings does not say that there are none.
    diagnosed = before.findings is not None and after.findings is not None
    was, now = (_causes(before), _causes(after)) if diagnosed else ({}, {})
    return Comparison(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        figures=_figures(before, after),
        routes=[
            _row(name, "share", old[name].cache.hit_rate, new[name].cache.hit_rate)
            for name in old
            if name in new
        ],
        causes_gone=[title for key, title in was.items() if key not in now],
        causes_new=[title for key, title in now.items() if key not in was],
        differences=_differences(before, after),
    )


def _figures(before: Report, after: Report) -> list[Row]:
    def rate_of(report: Report) -> float | None:
        return None if report.cache is None else report.cache.hit_rate

    def ceiling_of(report: Report) -> float | None:
        return None if report.ceiling is None else report.ceiling.hit_rate

    def jaccard_of(report: Report) -> float | None:
        return None if report.similarity is None else report.similarity.jaccard_consecutive

    def needed_by(report: Report) -> int | None:
        return next((n.capacity_blocks for n in report.cache_needed if n.share_of_ceiling == 0.9), None)

    return [
        _row(phrase("hit rate"), "share", rate_of(before), rate_of(after)),
        _row(phrase("unlimited cache"), "share", ceiling_of(before), ceiling_of(after)),
        _row(phrase("within reach"), "share", _reach(before), _reach(after)),
        _row(phrase("variable text"), "share", before.variable_share, after.variable_share),
        _row(phrase("Jaccard of text"), "ratio", jaccard_of(before), jaccard_of(after)),
        _row(phrase("blocks for 90 %"), "blocks", needed_by(before), needed_by(after)),
        _row(phrase("prompt tokens"), "tokens", _tokens(before), _tokens(after)),
        _row(phrase("requests"), "requests", before.requests, after.requests),
    ]


def _row(name: str, unit: Unit, before: float | None, after: float | None) -> Row:
    change = None if before is None or after is None else after - before
    return Row(name=name, unit=unit, before=before, after=after, change=change)


def _reach(report: Report) -> float | None:
    return None if report.reachable is None else report.reachable.hit_rate


def _tokens(report: Report) -> int | None:
    return None if report.prompt_tokens is None else report.prompt_tokens.total


def _causes(report: Report) -> dict[tuple[str, str | None, str], str]:
    """Return the causes worth advice by what stays when the log changes: kind, route and section."""

    def key(finding: Finding) -> tuple[str, str | None, str]:
        return what(finding), finding.route, finding.section

    ranked = [f for f in report.findings or [] if f.severity != "info"]
    return {key(f): " · ".join(filter(None, (what(f), f.route, f.section))) for f in ranked}


def _differences(before: Report, after: Report) -> list[str]:
    pairs = [
        *((name, getattr(before.settings, name), getattr(after.settings, name)) for name in _SETTINGS),
        *((name, getattr(before.cache, name), getattr(after.cache, name)) for name in _CACHE),
    ]
    return [f"{name}: {old} / {new}" for name, old, new in pairs if old != new]


_SETTINGS = ("tokenizer", "chat_template", "measure_from")
_CACHE = ("model", "block_size", "capacity_blocks", "rules", "outputs")


def shown(row: Row, value: float | None, *, signed: bool = False) -> str:
    """Return a figure of a row for people; a change of a share is in points."""
    if value is None:
        return say("n/a")
    sign = "+" if signed else ""
    if row.unit == "share":
        points = f"{100 * value:{sign}.1f}"
        return say("{points} pt", points=points) if signed else f"{points} %"
    return f"{value:{sign}.2f}" if row.unit == "ratio" else f"{value:{sign},}"


def render_comparison(found: Comparison, lang: str = "en") -> str:
    """Return the comparison in ``lang`` for a terminal."""
    with spoken(lang):
        return _rendered(found)


def _rendered(found: Comparison) -> str:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=34)
    for name in (phrase("before"), phrase("after"), phrase("change")):
        table.add_column(say(name), justify="right", no_wrap=True)
    named = [(say(row.name), row) for row in found.figures] + [(row.name, row) for row in found.routes]
    for name, row in named:
        figures = shown(row, row.before), shown(row, row.after), shown(row, row.change, signed=True)
        table.add_row(Text(name), *figures)
    lines = [
        *(say("gone: {cause}", cause=_told_cause(cause)) for cause in found.causes_gone),
        *(say("new: {cause}", cause=_told_cause(cause)) for cause in found.causes_new),
        *(say("NOT THE SAME SETTINGS: {difference}", difference=one) for one in found.differences),
    ]
    page = io.StringIO()
    Console(file=page, width=80, highlight=False).print(table)
    return "\n".join([line.rstrip() for line in page.getvalue().splitlines()] + lines) + "\n"


def _told_cause(cause: str) -> str:
    return " · ".join(map(told, cause.split(" · ")))


def comparison_markdown(found: Comparison) -> str:
    """Return the comparison as Markdown."""
    rows = [
        f"| {plain(row.name)} | {shown(row, row.before)} | {shown(row, row.after)} "
        f"| {shown(row, row.change, signed=True)} |"
        for row in (*found.figures, *found.routes)
    ]
    notes = [
        *(f"- gone: {plain(cause)}" for cause in found.causes_gone),
        *(f"- new: {plain(cause)}" for cause in found.causes_new),
        *(f"- **not the same settings:** {plain(difference, 200)}" for difference in found.differences),
    ]
    return (
        "\n".join(["| | before | after | change |", "|---|--:|--:|--:|", *rows, "", *notes]).rstrip() + "\n"
    )
