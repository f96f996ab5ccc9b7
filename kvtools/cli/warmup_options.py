"""The options of ``kvtools warmup build``: where to write, what sending may cost, and what to judge by."""

from __future__ import annotations

import click

from kvtools.cli.options import FILE
from kvtools.cli.values import at_least_one, duration_s

BUDGET = (
    click.option("-o", "--output", type=FILE, metavar="OUT", help="Where to write the warm-up requests."),
    click.option(
        "--write",
        type=click.Choice(["batch", "prompts", "token-ids"]),
        help="Lines of OUT: chat requests as logged (default), text, or token ids.",
    ),
    click.option("--budget-queries", type=at_least_one, metavar="K", help="Requests to send (default: 100)."),
    click.option("--budget-tokens", type=at_least_one, metavar="N", help="Tokens that sending may compute."),
    click.option("--budget-blocks", type=at_least_one, metavar="N", help="Blocks that the set may fill."),
    click.option(
        "--horizon",
        "horizon_s",
        type=duration_s,
        metavar="TIME",
        help="How far ahead a saving counts (default: 1h).",
    ),
    click.option(
        "--holdout",
        type=float,
        metavar="SHARE",
        help="Share of the log to judge by, from its end (default: 0.3).",
    ),
    click.option("--no-holdout", is_flag=True, help="Build from the whole log; the figures are optimistic."),
)
