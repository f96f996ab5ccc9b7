"""``kvtools restore OUT -o BACK``: the log that ``normalize`` read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kvtools.cli.options import FILE
from kvtools.cli.output import keep_apart

if TYPE_CHECKING:
    from pathlib import Path


@click.command("restore")
@click.argument("path", type=FILE, metavar="OUT")
@click.option("-o", "--output", required=True, type=FILE, metavar="BACK", help="Where to write the log.")
@click.option(
    "--sidecar", type=FILE, metavar="FILE", help="What restores it (default: OUT.kvtools, or its lines)."
)
def command(path: Path, output: Path, sidecar: Path | None) -> None:
    """Write the log that normalize made OUT of, byte for byte."""
    from kvtools.flow import restore  # noqa: PLC0415 - heavy

    inputs = [str(path), str(sidecar or path.with_name(path.name + ".kvtools"))]
    keep_apart(inputs, {"-o": output})
    lines = restore(path, output, sidecar)
    click.echo(f"restored {lines:,} lines to {output}", err=True)
