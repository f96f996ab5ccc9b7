"""``kvtools analyze`` over logs of growing length, and what it takes to start: whole processes, nothing kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from big_log import write_log
from measure import KVTOOLS, Usage, measured, median, table

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = ("--no-findings", "--no-classes", "--no-cache")
FEW = 100
LIMIT_GROWTH = 1.15
LIMIT_HELP_MS, LIMIT_FEW_S = 150, 4


def analyzed(log: Path, *options: str) -> Usage:
    """Measure ``kvtools analyze logs``, its report written as JSON."""
    return measured([*KVTOOLS, "analyze", "logs", str(log), "--format", "json", *options])


def start_up(folder: Path, runs: int) -> list[list[str]]:
    """Return rows on ``--help``, on importing, and on a log of 100 lines."""
    log = write_log(folder / f"{FEW}.jsonl", FEW)
    analyzed(log)  # compiles
    helped = median(measured([*KVTOOLS, "--help"]) for _ in range(max(runs, 5)))
    imported = median(measured([sys.executable, "-c", "import kvtools.flow"]) for _ in range(runs))
    plain = median(analyzed(log, *PLAIN) for _ in range(runs))
    whole = median(analyzed(log, "--no-cache") for _ in range(runs))
    return [
        ["`kvtools --help`", f"{helped.cpu_s:.2f}", f"{helped.wall_s:.2f}", f"{LIMIT_HELP_MS / 1000} s wall"],
        ["`import kvtools.flow`", f"{imported.cpu_s:.2f}", f"{imported.wall_s:.2f}", ""],
        ["analyze, 100 requests, no findings or classes", f"{plain.cpu_s:.2f}", f"{plain.wall_s:.2f}", ""],
        ["analyze, 100 requests", f"{whole.cpu_s:.2f}", f"{whole.wall_s:.2f}", f"{LIMIT_FEW_S} CPU s"],
    ]


def growth(folder: Path, sizes: tuple[int, ...], runs: int) -> str:
    """Return the table of CPU time over the number of requests, start-up (100 requests) taken off."""
    start = median(analyzed(write_log(folder / "start.jsonl", FEW), *PLAIN) for _ in range(max(runs, 3)))
    rows, each = [], {}
    for size in sizes:
        log = write_log(folder / f"{size}.jsonl", size)
        usage = median(analyzed(log, *PLAIN) for _ in range(runs))
        log.unlink()
        each[size] = (usage.cpu_s - start.cpu_s) / (size - FEW)
        rows.append([f"{size:,}", *usage.cells(), f"{1e6 * each[size]:.0f}"])
    ratio = each[sizes[-1]] / each[sizes[-2]]
    return (
        table(["requests", "CPU s", "wall s", "peak MB", "CPU µs a request"], rows)
        + f"\n\nStart-up, taken off in the last column: {start.cpu_s:.1f} CPU s ({FEW} requests). A request of "
        f"{sizes[-1]:,} costs {ratio:.2f} times one of {sizes[-2]:,} (goal: at most {LIMIT_GROWTH})."
    )
