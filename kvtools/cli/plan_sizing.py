"""``kvtools plan sizing PATH…``: how much KV memory the hits of a log take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, INTAKE, RESULT, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.values import block_counts

if TYPE_CHECKING:
    from pathlib import Path

SIZING = (
    click.option(
        "--offload-blocks",
        type=block_counts,
        metavar="N,…",
        help="Blocks of a second tier (default: 1, 2, 4 and 8 times the cache).",
    ),
    click.option(
        "--no-classes",
        "classes",
        flag_value=False,
        default=None,
        help="Do not part hot from cold: rules about them stay open.",
    ),
)


@click.command("sizing")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(SIZING, CACHE, INTAKE, RESULT)
def command(paths: tuple[str, ...], output_format: str, output: Path | None, **given: Any) -> None:
    """Say how much cache 50 to 99 % of the hits in PATH… take, in blocks and, with --model-config, in GiB.

    Also: the working set over time, the gap to the optimal order of eviction, what an offload tier would add to the
    cache of --capacity-blocks or --kv-memory, and rules of thumb beside what the log says.
    """
    from kvtools.cli.next_steps import next_command  # noqa: PLC0415 - used only here
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow.plan_sizing import SizingOptions, plan_sizing  # noqa: PLC0415 - heavy
    from kvtools.report.plan_sizing_text import render_sizing  # noqa: PLC0415 - heavy

    keep_apart(paths, {"-o": output, "--rejects": given["rejects"]})
    if given["kv_memory"] is None:
        # Without a size to turn into blocks, the model says what blocks take.
        if given["kv_dtype"] is not None and given["model_config"] is None:
            raise click.UsageError("--kv-dtype says how large a block is: it goes with --model-config.")
        del given["kv_memory"]
    else:
        given = sized(given)
    options = SizingOptions(**only_given(given))
    with result_to(output, utf8=output_format == "json") as write:
        with watched("sizing") as watcher:
            report = plan_sizing(paths, options, watcher)
        write(report.to_json() if output_format == "json" else render_sizing(report, next_command(paths)))
