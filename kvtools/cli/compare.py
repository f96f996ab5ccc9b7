"""``kvtools compare A.json B.json``: two reports side by side."""

from __future__ import annotations

from pathlib import Path

import click

from kvtools.cli.options import FILE
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import KINDS, LANG, kind_by_ending


@click.command("compare")
@click.argument("before", metavar="A.json")
@click.argument("after", metavar="B.json")
@click.option(
    "--format", "output_format", type=click.Choice(KINDS), help="Form (default: by FILE's ending, else text)."
)
@LANG
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the result to FILE.")
def command(before: str, after: str, output_format: str | None, lang: str, output: Path | None) -> None:
    """Compare two reports that `kvtools analyze logs --format json` wrote: A before, B after."""
    from kvtools.flow.stored import compared  # noqa: PLC0415 - heavy

    keep_apart((before, after), {"-o": output})
    kind = output_format or kind_by_ending(output)
    with result_to(output, utf8=kind != "text") as write:
        write(compared(Path(before), Path(after), kind, lang))
