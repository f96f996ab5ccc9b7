"""``kvtools lint-queries PATH…``: what is wrong with the queries of dashboards and rules, as a gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kvtools.cli.gate_options import gate_output
from kvtools.cli.options import RESULT, with_options
from kvtools.cli.output import keep_apart, result_to

if TYPE_CHECKING:
    from pathlib import Path


@click.command("lint-queries")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(RESULT)
def command(paths: tuple[str, ...], output_format: str, output: Path | None) -> int:
    """Find queries of prefix-cache metrics that show no hit rate.

    PATH is a Grafana dashboard (.json), a Prometheus rule file (.yaml), a text with a query a line, or a folder of
    such. Swapped, averages since the start, means of ratios, sides of different requests, hits counted twice, summed
    usage, names of old versions. Exits with 1 where one was found.
    """
    from kvtools.flow import lint_queries  # noqa: PLC0415 - heavy
    from kvtools.report.query_lint import render_query_lint  # noqa: PLC0415 - heavy

    keep_apart(paths, {"-o": output})
    with gate_output(), result_to(output, utf8=output_format == "json") as write:
        report = lint_queries(paths)
        write(report.to_json() if output_format == "json" else render_query_lint(report))
    return report.exit_code
