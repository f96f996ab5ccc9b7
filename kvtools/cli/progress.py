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
    """Yield a watcher that shows what is done now, how much of it, how fast, and the time left.

    ``what`` is shown until the verb names its first phase.
    """
    from kvtools.flow import Watcher  # noqa: PLC0415 - heavy

    def warn(sentence: str) -> None:
        click.echo(f"kvtools: {sentence}", err=True)

    if not sys.stderr.isatty():
        yield Watcher(warn=warn)
        return
    from rich.console import Console  # noqa: PLC0415 - loads only where a bar is shown
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - the same

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[done]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, of = bar.add_task(what, total=None, done=""), {"unit": "bytes"}

        def phase(name: str, unit: str) -> None:
            of["unit"] = unit
            bar.reset(task, total=None, description=name, done="")

        def advance(size: int) -> None:
            bar.advance(task, size)
            now = bar.tasks[0]
            bar.update(task, done=amount(now.completed, now.total, now.speed, of["unit"]))

        yield Watcher(
            begin=lambda size: bar.reset(task, total=size),
            advance=advance,
            phase=phase,
            warn=lambda sentence: bar.console.print(f"kvtools: {sentence}", markup=False, highlight=False),
        )


def amount(done: float, total: float | None, speed: float | None, unit: str) -> str:
    """Return how much is done of how much, and how fast: ``3.1 of 8.9 MB, 12.0 MB/s``, ``50 of 200 requests, 7/s``."""
    if not unit:
        return ""
    whole = done if total is None else total
    if unit == "bytes":
        text = f"{done / 1e6:,.1f} of {whole / 1e6:,.1f} MB"
        return text if speed is None else f"{text}, {speed / 1e6:,.1f} MB/s"
    text = f"{done:,.0f} of {whole:,.0f} {unit}"
    return text if speed is None else f"{text}, {speed:,.3g}/s"
