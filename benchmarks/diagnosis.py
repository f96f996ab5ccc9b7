"""CPU seconds and peak memory of ``kvtools analyze logs`` with all counterfactuals, beside kvlint's ``lint``.

    python benchmarks/diagnosis.py [LOG]    (without LOG: needs ../shared/peers/make_log.py)

The common log of 20,000 requests (seed 7), or LOG. Each run is a process of its own, start of Python included: user and
system time of all its threads, and its largest resident set. The peer's figures are the published ones
(../shared/peers/README.md, 2 cores), not measured here: compare the orders of magnitude. kvlint's ``lint`` names where
prompts break and gives no costs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MAKE_LOG = Path(__file__).resolve().parents[2] / "shared/peers/make_log.py"
REQUESTS, RUNS = 20_000, 3
LIMIT_CPU_S, LIMIT_MB = 45, 900
PEER = "kvlint 0.1.1 lint, published (shared/peers/README.md): 195 CPU s, 3,332 MB, no costs"


def measured(log: str) -> tuple[float, float]:
    """Analyze ``log`` in a process of its own; return CPU seconds and peak memory in MB."""
    command = [sys.executable, "-m", "kvtools", "analyze", "logs", log, "--format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        sys.exit(f"kvtools analyze logs {log} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def report(log: str, *, limits: bool) -> None:
    """Measure ``log`` a few times and print the figures."""
    measured(log)  # fills the file cache, compiles machine code that later runs load
    seconds, peaks = zip(*(measured(log) for _ in range(RUNS)), strict=True)
    allowed = f"; limit {LIMIT_CPU_S}" if limits else ""
    print(
        f"kvtools analyze logs, all counterfactuals, {Path(log).stat().st_size / 1e6:.0f} MB: "
        f"{statistics.median(seconds):.1f} CPU s (median of {RUNS}, best {min(seconds):.1f}{allowed}), "
        f"peak {max(peaks):.0f} MB{f' (limit {LIMIT_MB})' if limits else ''}"
    )
    if limits:
        print(PEER)


def main() -> None:
    if len(sys.argv) > 1:
        report(sys.argv[1], limits=False)
        return
    if not MAKE_LOG.is_file():
        sys.exit("../shared/peers/make_log.py is not here: name a log")
    with tempfile.TemporaryDirectory() as folder:
        log = f"{folder}/log.jsonl"
        make = [sys.executable, str(MAKE_LOG), "--n", str(REQUESTS), "--seed", "7", "--out", log]
        subprocess.run(make, check=True)
        report(log, limits=True)


if __name__ == "__main__":
    main()
