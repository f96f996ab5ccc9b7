"""How many requests of the peers log ``normalize`` rewrites and proves per CPU second, with templates at hand.

    python benchmarks/normalize.py [LOG]

The log is made by the generator beside the project (20,000 requests) where none is named. The goal is 10,000.
"""

from __future__ import annotations

import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kvtools.fields import SectionSample, grouped, learn_group
from kvtools.fields.catalogue import Catalogue
from kvtools.normalize import Moves, Rewriting
from kvtools.normalize.files import FileRewriter
from kvtools.normalize.lines import LineRewriter
from kvtools.normalize.sidecar import SidecarWriter

GENERATOR = Path(__file__).resolve().parents[2] / "shared/peers/make_log.py"
LEARNED_REQUESTS = 2_000
GOAL = 10_000
RUNS = 5


def moves_of(path: Path) -> tuple[Moves, ...]:
    """Return moves of every field that varies in the system messages of the first requests."""
    sample = SectionSample()
    with path.open(encoding="utf-8") as lines:
        for _, line in zip(range(LEARNED_REQUESTS), lines, strict=False):
            for message in json.loads(line)["messages"]:
                if message["role"] == "system":
                    sample.offer("system", message["content"], None)
    found = []
    for group in grouped(list(sample.texts.values())):
        for one in learn_group(group, Catalogue.bundled()):
            gaps = tuple(n for n, gap in enumerate(one.template.gaps) if gap.shape != "text")
            if gaps:
                found.append(Moves(one.template, gaps))
    return tuple(found)


def measured(path: Path, moves: tuple[Moves, ...]) -> tuple[float, int, int]:
    """Return requests per CPU second, and how many requests were read and changed."""
    data = io.BytesIO(path.read_bytes())
    files = FileRewriter(io.BytesIO(), SidecarWriter(io.BytesIO()))
    begin = time.process_time()
    files.rewrite(data, LineRewriter(Rewriting(moves), "chat-jsonl"))
    spent = time.process_time() - begin
    tally = files.tally
    requests = tally.changed + tally.unchanged + tally.refused
    return requests / spent, requests, tally.changed


def main() -> None:
    """Print the median of five runs."""
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            path = Path(sys.argv[1])
        else:
            path = Path(folder) / "log.jsonl"
            command = [sys.executable, str(GENERATOR), "--n", "20000", "--seed", "7", "--out", str(path)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        moves = moves_of(path)
        runs = [measured(path, moves) for _ in range(RUNS)]
    rate = statistics.median(run[0] for run in runs)
    print(f"{rate:,.0f} requests per CPU second (median of {RUNS}, goal {GOAL:,}), {len(moves)} templates;")
    print(f"{runs[0][1]:,} requests read, {runs[0][2]:,} changed, each restored and tried a second time")


if __name__ == "__main__":
    main()
