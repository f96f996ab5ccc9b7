"""The result of a command: to standard output, or whole to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path


def write_result(text: str, output: Path | None) -> None:
    """Print ``text``, or write it to ``output`` (beside it, then renamed)."""
    if output is None:
        click.echo(text, nl=False)
        return
    from kvtools.report.files import replacing  # noqa: PLC0415 - heavy

    with replacing(output) as file:
        file.write(text)
