"""MB per CPU second, and peak memory, of reading chat JSONL as a stream of Arrow chunks.

    python benchmarks/readers.py            (needs ../shared/peers/make_log.py)

The common log of 20,000 requests, and the same four times over: memory must not grow with the file. Each run is a
process of its own; the CPU time is that of reading (hash, lines, JSON, table), without the start of Python. Load on
the same machine slows a CPU second down: look at the best run too, and compare within one run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kvtools.readers import ReadOptions, find_inputs, read

MAKE_LOG = Path(__file__).resolve().parents[2] / "shared/peers/make_log.py"
REQUESTS, TIMES, RUNS = 20_000, 4, 5
LIMIT_MB_S = 150


def reading(log: str) -> None:
    """Read ``log``, keep nothing of it, and print the CPU seconds that it took."""
    inputs = find_inputs([log])
    begun = time.process_time()
    requests = sum(len(chunk.requests) for chunk in read(inputs, ReadOptions(strict=True), []))
    spent = time.process_time() - begun
    assert requests % REQUESTS == 0, requests
    print(spent)


def measured(log: str) -> tuple[float, float]:
    """Read ``log`` in a process of its own; return MB per CPU second and peak memory in MB."""
    process = subprocess.Popen([sys.executable, __file__, log], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    spent = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"reading {log} failed")
    return Path(log).stat().st_size / 1e6 / float(spent), usage.ru_maxrss / 1000


def main() -> None:
    if not MAKE_LOG.is_file():
        sys.exit("../shared/peers/make_log.py is not here: nothing to measure")
    with tempfile.TemporaryDirectory() as folder:
        once, often = f"{folder}/once.jsonl", f"{folder}/often.jsonl"
        make = [sys.executable, str(MAKE_LOG), "--n", str(REQUESTS), "--seed", "7", "--out", once]
        subprocess.run(make, check=True)
        with Path(often).open("wb") as stream:
            stream.writelines(Path(once).read_bytes() for _ in range(TIMES))
        measured(once)  # fills the file cache, compiles to bytecode
        for log in (once, often):
            rates, peaks = zip(*(measured(log) for _ in range(RUNS)), strict=True)
            print(
                f"chat-jsonl, {Path(log).stat().st_size / 1e6:.0f} MB: {statistics.median(rates):.0f} MB per CPU s "
                f"(median of {RUNS}, best {max(rates):.0f}; limit {LIMIT_MB_S}), peak {max(peaks):.0f} MB"
            )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        reading(sys.argv[1])
    else:
        main()
