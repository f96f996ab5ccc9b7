"""``kvtools formats``: the log formats, each with an example line."""

from __future__ import annotations

import click

_EXAMPLE_CHARS = 56


@click.command("formats")
def command() -> None:
    """List the log formats: names for --input-format, * for those that `convert --to` writes."""
    from kvtools.flow import formats  # noqa: PLC0415 - heavy

    for line in formats():
        mark = "*" if line.written else " "
        example = (
            line.example if len(line.example) <= _EXAMPLE_CHARS else line.example[: _EXAMPLE_CHARS - 1] + "…"
        )
        click.echo(f"{mark} {line.name:<20} {example}".rstrip())
