"""``kvtools analyze logs PATH…``, also plain ``kvtools analyze PATH…``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kvtools.cli.output import write_result

FORMATS = ("text", "json")


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


@command.command("logs")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--input-format", metavar="NAME", help="Read every file as this format instead of recognising it."
)
@click.option(
    "--route-key", metavar="KEY", help="Field that names the route (default: tenant, route, app, endpoint)."
)
@click.option("--chat-template", metavar="NAME|FILE|DIR", help="Chat template (default: deepseek).")
@click.option(
    "--tokenizer", metavar="FILE|DIR|bytes", help="tokenizer.json or model folder (default: deepseek)."
)
@click.option(
    "--block-size", type=int, metavar="TOKENS", help="Tokens of a cache block (default: 16; traces: theirs)."
)
@click.option(
    "--capacity-blocks", type=int, metavar="N", help="Usable blocks of the cache (default: unlimited)."
)
@click.option(
    "--rules", type=click.Choice(["vllm", "trace"]), help="How hits are counted (default: by the log)."
)
@click.option(
    "--outputs",
    type=click.Choice(["one"]),
    help="What a request leaves besides its prompt (default: one token).",
)
@click.option(
    "--measure-from", type=float, metavar="SHARE", help="Count only requests after this share of the log."
)
@click.option(
    "--curve-blocks", metavar="N,N,…", help="Cache sizes of the hit curve (default: powers of two)."
)
@click.option(
    "--rejects", type=click.Path(path_type=Path), metavar="FILE", help="List rejected records in FILE."
)
@click.option(
    "--strict", is_flag=True, default=None, help="Stop at the first record that has to be rejected."
)
@click.option(
    "--format", "output_format", type=click.Choice(FORMATS), default="text", help="Form of the result."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the result to FILE."
)
def logs(paths: tuple[str, ...], output_format: str, output: Path | None, **given: Any) -> None:
    """Report hit rate, ceiling, hit curve and similarity of the requests in PATH….

    PATH is a file, a glob, a folder or - for standard input; plain, gzip or zstd.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import AnalyzeOptions, analyze  # noqa: PLC0415 - heavy

    given["curve_blocks"] = _sizes(given["curve_blocks"])
    options = AnalyzeOptions(**{name: value for name, value in given.items() if value is not None})
    with watched("reading") as watcher:
        report = analyze(paths, options, watcher)
    if output_format == "json":
        write_result(report.to_json(), output)
        return
    from kvtools.report.text import render_text  # noqa: PLC0415 - heavy

    write_result(render_text(report, color=output is None and sys.stdout.isatty()), output)


def _sizes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part.replace("_", "")) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of block counts such as 500,2000,8000.") from None
