"""``kvtools report REPORT.json``: a report that was written as JSON, as a page for people."""

from __future__ import annotations

from pathlib import Path

import click

from kvtools.cli.options import FILE
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import KINDS, rendered


@click.command("report")
@click.argument("path", metavar="REPORT.json")
@click.option(
    "--format", "output_format", type=click.Choice(KINDS), help="Form (default: by OUT's ending, else text)."
)
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the HTML page.")
@click.option("--all", "everything", is_flag=True, help="List every finding, not only those worth advice.")
@click.option("-o", "--output", type=FILE, metavar="OUT", help="Write the page to OUT.")
def command(
    path: str, output_format: str | None, lang: str, output: Path | None, *, everything: bool
) -> None:
    """Render REPORT.json, as `kvtools analyze logs --format json` writes it, as an HTML page, Markdown or text."""
    from kvtools.flow.stored import read_report  # noqa: PLC0415 - heavy

    keep_apart((path,), {"-o": output})
    kind = output_format or _by_ending(output)
    with result_to(output, utf8=kind != "text") as write:
        write(rendered(read_report(Path(path)), kind, lang=lang, everything=everything))


def _by_ending(output: Path | None) -> str:
    endings = {".html": "html", ".htm": "html", ".md": "md", ".json": "json"}
    return endings.get(output.suffix.lower(), "text") if output else "text"
