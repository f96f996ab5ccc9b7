"""Measure everything in one run on this machine and write benchmarks/RESULTS.md.

    python benchmarks/bench.py [full|quick] [--only big,stages,growth,peers,limits,start-up,dask] [-o FILE]

``quick`` takes small logs: it shows that the measuring works, and its figures are not for quoting. The log of the
peers comes from ../shared/peers/make_log.py where that is there, else from benchmarks/big_log.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench_big import big, stage_table, stages
from bench_growth import growth, start_up
from bench_peers import installed, own_rows, peer_rows
from big_log import write_log
from measure import machine, table
from peers_input import write_inputs

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
MAKE_LOG = HERE.parents[1] / "shared/peers/make_log.py"


@dataclass(frozen=True)
class Sizes:
    """How much is measured: requests of the big log, of the growing logs, of the peers' log; runs of each."""

    big: int
    growth: tuple[int, ...]
    peers: int
    runs: int


SIZES = {
    "full": Sizes(1_000_000, (2_000, 20_000, 200_000), 20_000, 3),
    "quick": Sizes(4_000, (1_000, 4_000, 16_000), 500, 1),
}


def common_log(folder: Path, requests: int) -> Path:
    """Write the log that the peers read too, and return its path."""
    path = folder / "common.jsonl"
    if not MAKE_LOG.is_file():
        return write_log(path, requests)
    make = [sys.executable, str(MAKE_LOG), "--n", str(requests), "--seed", "7", "--out", str(path)]
    subprocess.run(make, check=True)
    return path


def stages_section(folder: Path, sizes: Sizes) -> str:
    found = stages(common_log(folder, sizes.peers))
    rate = found["hit_tokens"] / found["tokens"]
    return f"{found['requests']:,} requests, {found['tokens']:,} tokens, {rate:.2%} hit.\n\n" + stage_table(
        found
    )


def peers_section(folder: Path, sizes: Sizes) -> str:
    log, inputs = common_log(folder, sizes.peers), folder / "inputs"
    write_inputs(log, inputs)
    rows = own_rows(log, sizes.runs) + peer_rows(inputs, 1)
    return (
        f"{sizes.peers:,} requests, {log.stat().st_size / 1e6:.0f} MB, each peer in its own form of the same log.\n\n"
        + table(["tool", "CPU s", "wall s", "peak MB", "what it does"], rows)
    )


def limits_section(folder: Path, sizes: Sizes) -> str:
    log = common_log(folder, sizes.peers)
    program = [sys.executable, str(HERE / "bench_limits.py"), str(log)]
    spent = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
    size = log.stat().st_size / 1e6
    rows = [[name, f"{cpu:.2f}", f"{size / cpu:,.0f}"] for name, cpu in spent.items() if cpu]
    return f"The same log of {size:.0f} MB.\n\n" + table(["limit", "CPU s", "MB of log a CPU s"], rows)


def start_section(folder: Path, sizes: Sizes) -> str:
    return table(["start-up, after the first run", "CPU s", "wall s", "goal"], start_up(folder, sizes.runs))


def dask_section() -> str:
    programs, why = installed("kvtools-dask", f"{HERE.parent}[dask]")
    if programs is None:
        return f"Left out: Dask {why}."
    program = [str(programs / "python"), str(HERE / "bench_dask.py"), "2"]
    spent = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
    rows = [[name, f"{milliseconds:,.1f}"] for name, milliseconds in spent.items()]
    return "Two processes of a `LocalCluster` on this machine, wall time.\n\n" + table(["what", "ms"], rows)


SECTIONS: dict[str, tuple[str, Callable[[Path, Sizes], str]]] = {
    "stages": ("Stages, on the common log", stages_section),
    "peers": ("Peers, on the common log", peers_section),
    "limits": ("What nobody can undercut", limits_section),
    "growth": ("Growth", lambda folder, sizes: growth(folder, sizes.growth, 1)),
    "start-up": ("Start-up", start_section),
    "dask": ("Dask", lambda _folder, _sizes: dask_section()),
    "big": ("The big log", lambda folder, sizes: big(folder, sizes.big)),
}


def head(name: str) -> str:
    """Return what stands above the sections."""
    load = os.getloadavg()
    note = " **Small logs: these figures only show that the measuring works.**" if name == "quick" else ""
    return (
        f"# Benchmarks\n\nWritten by `make bench` ({name}), in one run on one machine.{note}\n\n"
        + "".join(f"- {line}\n" for line in machine())
        + f"- load when it began: {load[0]:.1f}\n\n"
        "CPU seconds are user and system time of a process and its children; processes that share the cores make them "
        "larger (up to a third was seen), so compare within one table. Peak memory is the largest resident set of one "
        "process. Every log is generated from a seed."
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("size", nargs="?", choices=SIZES, default="full")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("-o", dest="out", type=Path, default=HERE / "RESULTS.md")
    given = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without bytecode every start compiles the package anew
    parts = [head(given.size)]
    for name in given.only.split(","):
        title, section = SECTIONS[name]
        with tempfile.TemporaryDirectory() as folder:
            print(f"{title} …", flush=True)
            parts.append(f"## {title}\n\n{section(Path(folder), SIZES[given.size])}")
        # Written after each section: a run that is cut off leaves what it has measured.
        given.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(given.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
