"""Pages of ``/metrics`` as a vLLM server writes them, made of the counters that a test says."""

from __future__ import annotations

from typing import Any

HELP = "# HELP {name} Prefix cache queries, in terms of number of {unit}.\n# TYPE {name} counter\n"


def page(
    queries: Any = None,
    hits: Any = None,
    *,
    prefix: str = "vllm:prefix_cache",
    labels: str = 'engine="0",model_name="m"',
    unit: str = "queried tokens",
    suffix: str = "_total",
    **further: Any,
) -> str:
    """Return the lines of one engine; ``further``: values by name without ``vllm:``."""
    text = HELP.format(name=f"{prefix}_queries{suffix}", unit=unit)
    if queries is not None:
        text += f"{prefix}_queries{suffix}{{{labels}}} {queries}\n"
    if hits is not None:
        text += f"{prefix}_hits{suffix}{{{labels}}} {hits}\n"
    for name, value in further.items():
        text += f"vllm:{name}{{{labels}}} {value}\n"
    return text


def at(second: float, *pages: str) -> str:
    """Return the pages of one scrape behind their time."""
    return f"# time {second}\n" + "".join(pages)
