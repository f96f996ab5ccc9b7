"""Options on where the work on chunks runs, and what is kept of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from kvtools.cli.options import FILE
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


def kept_in(given: dict[str, Any]) -> dict[str, Any]:
    """Replace ``--cache`` by the folder in which keys are kept, if they are."""
    if not given.pop("cache"):
        given["cache_dir"] = None
    elif given["cache_dir"] is None:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        given["cache_dir"] = Path(base) / "kvtools" / "keys"
    return given
