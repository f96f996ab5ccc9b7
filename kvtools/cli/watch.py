"""``kvtools watch LOG|URL``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import INTAKE, only_given, with_options
from kvtools.cli.values import at_least_one, duration_s
from kvtools.cli.watch_screen import screen

if TYPE_CHECKING:
    from kvtools.flow import LogWatch, ServerWatch

LOOK_S = 0.25
"""A log is looked at so often, whatever the interval: it may be rotated twice in one."""

VIEW = (
    click.option(
        "--interval", type=duration_s, metavar="TIME", default="2s", help="A line each TIME (default: 2s)."
    ),
    click.option("--once", is_flag=True, help="Read what is there, print one line and end."),
    click.option(
        "--from-end", is_flag=True, default=None, help="Leave out the lines that the log holds already."
    ),
    click.option(
        "--recent",
        type=at_least_one,
        metavar="N",
        help="Requests of the recent hit rate (default: the last 1,000).",
    ),
    click.option("--block-size", type=at_least_one, metavar="TOKENS", help="Tokens of a cache block."),
    click.option(
        "--capacity-blocks",
        type=at_least_one,
        metavar="N",
        help="Blocks of the LRU cache (default: 1,048,576).",
    ),
    click.option(
        "--findings/--no-findings", default=None, help="Name the worst finding of the last lines, or not."
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Text, or a line of JSON each interval.",
    ),
)


@click.command("watch")
@click.argument("target", metavar="LOG|URL")
@with_options(VIEW, INTAKE)
def command(target: str, interval: float, once: bool, output_format: str, **given: Any) -> None:  # noqa: FBT001
    """Follow a growing log, or poll a server's /metrics, and show the hit rate.

    LOG is a file, through rotation and truncation, or - for a pipe; URL is http://SERVER:PORT. Ctrl-C ends.
    """
    from kvtools.flow import WatchOptions, watch  # noqa: PLC0415 - heavy

    if given.pop("rejects"):
        raise click.UsageError(
            "--rejects: a log that is watched has no end; kvtools analyze writes the list."
        )
    watched = watch(target, WatchOptions(**only_given(given)))
    begun = time.monotonic()
    show, stop = screen(output_format)
    interrupted = False
    try:
        watched.start()
        _wait(watched, begun + (0 if once and not target.startswith("http") else interval))
        while not once and not watched.ended:
            show(watched.tick(time.monotonic() - begun))
            _wait(watched, time.monotonic() + interval)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        stop()
    watched.close()
    # Nobody who has ended it waits for findings.
    show(watched.tick(time.monotonic() - begun, findings=not interrupted))


def _wait(watched: LogWatch | ServerWatch, until: float) -> None:
    while True:
        watched.look()
        left = until - time.monotonic()
        if left <= 0 or watched.ended:
            return
        time.sleep(min(left, LOOK_S))
