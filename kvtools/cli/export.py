"""``kvtools export prometheus-rules|alertmanager|grafana|textfile PATH…|REPORT.json -o DIR``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from kvtools.cli.options import CACHE, FILE, INTAKE, only_given, sized, with_options
from kvtools.cli.values import at_least_one, name_and_value

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.flow.export import Kind


@click.group("export")
def command() -> None:
    """Write the figures of a log as alerts and panels for the servers that serve it.

    PATH… is a log as for kvtools analyze, or REPORT.json, what kvtools analyze --format json wrote.
    """


TARGET = (
    click.option(
        "-o", "--output", "target", required=True, type=FILE, metavar="DIR", help="Folder for the file."
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Form of what is printed.",
    ),
)
WATCHED = (
    click.option("--selector", metavar="MATCHERS", help='Label matchers of the servers, such as job="vllm".'),
    click.option("--textfile-selector", metavar="MATCHERS", help="Label matchers of the log's textfile."),
    click.option("--by", metavar="LABEL,…", help="Labels that make one service (default: job,model_name)."),
    click.option("--hot", metavar="MATCHERS", help="Label matchers of servers that serve only hot requests."),
    click.option("--cold", metavar="MATCHERS", help="Label matchers of servers that serve only cold ones."),
    click.option(
        "--max-num-seqs", type=at_least_one, metavar="N", help="vLLM's setting, for the queue's alert."
    ),
    click.option(
        "--scenario",
        "scenarios",
        multiple=True,
        metavar="NAME[=MATCHERS]",
        help="Watch the P99 of live-chat, search or summaries; repeatable.",
    ),
    click.option(
        "--latency",
        type=click.Choice(["e2e", "ttft"]),
        help="What scenarios limit: to the last token (default) or to the first.",
    ),
)
ARGUMENT = (click.argument("paths", nargs=-1, required=True, metavar="PATH…|REPORT.json"),)


@command.command("prometheus-rules")
@with_options(ARGUMENT, TARGET, WATCHED, CACHE, INTAKE)
def prometheus_rules(**given: Any) -> None:
    """Write recording rules and alerts, with limits that the log sets, to DIR/kvtools.rules.yaml."""
    _export("prometheus-rules", **given)


@command.command("alertmanager")
@click.option("--webhook", metavar="URL", help="Who is notified (default: nobody).")
@with_options(ARGUMENT, TARGET, WATCHED, CACHE, INTAKE)
def alertmanager(**given: Any) -> None:
    """Write a route and inhibition, so that one cause alerts once, to DIR/alertmanager.yaml."""
    _export("alertmanager", **given)


@command.command("grafana")
@with_options(ARGUMENT, TARGET, WATCHED, CACHE, INTAKE)
def grafana(**given: Any) -> None:
    """Write a dashboard to DIR/kvtools-dashboard.json."""
    _export("grafana", **given)


@command.command("textfile")
@click.option(
    "--label",
    "labels",
    type=name_and_value,
    multiple=True,
    metavar="NAME=VALUE",
    help="A label of all samples.",
)
@with_options(ARGUMENT, TARGET, CACHE, INTAKE)
def textfile(labels: tuple[tuple[str, str], ...], **given: Any) -> None:
    """Write the log's figures for the node exporter's textfile collector to DIR/kvtools.prom.

    REPORT.json may also be what kvtools replay --format json wrote, or one of each.
    """
    _export("textfile", labels=dict(labels), **given)


def _export(kind: str, paths: tuple[str, ...], target: Path, output_format: str, **given: Any) -> None:
    from kvtools.cli.output import keep_apart, result_to  # noqa: PLC0415 - with the rest
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import Deployment, ExportOptions, export, scenario  # noqa: PLC0415 - heavy

    keep_apart(paths, {"--rejects": given["rejects"]})
    names = ("selector", "textfile_selector", "hot", "cold", "max_num_seqs", "latency")
    told = only_given({name: given.pop(name, None) for name in names})
    if by := given.pop("by", None):
        told["by"] = tuple(by.split(","))
    told["scenarios"] = tuple(scenario(text) for text in given.pop("scenarios", ()))
    options = ExportOptions(target=target, deployment=Deployment(**told), **only_given(sized(given)))
    with result_to(None, utf8=output_format == "json") as write:
        with watched("reading") as watcher:
            done = export(cast("Kind", kind), paths, options, watcher)
        write(done.to_json() if output_format == "json" else done.text())
