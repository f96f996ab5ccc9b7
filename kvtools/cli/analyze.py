"""``kvtools analyze logs PATH…``, also plain ``kvtools analyze PATH…``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.executor_options import EXECUTOR, worked
from kvtools.cli.heat_options import CLASSES
from kvtools.cli.metrics import command as metrics
from kvtools.cli.next_steps import fixing_command, next_command
from kvtools.cli.options import CACHE, FILE, INTAKE, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to, styled
from kvtools.cli.report_files import FORMS, REPORTS, rendered, write_reports
from kvtools.cli.values import at_least_one, block_counts, section_names

if TYPE_CHECKING:
    from pathlib import Path


class _LogsByDefault(click.Group):
    """``analyze X`` is ``analyze logs X``; a subcommand's name wins over a folder of that name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["logs", *args]
        return super().parse_args(ctx, args)


@click.group("analyze", cls=_LogsByDefault)
def command() -> None:
    """Say how well a log's prompts reuse the prefix cache.

    `kvtools analyze PATH…` is short for `kvtools analyze logs PATH…`; write ./logs for a folder named logs.
    """


command.add_command(metrics)

ANALYSIS = (
    click.option(
        "--outputs",
        type=click.Choice(["one"]),
        help="What a request leaves besides its prompt (default: one token).",
    ),
    click.option(
        "--measure-from", type=float, metavar="SHARE", help="Count only what follows this share of the log."
    ),
    click.option(
        "--curve-blocks",
        type=block_counts,
        metavar="N,N,…",
        help="Sizes of the hit curve (default: powers of two).",
    ),
    click.option(
        "--findings/--no-findings",
        default=None,
        help="Name what breaks the prefix, each cause with its replayed cost (default), or skip it.",
    ),
    click.option("--all", "everything", is_flag=True, help="List every finding, not the ten dearest."),
    click.option(
        "--show-text", is_flag=True, default=None, help="Show values as they are instead of masked."
    ),
    click.option(
        "--keep-order",
        type=section_names,
        multiple=True,
        metavar="A,B,…",
        help="Sections that keep their order in the search for a better one; repeatable.",
    ),
    click.option("--patterns", type=FILE, metavar="FILE", help="Further kinds of values, in TOML."),
    click.option(
        "--price", "price_per_mtok", type=float, metavar="PER_MTOK", help="Price of a million prompt tokens."
    ),
    click.option("--gpu-hour-price", type=float, metavar="PRICE", help="Price of a GPU hour instead."),
    click.option("--prefill-tokens-per-s", type=float, metavar="N", help="What all GPUs prefill a second."),
    click.option(
        "--gpus", type=at_least_one, metavar="N", help="How many GPUs the price is of (default: 1)."
    ),
)


@command.command("logs")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(CACHE, ANALYSIS, CLASSES, INTAKE, EXECUTOR, FORMS, REPORTS)
def logs(
    paths: tuple[str, ...],
    output_format: str,
    output: Path | None,
    reports: tuple[tuple[str, Path], ...],
    lang: str,
    **given: Any,
) -> None:
    """Report hit rate, ceiling, hit curve and similarity of the requests in PATH….

    PATH is a file, a glob, a folder or - for standard input; plain, gzip or zstd.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import AnalyzeOptions, analyze  # noqa: PLC0415 - heavy

    everything = given.pop("everything")
    further = {f"--report {kind}": path for kind, path in reports} | {"--classes-out": given["classes_out"]}
    keep_apart(paths, {"-o": output, "--rejects": given["rejects"], **further})
    options = AnalyzeOptions(**only_given(sized(worked(given))))
    with result_to(output, utf8=output_format != "text") as write:
        with watched("reading") as watcher:
            report = analyze(paths, options, watcher)
        again = next_command(paths)
        write_reports(report, reports, lang=lang, command=again, everything=everything)
        if output_format != "text":
            write(rendered(report, output_format, lang=lang, command=again, everything=everything))
            return
        from kvtools.report.text import render_text  # noqa: PLC0415 - heavy

        fix = fixing_command(paths) if again and report.reachable and report.reachable.fixes else None
        color = styled(output)
        write(render_text(report, again=again, fix=fix, color=color, everything=everything, lang=lang))
