"""``kvtools plan audit PATH…``: a vLLM command line or config against the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import FILE, INTAKE, RESULT, only_given, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.values import at_least_one

if TYPE_CHECKING:
    from pathlib import Path

AUDIT = (
    click.option(
        "--serve-args", metavar="LINE", help="The command line, such as 'vllm serve MODEL --max-num-seqs 64'."
    ),
    click.option(
        "--serve-config",
        type=FILE,
        metavar="FILE",
        help="Flags in a file: YAML for vllm serve --config, or JSON.",
    ),
    click.option(
        "--flags-from",
        type=click.Choice(["auto", "installed", "table"]),
        help="Judge by the installed vLLM's parser, or by kvtools' table (default: installed where it is).",
    ),
    click.option("--capacity-blocks", type=at_least_one, metavar="N", help="Usable blocks of the KV cache."),
    click.option(
        "--kv-memory", metavar="SIZE", help="KV memory of the model, such as 20GiB; needs --model-config."
    ),
    click.option(
        "--gpu-memory", metavar="SIZE", help="Memory of one GPU, such as 80GiB; needs --model-config."
    ),
    click.option(
        "--weights", metavar="SIZE", help="Memory of the weights on all GPUs together; with --gpu-memory."
    ),
    click.option("--model-config", type=FILE, metavar="FILE|DIR", help="The model's config.json."),
    click.option("--kv-dtype", metavar="TYPE", help="Element type of the KV cache (default: the line's)."),
)
_ROOM = ("capacity_blocks", "kv_memory", "gpu_memory", "weights", "model_config", "kv_dtype")


@click.command("audit")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(AUDIT, INTAKE, RESULT)
def command(paths: tuple[str, ...], output_format: str, output: Path | None, **given: Any) -> None:
    """Say what a vLLM command line or config does to the requests in PATH…, and what is wrong with it.

    Flags that vLLM does not have, limits that requests of the log break, what the block size and the KV memory cost:
    each with what was measured. Findings never change the exit code; kvtools check gates.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow.plan_audit import AuditOptions, RoomOptions, plan_audit  # noqa: PLC0415 - heavy
    from kvtools.report.plan_audit_text import render_audit  # noqa: PLC0415 - heavy

    keep_apart(paths, {"-o": output, "--rejects": given["rejects"]})
    room = RoomOptions(**only_given({name: given.pop(name) for name in _ROOM}))
    options = AuditOptions(room=room, **only_given(given))
    with result_to(output, utf8=output_format == "json") as write:
        with watched("auditing") as watcher:
            report = plan_audit(paths, options, watcher)
        write(report.to_json() if output_format == "json" else render_audit(report))
