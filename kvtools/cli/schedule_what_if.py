"""The what-ifs of ``kvtools plan schedule``: what vLLM has no switch for."""

from __future__ import annotations

import click

from kvtools.cli.values import at_least_one


def failure(text: str) -> tuple[float, float, float]:
    """Return ``60:30`` or ``60:30:0.5`` (from when, for how long, what is left) as seconds and a share.

    Raises:
        click.BadParameter: it is neither.
    """
    try:
        at, lasts, left = (
            float(part) for part in (text if text.count(":") > 1 else f"{text}:0.5").split(":")
        )
    except ValueError:
        raise click.BadParameter(f"{text!r} is not AT:FOR[:LEFT] in seconds, such as 60:30:0.5.") from None
    return at, lasts, left


WHAT_IF_NAMES = ("cold_int8", "tier_blocks", "reload_ms", "failure", "cpu_tokens_per_s", "cpu_step_ms")

WHAT_IF = (
    click.option(
        "--cold-int8", is_flag=True, default=None, help="What if KV of cold requests took half the bytes?"
    ),
    click.option(
        "--cpu-blocks",
        "tier_blocks",
        type=at_least_one,
        metavar="N",
        help="What if so many blocks in CPU memory kept copies?",
    ),
    click.option(
        "--reload-ms", type=float, metavar="MS", help="Time to bring a copy back (default: 0.1 a block)."
    ),
    click.option(
        "--gpu-failure",
        "failure",
        type=failure,
        metavar="AT:FOR[:LEFT]",
        help="What if AT seconds on, for FOR, LEFT (0.5) of the speed were left?",
    ),
    click.option(
        "--cpu-tokens-per-s", type=float, metavar="N", help="The CPU that then takes cold (default: 200)."
    ),
    click.option("--cpu-step-ms", type=float, metavar="MS", help="Its time of a step (default: 200)."),
)
