"""``kvtools baseline PATH… -o baseline.json``: what later checks are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.gate_options import JUDGED, NEEDED, check_options
from kvtools.cli.options import CACHE, FILE, INTAKE, with_options
from kvtools.cli.output import keep_apart, result_to

if TYPE_CHECKING:
    from pathlib import Path

RESULT = (click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the baseline to FILE."),)


@click.command("baseline")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@with_options(RESULT, NEEDED, JUDGED, CACHE, INTAKE)
def command(paths: tuple[str, ...], output: Path | None, **given: Any) -> None:
    """Write a baseline of a log, or of templates with recorded values, for `kvtools check --baseline FILE`.

    It carries the report, its settings and the SHA-256 of each input; no text of a prompt.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow.check import baseline  # noqa: PLC0415 - heavy

    inputs = (*paths, *(str(given[name]) for name in ("values",) if given[name] is not None))
    keep_apart(inputs, {"-o": output, "--rejects": given["rejects"]})
    options, _ = check_options(given)
    with result_to(output, utf8=True) as write, watched("reading") as watcher:
        write(baseline(paths, options, watcher).to_json())
