"""Where ``kvtools watch`` shows what it sees: lines, or a page that renews itself on a terminal."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.report.watch import LogTick, ServerTick


def screen(output_format: str) -> tuple[Callable[[LogTick | ServerTick], None], Callable[[], None]]:
    """Return what shows a tick, and what ends a page that renews itself: behind it ticks are lines."""
    from kvtools.report.watch_text import line, page, rate_now  # noqa: PLC0415 - heavy

    plain = output_format == "json" or not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    rates: list[float] = []

    def print_line(tick: LogTick | ServerTick) -> None:
        click.echo(tick.to_json() if output_format == "json" else line(tick, _clock()), nl=False)
        sys.stdout.flush()

    if plain:
        return print_line, lambda: None
    from rich.live import Live  # noqa: PLC0415 - only on a terminal

    live = Live(auto_refresh=False)
    live.start()

    def show(tick: LogTick | ServerTick) -> None:
        if not live.is_started:
            return print_line(tick)
        rates.append(rate_now(tick))
        del rates[:-60]
        return live.update(page(tick, _clock(), rates), refresh=True)

    return show, live.stop


def _clock() -> str:
    return f"{datetime.now().astimezone():%H:%M:%S}"
