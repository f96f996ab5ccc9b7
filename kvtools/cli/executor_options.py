"""Options on where the work on chunks runs, and what is kept of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from kvtools.cli.options import FILE, only_given
from kvtools.cli.values import at_least_one

EXECUTOR = (
    click.option(
        "--executor",
        type=click.Choice(["serial", "processes", "dask"]),
        help="Where prompts become keys (default: serial); the result is the same.",
    ),
    click.option("--workers", type=at_least_one, metavar="N", help="Processes (default: one per processor)."),
    click.option("--scheduler", metavar="ADDRESS", help="A Dask cluster that runs already."),
    click.option(
        "--cache/--no-cache",
        "cache",
        default=True,
        help="Keep keys for the next run, and go on from those of a run that was cut off (default), or not.",
    ),
    click.option(
        "--cache-dir", type=FILE, metavar="DIR", help="Where they are kept (default: ~/.cache/kvtools/keys)."
    ),
)


def worked(given: dict[str, Any]) -> dict[str, Any]:
    """Replace these options by the work that the verbs take."""
    from kvtools.flow import Work  # noqa: PLC0415 - heavy

    names = ("executor", "workers", "scheduler", "cache_dir")
    chosen = only_given({name: given.pop(name) for name in names})
    if not given.pop("cache"):
        chosen.pop("cache_dir", None)
    elif "cache_dir" not in chosen:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        chosen["cache_dir"] = Path(base) / "kvtools" / "keys"
    return given | {"work": Work(**chosen)}
