"""The report as Markdown, for a pull request or a wiki: the answer, the causes, what it is based on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvtools.report.coverage import coverage_lines
from kvtools.report.findings_text import SHOWN, what
from kvtools.report.headline import headline_of, replayed
from kvtools.report.html.visible import visible
from kvtools.report.numbers import percent, ratio, short

if TYPE_CHECKING:
    from kvtools.report.model import Report

ROUTES_SHOWN = 10
_READ_BY_MARKDOWN = re.compile(r"([\\`*_{}\[\]()+!|~$-])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;&#8203;", "#": "&#35;"}


def plain(text: str, longest: int = 80) -> str:
    """Return text of a log so that Markdown and HTML read nothing into it."""
    safe = _READ_BY_MARKDOWN.sub(r"\\\1", visible(text, longest))
    # GitHub links @names and #numbers and lets some HTML through: entities are read by neither.
    return "".join(_ENTITIES.get(char, char) for char in safe)


def render_markdown(report: Report) -> str:
    """Return the report as GitHub's Markdown."""
    found = replayed(report)
    lines = [f"**{plain(headline_of(found), 300)}**" if found else "**No request has a prompt.**", ""]
    if found:
        tokens, cache = found.tokens, found.cache
        size = "unlimited" if cache.capacity_blocks is None else f"{cache.capacity_blocks:,} blocks"
        basis = (
            f"{report.requests:,} requests · {short(tokens.total)} prompt tokens · block {cache.block_size} · {size} · "
            f"variable {percent(report.variable_share)} · "
            f"Jaccard {ratio(found.similarity.jaccard_consecutive)} of text"
        )
        lines += [basis, ""]
    lines += [*_findings(report), *_routes(report)]
    lines += [f"- {plain(line, 300)}" for line in coverage_lines(report.coverage, report.requests)]
    return "\n".join(lines) + "\n"


def _findings(report: Report) -> list[str]:
    ranked = [f for f in report.findings or [] if f.severity != "info"]
    if not ranked:
        return []
    rows = [
        f"| {plain(what(f))} | {plain(f.section)} | {f.cluster} {plain(f.route or '')} "
        f"| {'-' if f.tokens_lost is None else format(f.tokens_lost, ',')} | {percent(f.hit_rate_if_fixed)} |"
        for f in ranked[:SHOWN]
    ]
    more = [f"{len(ranked) - SHOWN:,} more in the JSON report.", ""] if len(ranked) > SHOWN else []
    head = [
        "| what breaks the prefix | where | cluster | tokens lost | hit rate if fixed |",
        "|---|---|---|--:|--:|",
    ]
    return [*head, *rows, "", *more]


def _routes(report: Report) -> list[str]:
    if not report.routes:
        return []
    rows = [
        f"| {plain(route.route)} | {route.requests:,} | {percent(route.cache.hit_rate)} "
        f"| {percent(route.ceiling.hit_rate)} |"
        for route in report.routes[:ROUTES_SHOWN]
    ]
    more = len(report.routes) - ROUTES_SHOWN
    rest = [f"{more:,} more in the JSON report.", ""] if more > 0 else []
    return ["| route | requests | hit rate | unlimited |", "|---|--:|--:|--:|", *rows, "", *rest]
