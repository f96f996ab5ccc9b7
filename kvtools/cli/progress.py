"""Progress and warnings on stderr; a bar only where stderr is a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.flow import Watcher


@contextmanager
def watched(what: str) -> Iterator[Watcher]:
    """Yield a watcher that shows a bar over the bytes of the input, with the time left."""
    from kvtools.flow import Watcher  # noqa: PLC0415 - heavy

    def warn(sentence: str) -> None:
        click.echo(f"kvtools: {sentence}", err=True)

    if not sys.stderr.isatty():
        yield Watcher(warn=warn)
        return
    from rich.console import Console  # noqa: PLC0415 - loads only where a bar is shown
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield Watcher(
            begin=lambda size: bar.reset(task, total=size),
            advance=lambda size: bar.advance(task, size),
            warn=lambda sentence: bar.console.print(f"kvtools: {sentence}", markup=False, highlight=False),
        )
