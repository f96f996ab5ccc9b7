"""``kvtools compare A.json B.json``: two reports side by side."""

from __future__ import annotations

from pathlib import Path

import click

from kvtools.cli.options import FILE
from kvtools.cli.output import keep_apart, result_to


@click.command("compare")
@click.argument("before", metavar="A.json")
@click.argument("after", metavar="B.json")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json", "md"]),
    default="text",
    help="Form of the result.",
)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write the result to FILE.")
def command(before: str, after: str, output_format: str, output: Path | None) -> None:
    """Compare two reports that `kvtools analyze logs --format json` wrote: A before, B after."""
    from kvtools.flow.stored import compare_stored  # noqa: PLC0415 - heavy
    from kvtools.report.comparison import comparison_markdown, render_comparison  # noqa: PLC0415

    keep_apart((before, after), {"-o": output})
    forms = {"json": lambda found: found.to_json(), "md": comparison_markdown, "text": render_comparison}
    with result_to(output, utf8=output_format != "text") as write:
        write(forms[output_format](compare_stored(Path(before), Path(after))))
