"""``kvtools plan schedule PATH…``: other scheduling policies on the same requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, INTAKE, RESULT, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.schedule_options import ENGINE, LIMITS, SCHEDULE
from kvtools.cli.schedule_what_if import WHAT_IF, WHAT_IF_NAMES

if TYPE_CHECKING:
    from pathlib import Path

_CLOCK = ("prefill_tokens_per_s", "decode_step_ms", "gpu", "gpus", "weights")
_ENGINE = ("max_num_seqs", "max_num_batched_tokens", "long_prefill_token_threshold")
_LIMITS = ("hot_seqs", "cold_seqs", "cold_timeout_s", "hot_reserve", "retries")


@click.command("schedule")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(SCHEDULE, ENGINE, LIMITS, WHAT_IF, CACHE[:-1], INTAKE, RESULT)
def command(paths: tuple[str, ...], output_format: str, output: Path | None, **given: Any) -> None:
    """Simulate scheduling policies on the requests in PATH…, hot apart from cold.

    Says whether a split helps this traffic, by how much and at whose cost. Times come from a clock that is stated,
    fitted to the log's TTFT, or the roofline of a GPU: the first lines say which, and how far it is off.
    """
    from kvtools.cli.next_steps import next_command  # noqa: PLC0415 - used only here
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow.plan_schedule import plan_schedule  # noqa: PLC0415 - heavy
    from kvtools.flow.plan_schedule_clock import ClockOptions  # noqa: PLC0415 - heavy
    from kvtools.flow.plan_schedule_options import (  # noqa: PLC0415 - heavy
        ScheduleOptions,
        limits_of,
        scheduler_of,
        what_if_of,
    )
    from kvtools.report.plan_schedule_text import render_schedule  # noqa: PLC0415 - heavy

    keep_apart(paths, {"-o": output, "--rejects": given["rejects"]})
    clock = only_given({name: given.pop(name) for name in _CLOCK})
    if clock.get("gpu") is not None:
        clock |= only_given({name: given[name] for name in ("model_config", "kv_dtype")})
        if given["kv_memory"] is None:
            given["model_config"] = given["kv_dtype"] = None
    given["clock"] = ClockOptions(**clock)
    engine = only_given({name: given.pop(name) for name in _ENGINE})
    limits = only_given({name: given.pop(name) for name in _LIMITS})
    given["limits"] = limits_of(limits, ends=given.pop("on_timeout") == "abort")
    given["scheduler"] = scheduler_of(engine)
    given["what_if"] = what_if_of(only_given({name: given.pop(name) for name in WHAT_IF_NAMES}))
    options = ScheduleOptions.of(**only_given(sized(given)))
    with result_to(output, utf8=output_format == "json") as write:
        with watched("simulating") as watcher:
            report = plan_schedule(paths, options, watcher)
        write(report.to_json() if output_format == "json" else render_schedule(report, next_command(paths)))
