"""``kvtools explain REQ_ID PATH…``: one miss, token by token."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, INTAKE, RESULT, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import LANG

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = (
    click.option(
        "--show-text",
        is_flag=True,
        default=None,
        help="Show what differs as it is, not with x for letters and 0 for digits.",
    ),
)


@click.command("explain")
@click.argument("name", metavar="REQ_ID")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(SHOWN, CACHE, INTAKE, RESULT, (LANG,))
def command(
    name: str, paths: tuple[str, ...], output_format: str, output: Path | None, lang: str, **given: Any
) -> None:
    """Show where a request parts from the nearest earlier one.

    REQ_ID is a request's id or its place in the log (path:line). The nearest is the earlier request with the
    longest common prefix: shown are token, character and message where they part, both values, and what
    was computed again behind that place.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import ExplainOptions, explain  # noqa: PLC0415 - heavy
    from kvtools.report.explain_text import render_explanation  # noqa: PLC0415 - heavy

    keep_apart(paths, {"-o": output, "--rejects": given["rejects"]})
    options = ExplainOptions(**only_given(sized(given)))
    with result_to(output, utf8=output_format == "json") as write:
        with watched("reading") as watcher:
            report = explain(name, paths, options, watcher)
        again = None if "-" in paths else shlex.join(["kvtools", *sys.argv[1:]])
        if output_format == "json":
            write(report.to_json())
        else:
            write(render_explanation(report, again=again, lang=lang))
