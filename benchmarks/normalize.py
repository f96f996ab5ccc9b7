"""How many requests of the peers log ``normalize`` rewrites and proves per CPU second, and what it gains there.

    python benchmarks/normalize.py [LOG]

The log is made by the generator beside the project (20,000 requests) where none is named. ``kvtools normalize`` runs
once, for what pays and what it gains; then the same moves are made again, from the file to nowhere, five times.
The goal is 10,000.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kvtools.flow import NormalizeOptions, normalize, restore
from kvtools.flow.rewrites import given
from kvtools.normalize import Rewriting
from kvtools.normalize.files import FileRewriter
from kvtools.normalize.lines import LineRewriter
from kvtools.normalize.sidecar import SidecarWriter

if TYPE_CHECKING:
    from kvtools.normalize import Moves

GENERATOR = Path(__file__).resolve().parents[2] / "shared/peers/make_log.py"
GOAL = 10_000
RUNS = 5
BLOCK_BYTES = 256 << 10
"""The log is read in the blocks in which ``normalize`` reads it."""


def gained(path: Path, folder: Path) -> tuple[Moves, ...]:
    """Normalize the log as a user does, say what that gains, and return the moves that paid."""
    out, back, learned = folder / "out.jsonl", folder / "back.jsonl", folder / "templates"
    begin = time.process_time()
    report = normalize([path], NormalizeOptions(target=out, learn=learned))
    spent = time.process_time() - begin
    restore(out, back)
    equal = "byte for byte" if back.read_bytes() == path.read_bytes() else "NOT EQUAL"
    rate, count = report.hit_rate, report.requests
    assert rate.before is not None
    assert rate.after is not None
    print(f"hit rate {rate.before:.2%} before, {rate.after:.2%} after (replayed, unlimited cache, block 16);")
    print(f"{count.changed:,} changed, {count.unchanged:,} as they were, {count.refused:,} refused,", end=" ")
    print(f"{count.not_read:,} not read; restored {equal}; {spent:.0f} CPU s in all")
    return given(learned, "all").moves


def measured(path: Path, moves: tuple[Moves, ...]) -> tuple[float, int]:
    """Return requests per CPU second, and how many were changed."""
    rewriter = LineRewriter(Rewriting(moves), "chat-jsonl")
    nowhere = Path(os.devnull)
    with path.open("rb", BLOCK_BYTES) as log, nowhere.open("wb") as out, nowhere.open("wb") as notes:
        files = FileRewriter(out, SidecarWriter(notes))
        begin = time.process_time()
        files.rewrite(log, rewriter)
        spent = time.process_time() - begin
    tally = files.tally
    return (tally.changed + tally.unchanged + tally.refused) / spent, tally.changed


def main() -> None:
    """Print what is gained, and the median of five runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "log.jsonl"
        if len(sys.argv) == 1:
            command = [sys.executable, str(GENERATOR), "--n", "20000", "--seed", "7", "--out", str(path)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        moves = gained(path, folder)
        runs = [measured(path, moves) for _ in range(RUNS)]
    rate = statistics.median(run[0] for run in runs)
    print(
        f"{rate:,.0f} requests per CPU second (median of {RUNS}), {rate / GOAL:.2f} of the goal of {GOAL:,};"
    )
    print(f"{len(moves)} templates, {runs[0][1]:,} requests changed, each restored and tried a second time")


if __name__ == "__main__":
    main()
