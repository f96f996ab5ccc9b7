"""The routes of a log on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kvtools.report.compare import left_out
from kvtools.report.numbers import counted, percent, ratio, short
from kvtools.report.words import phrase, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvtools.report.model import Report

ROUTES_SHOWN = 10
_ROUTE_FIGURES = (
    phrase("requests"), phrase("tokens"), phrase("hit rate"), phrase("ceiling"), phrase("variable"), "Jaccard",
)  # fmt: skip


def routes_table(report: Report) -> RenderableType:
    """Return the ten largest routes, each with its figures, and how many requests are in none of them."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(say("Route"), overflow="ellipsis", no_wrap=True, max_width=24)
    for name in _ROUTE_FIGURES:
        table.add_column(say(name), justify="right", no_wrap=True)
    for route in report.routes[:ROUTES_SHOWN]:
        table.add_row(
            Text(" ".join(route.route.split())),
            f"{route.requests:,}",
            short(route.prompt_tokens.total),
            percent(route.cache.hit_rate),
            percent(route.ceiling.hit_rate),
            percent(route.variable_share),
            ratio(route.similarity.jaccard_consecutive),
        )
    notes = left_out(len(report.routes) - ROUTES_SHOWN)
    without = report.requests - sum(route.requests for route in report.routes)
    if without:
        notes.append("  " + say("and {requests} without a route", requests=counted(without, "request")))
    return Group(table, *map(Text, notes))
