"""CPU seconds and peak memory of ``kvtools analyze logs`` on the common log of 2,000 and 20,000 requests.

    python benchmarks/analyze.py            (needs ../shared/peers/make_log.py)

Whole processes, as the operating system accounts for them; the median of three runs after one warm-up run that
compiles. Compare CPU seconds and ratios within one run, not wall time across machines.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MAKE_LOG = Path(__file__).resolve().parents[2] / "shared/peers/make_log.py"
RUNS = 3
HELP_RUNS = 11


def measured(program: list[str]) -> tuple[float, float, float]:
    """Run a program and return its CPU seconds, wall seconds and peak memory in MB."""
    begun = os.times()
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(program)} failed")
    return usage.ru_utime + usage.ru_stime, os.times().elapsed - begun.elapsed, usage.ru_maxrss / 1000


def main() -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode every start compiles the package anew
    kvtools = [sys.executable, "-m", "kvtools"]
    measured([*kvtools, "--help"])
    wall = statistics.median(measured([*kvtools, "--help"])[1] for _ in range(HELP_RUNS))
    print(f"kvtools --help: {1000 * wall:.0f} ms wall (median of {HELP_RUNS}; limit 150)")
    if not MAKE_LOG.is_file():
        sys.exit("../shared/peers/make_log.py is not here: nothing more to measure")
    with tempfile.TemporaryDirectory() as folder:
        for requests in (2_000, 20_000):
            log = f"{folder}/{requests}.jsonl"
            make = [sys.executable, str(MAKE_LOG), "--n", str(requests), "--seed", "7", "--out", log]
            subprocess.run(make, check=True)
            program = [*kvtools, "analyze", "logs", log, "--format", "json"]
            measured(program)
            runs = [measured(program) for _ in range(RUNS)]
            cpu, _, memory = (statistics.median(column) for column in zip(*runs, strict=True))
            size = Path(log).stat().st_size / 1e6
            print(
                f"analyze logs, {requests:,} requests ({size:.0f} MB): {cpu:.1f} CPU s, peak {memory:.0f} MB"
            )


if __name__ == "__main__":
    main()
