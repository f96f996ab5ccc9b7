"""The options of ``kvtools warmup build`` (where to write, what sending may cost, what to judge by) and ``send``."""

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
    click.option(
        "--time-of-day", is_flag=True, help="Also try to weight prefixes by the time of day to come."
    ),
    click.option(
        "--ahead",
        "ahead_s",
        type=duration_s,
        metavar="TIME",
        help="Say what to send so long before the next burst of cold requests, such as 15s.",
    ),
    click.option("--no-holdout", is_flag=True, help="Build from the whole log; the figures are optimistic."),
)

SEND = (
    click.option("--url", required=True, metavar="URL", help="The server, such as http://127.0.0.1:8000."),
    click.option(
        "--api-key", envvar="KVTOOLS_API_KEY", metavar="KEY", help="The server's key (or KVTOOLS_API_KEY)."
    ),
    click.option(
        "--model", metavar="NAME", help="The model's name there (default: as logged, else its first)."
    ),
    click.option("--in-flight", type=at_least_one, metavar="N", help="Requests at once (default: 4)."),
    click.option("--verify", is_flag=True, help="Ask for each prefix once more and show what was cached."),
    click.option(
        "--members",
        multiple=True,
        metavar="PATH",
        help="The log of the set: --verify then asks for a logged request of each group.",
    ),
    click.option("--input-format", metavar="NAME", help="Format of --members (default: found out)."),
    click.option("--ahead", is_flag=True, help="Send only what --ahead chose to send before the next burst."),
)
"""The options of ``kvtools warmup send``."""
