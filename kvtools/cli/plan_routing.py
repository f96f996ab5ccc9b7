"""``kvtools plan routing PATH…``: the log on several replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvtools.cli.options import CACHE, FILE, INTAKE, RESULT, only_given, sized, with_options
from kvtools.cli.output import keep_apart, result_to
from kvtools.cli.values import at_least_one, comma_list

if TYPE_CHECKING:
    from pathlib import Path


def replica_counts(text: str) -> tuple[int, ...]:
    """Return numbers of replicas that commas separate.

    Raises:
        click.BadParameter: one of them is no whole number of 1 or more.
    """
    return tuple(at_least_one(entry) for entry in comma_list(text))


ROUTING = (
    click.option(
        "--replicas", type=replica_counts, metavar="N,…", help="Numbers of replicas (default: 1,2,4,8)."
    ),
    click.option(
        "--policy",
        "policies",
        type=comma_list,
        metavar="NAME,…",
        help="round-robin, least-loaded, session-affine, prefix-hash, prefix-aware (default: all).",
    ),
    click.option(
        "--prefix-tokens",
        type=at_least_one,
        metavar="T",
        help="Tokens of prefix-hash's key (default: the best of 16 … 8,192).",
    ),
    click.option("--nginx", type=FILE, metavar="FILE", help="Write the nginx upstream for the best policy."),
    click.option(
        "--servers",
        type=comma_list,
        metavar="HOST:PORT,…",
        help="The replicas' names, as in nginx's upstream.",
    ),
    click.option("--header", metavar="NAME", help="nginx: the header that carries the routing key."),
)


@click.command("routing")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@with_options(ROUTING, CACHE, INTAKE, RESULT)
def command(paths: tuple[str, ...], output_format: str, output: Path | None, **given: Any) -> None:
    """Replay the requests in PATH… on several replicas, routed in different ways.

    Prints hit rate and load imbalance of each policy, between the ceiling of one engine and the floor of round-robin,
    and how long a routing key has to be. The cache's size is that of each replica.
    """
    from kvtools.cli.next_steps import next_command  # noqa: PLC0415 - used only here
    from kvtools.cli.progress import watched  # noqa: PLC0415 - heavy
    from kvtools.flow.plan_routing import RoutingOptions, plan_routing  # noqa: PLC0415 - heavy
    from kvtools.report.plan_routing_text import render_routing  # noqa: PLC0415 - heavy

    keep_apart(paths, {"-o": output, "--nginx": given["nginx"], "--rejects": given["rejects"]})
    options = RoutingOptions(**only_given(sized(given)))
    with result_to(output, utf8=output_format == "json") as write:
        with watched("routing") as watcher:
            report = plan_routing(paths, options, watcher)
        write(report.to_json() if output_format == "json" else render_routing(report, next_command(paths)))
