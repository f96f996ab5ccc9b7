"""``kvtools analyze metrics SNAPSHOT…|--prometheus URL``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, INTAKE, RESULT, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.values import duration_s, name_and_value

if TYPE_CHECKING:
    from pathlib import Path

SCRAPES = (
    click.option("--prometheus", metavar="URL", help="Ask a Prometheus instead of reading pages."),
    click.option(
        "--range", "range_s", type=duration_s, metavar="TIME", help="How far back, such as 6h (default: 1h)."
    ),
    click.option(
        "--step",
        "step_s",
        type=duration_s,
        metavar="TIME",
        help="Length of a window (default: by the scrapes).",
    ),
    click.option(
        "--query-label",
        "query_labels",
        type=name_and_value,
        multiple=True,
        metavar="NAME=VALUE",
        help="Only series with this label; repeatable.",
    ),
    click.option(
        "--log",
        multiple=True,
        metavar="PATH",
        help="Compare with the log of the same traffic, or its stored report; repeatable.",
    ),
    click.option(
        "--measure-from", type=float, metavar="SHARE", help="Count only what follows this share of the log."
    ),
)


@click.command("metrics")
@click.argument("paths", nargs=-1, metavar="SNAPSHOT…")
@with_options(SCRAPES, CACHE, INTAKE, RESULT)
def command(
    paths: tuple[str, ...],
    output_format: str,
    output: Path | None,
    query_labels: tuple[tuple[str, str], ...],
    log: tuple[str, ...],
    **given: Any,
) -> None:
    """Report the hit rate that engines counted between scrapes of their /metrics.

    SNAPSHOT is a page of /metrics, or many behind lines '# time …'; a file, a glob or a folder. Its time is that line,
    the samples' own, the one in the file's name, or the file's.
    """
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow import MetricsOptions, analyze_metrics  # noqa: PLC0415 - heavy

    keep_apart((*paths, *log), {"-o": output, "--rejects": given["rejects"]})
    options = MetricsOptions(log=log, query_labels=dict(query_labels), **only_given(sized(given)))
    with result_to(output, utf8=output_format == "json") as write:
        with watched("reading") as watcher:
            report = analyze_metrics(paths, options, watcher)
        if output_format == "json":
            write(report.to_json())
            return
        from kvtools.report.metrics_text import render_metrics  # noqa: PLC0415 - heavy

        write(render_metrics(report))
