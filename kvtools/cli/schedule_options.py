"""The options of ``kvtools plan schedule``, and how their values are read."""

from __future__ import annotations

import click

from kvtools.cli.options import FILE
from kvtools.cli.values import at_least_one, comma_list, duration_s


def cold_shares(text: str) -> tuple[float, ...]:
    """Return ``cold_share=0:0.4`` or ``cold_share=0:0.4:0.1`` (low, high, step) as shares.

    Raises:
        click.BadParameter: it is neither, or a share is not 0..1.
    """
    name, _, span = text.partition("=")
    try:
        low, high, step = (
            float(part) for part in (span if span.count(":") > 1 else f"{span}:0.05").split(":")
        )
    except ValueError:
        low = high = step = 0.0
    if name != "cold_share" or not (0 <= low < high <= 1 and step >= 0.001):
        raise click.BadParameter(f"{text!r} is not a sweep such as cold_share=0:0.4 or cold_share=0:0.4:0.1.")
    count = max(round((high - low) / step), 1)
    return tuple(round(low + (high - low) * place / count, 6) for place in range(count + 1))


def class_limits(text: str) -> dict[str, str]:
    """Return ``hot=80/200,cold=summaries`` as classes and what was given for each.

    Raises:
        click.BadParameter: an entry is no class with a limit.
    """
    pairs = [entry.partition("=") for entry in comma_list(text)]
    if any(name not in ("hot", "cold") or not value for name, _, value in pairs):
        raise click.BadParameter(f"{text!r} is not a list such as hot=80/200,cold=summaries.")
    return {name: value for name, _, value in pairs}


SCHEDULE = (
    click.option(
        "--policy",
        "policies",
        type=comma_list,
        metavar="NAME,…",
        help="fcfs, priority, hotcold, breaker, dynamic, partitioned (default: all).",
    ),
    click.option(
        "--label-rules",
        "rules_file",
        type=FILE,
        metavar="FILE",
        help="rules.yaml that says who is hot (default: learnt from the log).",
    ),
    click.option(
        "--limits",
        "limits_ms",
        type=class_limits,
        metavar="hot=P50/P99,…",
        help="TTFT limits in ms, or chat, search, summaries (default: hot=chat,cold=summaries).",
    ),
    click.option(
        "--sweep", type=cold_shares, metavar="cold_share=LOW:HIGH[:STEP]", help="Find turning points."
    ),
    click.option("--scenarios", is_flag=True, default=None, help="Run the article's four mixes."),
    click.option(
        "--search", "tries", type=at_least_one, metavar="N", help="Try N limits, judge them on later traffic."
    ),
    click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of every draw (default: 0)."),
)

ENGINE = (
    click.option("--max-num-seqs", type=at_least_one, metavar="N", help="Seats (default: 256)."),
    click.option(
        "--max-num-batched-tokens", type=at_least_one, metavar="N", help="Tokens a step (default: 8192)."
    ),
    click.option(
        "--long-prefill-token-threshold", type=at_least_one, metavar="N", help="Tokens of one a step."
    ),
    click.option("--prefill-tokens-per-s", type=float, metavar="N", help="Computed tokens a second."),
    click.option("--decode-step-ms", type=float, metavar="MS", help="Time of a step without prefill."),
    click.option("--gpu", metavar="NAME", help="Roofline of A100, H100, H200, L40S or L4; needs --weights."),
    click.option("--gpus", type=at_least_one, metavar="N", help="So many of that GPU (default: 1)."),
    click.option("--weights", metavar="SIZE", help="Memory of the weights, 16-bit, on all GPUs together."),
)

LIMITS = (
    click.option(
        "--hot-seqs", type=at_least_one, metavar="N", help="hotcold: hot seats (default: no limit)."
    ),
    click.option(
        "--cold-seqs", type=at_least_one, metavar="N", help="hotcold, dynamic: cold seats (default: 1/3)."
    ),
    click.option(
        "--cold-timeout",
        "cold_timeout_s",
        type=duration_s,
        metavar="TIME",
        help="hotcold: how long a cold request waits (default: 30s).",
    ),
    click.option(
        "--on-timeout", type=click.Choice(["promote", "abort"]), help="What then happens (default: promote)."
    ),
    click.option(
        "--hot-reserve",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="partitioned: blocks that cold requests never hold (default: 0.15).",
    ),
    click.option(
        "--retries",
        type=click.IntRange(min=0),
        metavar="N",
        help="breaker: further tries after a 503 (default: 3).",
    ),
)
