"""``kvtools replay PATH…``: the log through the simulator, through vLLM, through a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, INTAKE, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.replay_options import ENGINE, SCHEDULER
from kvtools.cli.report_files import FORMS, REPORTS, made_by, named_apart, rendered, write_reports

if TYPE_CHECKING:
    from pathlib import Path

_SCHEDULER_FIELDS = (
    "arrivals", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "policy",
    "long_prefill_token_threshold", "async_scheduling",
)  # fmt: skip
_SERVER_FIELDS = ("url", "api_key", "in_flight", "speed")


@click.command("replay")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(ENGINE, SCHEDULER, CACHE, INTAKE, FORMS, REPORTS)
def command(
    paths: tuple[str, ...],
    output_format: str,
    output: Path | None,
    reports: tuple[tuple[str, Path], ...],
    lang: str,
    **given: Any,
) -> None:
    """Replay the requests in PATH… and report the hit rate.

    With two engines, the first predicts and the second is observed: the report says in which requests
    they agree, and why not where it is known.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import ReplayOptions, replay  # noqa: PLC0415 - heavy

    further = {"--rejects": given["rejects"], "--per-request": given["per_request"], **named_apart(reports)}
    keep_apart(paths, {"-o": output, **further})
    options = ReplayOptions(**only_given(_grouped(sized(given))))
    with result_to(output, utf8=output_format != "text") as write:
        with watched("replaying") as watcher:
            report = replay(paths, options, watcher)
        again = made_by(paths)
        write_reports(report, reports, lang=lang, command=again)
        write(rendered(report, output_format, lang=lang, command=again))


def _grouped(given: dict[str, Any]) -> dict[str, Any]:
    """Gather the scheduler's and the server's options into what the verb takes."""
    from pathlib import Path  # noqa: PLC0415 - used only here

    from kvtools.flow import SchedulerSpec, ServerEngine  # noqa: PLC0415 - heavy

    given["scheduler"] = SchedulerSpec(**only_given({name: given.pop(name) for name in _SCHEDULER_FIELDS}))
    server = only_given({name: given.pop(name) for name in _SERVER_FIELDS})
    model = given.pop("model")
    engines = tuple((given.pop("engines") or "simulator").split(","))
    if "url" in server:
        given["server"] = ServerEngine(model=model, **server)
    elif server:
        raise click.UsageError("--api-key, --in-flight and --speed are for --engine server: give its --url.")
    elif model is not None:
        given["model"] = Path(model)
    return given | {"engines": engines}
