"""``kvtools report REPORT.json``: a report that was written as JSON, as a page for people."""

from __future__ import annotations

from pathlib import Path

import click

from kvtools.cli.options import FILE
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import KINDS, LANG, kind_by_ending, rendered


@click.command("report")
@click.argument("path", metavar="REPORT.json")
@click.option(
    "--format", "output_format", type=click.Choice(KINDS), help="Form (default: by OUT's ending, else text)."
)
@click.option("--all", "everything", is_flag=True, help="List every finding, not only those worth advice.")
@LANG
@click.option("-o", "--output", type=FILE, metavar="OUT", help="Write the page to OUT.")
def command(
    path: str, output_format: str | None, lang: str, output: Path | None, *, everything: bool
) -> None:
    """Render REPORT.json as an HTML page, Markdown or text.

    REPORT.json is what `kvtools analyze logs`, `replay`, `warmup` or `check` writes with --format json.
    """
    from kvtools.flow.stored import read_document_file  # noqa: PLC0415 - heavy

    keep_apart((path,), {"-o": output})
    kind = output_format or kind_by_ending(output)
    with result_to(output, utf8=kind != "text") as write:
        write(rendered(read_document_file(Path(path)), kind, lang=lang, everything=everything))
