"""``kvtools warmup PATH… -o OUT`` (also ``kvtools warmup build``) and ``kvtools warmup send OUT --url URL``."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, FILE, INTAKE, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.report_files import FORM as PAGE
from kvtools.cli.report_files import LANG, REPORTS, made_by, named_apart, rendered, write_reports
from kvtools.cli.warmup_options import BUDGET, SEND

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


@command.command("build")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(BUDGET, CACHE, INTAKE, (PAGE,), REPORTS)
def build(
    paths: tuple[str, ...],
    output: Path | None,
    output_format: str,
    reports: tuple[tuple[str, Path], ...],
    lang: str,
    *,
    no_holdout: bool,
    **given: Any,
) -> None:
    """Build a warm-up set from the first part of PATH… and judge it on the rest."""
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import WarmupOptions, warmup  # noqa: PLC0415 - heavy
    from kvtools.report.warmup_text import render_warmup  # noqa: PLC0415 - heavy

    if no_holdout and given["holdout"]:
        raise click.UsageError("--holdout and --no-holdout exclude each other: give one of them.")
    keep_apart(paths, {"-o": output, "--rejects": given["rejects"], **named_apart(reports)})
    given["holdout"] = 0.0 if no_holdout else given["holdout"]
    options = WarmupOptions(target=output, **only_given(sized(given)))
    with result_to(None, utf8=output_format != "text") as write:
        with watched("reading") as watcher:
            report = warmup(paths, options, watcher)
        again = made_by(paths)
        write_reports(report, reports, lang=lang, command=again)
        if output_format == "text":
            write(render_warmup(report, None if output is None else str(output), lang))
        else:
            write(rendered(report, output_format, lang=lang, command=again))


@command.command("send")
@click.argument("file", type=FILE, metavar="OUT")
@with_options(SEND, (FORM, LANG))
def send(file: Path, output_format: str, lang: str, **given: Any) -> None:
    """Send the warm-up requests of OUT in their order, and say what the server then has cached."""
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import SendOptions, send_warmup  # noqa: PLC0415 - heavy
    from kvtools.report.warmup_send import render_send  # noqa: PLC0415 - heavy

    options = SendOptions(**only_given(given))
    with result_to(None, utf8=output_format == "json") as write, _stopped_by_a_signal():
        with watched("sending") as watcher:
            report = send_warmup(file, options, watcher)
        write(report.to_json() if output_format == "json" else render_send(report, lang))


@contextmanager
def _stopped_by_a_signal() -> Iterator[None]:
    """End on SIGTERM as on Ctrl-C: a pod that is stopped while it warms up stops at once, and cleanly."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
