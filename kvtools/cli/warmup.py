"""``kvtools warmup PATH… -o OUT`` (also ``kvtools warmup build``) and ``kvtools warmup send OUT --url URL``."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, FILE, INTAKE, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.values import at_least_one, duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _BuildByDefault(click.Group):
    """``warmup X`` is ``warmup build X``; a subcommand's name wins over a folder of that name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["build", *args]
        return super().parse_args(ctx, args)


@click.group("warmup", cls=_BuildByDefault)
def command() -> None:
    """Choose the prefixes to compute before the traffic comes, and send them.

    `kvtools warmup PATH… -o OUT` is short for `kvtools warmup build PATH… -o OUT`.
    """


_FORMS = click.Choice(["text", "json"])
FORM = click.option("--format", "output_format", type=_FORMS, default="text", help="Form of the report.")
BUDGET = (
    click.option("-o", "--output", type=FILE, metavar="OUT", help="Where to write the warm-up requests."),
    click.option(
        "--write",
        type=click.Choice(["batch", "prompts", "token-ids"]),
        help="Lines of OUT: chat requests as logged (default), text, or token ids.",
    ),
    click.option("--budget-queries", type=at_least_one, metavar="K", help="Requests to send (default: 100)."),
    click.option("--budget-tokens", type=at_least_one, metavar="N", help="Tokens that sending may compute."),
    click.option("--budget-blocks", type=at_least_one, metavar="N", help="Blocks that the set may fill."),
    click.option(
        "--horizon",
        "horizon_s",
        type=duration_s,
        metavar="TIME",
        help="How far ahead a saving counts (default: 1h).",
    ),
    click.option(
        "--holdout",
        type=float,
        metavar="SHARE",
        help="Share of the log to judge by, from its end (default: 0.3).",
    ),
    click.option("--no-holdout", is_flag=True, help="Build from the whole log; the figures are optimistic."),
)


@command.command("build")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(BUDGET, CACHE, INTAKE, (FORM,))
def build(
    paths: tuple[str, ...], output: Path | None, output_format: str, *, no_holdout: bool, **given: Any
) -> None:
    """Build a warm-up set from the first part of PATH… and judge it on the rest."""
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import WarmupOptions, warmup  # noqa: PLC0415 - heavy
    from kvtools.report.warmup_text import render_warmup  # noqa: PLC0415 - heavy

    if no_holdout and given["holdout"]:
        raise click.UsageError("--holdout and --no-holdout exclude each other: give one of them.")
    keep_apart(paths, {"-o": output, "--rejects": given["rejects"]})
    given["holdout"] = 0.0 if no_holdout else given["holdout"]
    options = WarmupOptions(target=output, **only_given(sized(given)))
    with result_to(None, utf8=output_format == "json") as write:
        with watched("reading") as watcher:
            report = warmup(paths, options, watcher)
        shown = None if output is None else str(output)
        write(report.to_json() if output_format == "json" else render_warmup(report, shown))


@command.command("send")
@click.argument("file", type=FILE, metavar="OUT")
@click.option("--url", required=True, metavar="URL", help="The server, such as http://127.0.0.1:8000.")
@click.option(
    "--api-key", envvar="KVTOOLS_API_KEY", metavar="KEY", help="The server's key (or KVTOOLS_API_KEY)."
)
@click.option("--model", metavar="NAME", help="The model's name there (default: as logged, else its first).")
@click.option("--in-flight", type=at_least_one, metavar="N", help="Requests at once (default: 4).")
@click.option("--verify", is_flag=True, help="Ask for each prefix once more and show what was cached.")
@FORM
def send(file: Path, output_format: str, **given: Any) -> None:
    """Send the warm-up requests of OUT in their order, and say what the server then has cached."""
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import SendOptions, send_warmup  # noqa: PLC0415 - heavy
    from kvtools.report.warmup_send import render_send  # noqa: PLC0415 - heavy

    options = SendOptions(**only_given(given))
    with result_to(None, utf8=output_format == "json") as write, _stopped_by_a_signal():
        with watched("sending") as watcher:
            report = send_warmup(file, options, watcher)
        write(report.to_json() if output_format == "json" else render_send(report))


@contextmanager
def _stopped_by_a_signal() -> Iterator[None]:
    """End on SIGTERM as on Ctrl-C: a pod that is stopped while it warms up stops at once, and cleanly."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
