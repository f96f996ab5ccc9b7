"""``kvtools diff ID_A ID_B PATH…``: two requests; ``kvtools diff A B``: two logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kvtools.cli.explain import SHOWN
from kvtools.cli.options import CACHE, INTAKE, RESULT, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import LANG


@click.command("diff")
@click.argument("first", metavar="A|ID_A")
@click.argument("second", metavar="B|ID_B")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@with_options(SHOWN, CACHE, INTAKE, RESULT, (LANG,))
def command(
    first: str,
    second: str,
    paths: tuple[str, ...],
    output_format: str,
    output: Path | None,
    lang: str,
    **given: Any,
) -> None:
    """Compare two requests of a log, or two logs.

    \b
    kvtools diff ID_A ID_B PATH…   two requests of the log PATH…, by id or place (path:line)
    kvtools diff A B               two logs: a file, a folder, a quoted glob or - each

    Of two requests it shows where they part and what is equal behind; of two logs the hit rates, what all
    requests begin with, and which requests hit more or less. Block ids suffice: no text is needed.
    """  # noqa: D301 - \b keeps click from wrapping
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import ExplainOptions, diff_logs, diff_requests  # noqa: PLC0415 - heavy
    from kvtools.report.diff_text import render_log_diff, render_request_diff  # noqa: PLC0415 - heavy

    logs = paths or (first, second)
    if not paths and not _may_be_log(first) and _may_be_log(second):
        raise click.UsageError(
            f"{first}: no such log; two names are two logs: for two requests add the log, ID_A ID_B PATH"
        )
    keep_apart(logs, {"-o": output, "--rejects": given["rejects"]})
    options = ExplainOptions(**only_given(sized(given)))
    with result_to(output, utf8=output_format == "json") as write, watched("reading") as watcher:
        if paths:
            requests = diff_requests((first, second), paths, options, watcher)
            write(requests.to_json() if output_format == "json" else render_request_diff(requests, lang))
        else:
            both = diff_logs((first, second), options, watcher)
            write(both.to_json() if output_format == "json" else render_log_diff(both, lang))


def _may_be_log(name: str) -> bool:
    return name == "-" or Path(name).exists() or any(char in name for char in "*?[")
