"""What the benchmarks share: a process measured from outside, the machine in a sentence, a table in Markdown."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KVTOOLS = [sys.executable, "-m", "kvtools"]
PACKAGES = (
    "kvtools",
    "gigatoken",
    "tokenizers",
    "numba",
    "numpy",
    "pyarrow",
    "msgspec",
    "jinja2",
    "distributed",
)


@dataclass(frozen=True)
class Usage:
    """User and system time of a process and all that it waited for, its wall time, its largest resident set."""

    cpu_s: float
    wall_s: float
    peak_mb: float

    def cells(self) -> list[str]:
        """The three figures as they stand in a table."""
        return [f"{self.cpu_s:.1f}", f"{self.wall_s:.1f}", f"{self.peak_mb:,.0f}"]


class ProgramFailedError(Exception):
    """A measured program ended with an error; the text is the last line that it wrote."""


def measured(
    program: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Usage:
    """Run a program to its end.

    Raises:
        ProgramFailedError: it returned another code than 0.
    """
    child = [sys.executable, "-I", "-S", str(Path(__file__).with_name("measure_child.py")), *program]
    told = subprocess.run(
        child,
        check=True,
        capture_output=True,
        cwd=folder,
        env=None if environment is None else {**os.environ, **environment},
    )
    found = json.loads(told.stdout)
    if found["code"]:
        raise ProgramFailedError(found["last"])
    return Usage(found["cpu_s"], found["wall_s"], found["peak_mb"])


def median(usages: Iterable[Usage]) -> Usage:
    """Return the medians of several runs, the largest of their peaks."""
    runs = list(usages)
    return Usage(
        statistics.median(run.cpu_s for run in runs),
        statistics.median(run.wall_s for run in runs),
        max(run.peak_mb for run in runs),
    )


def resident_mb() -> float:
    """Return what this process holds in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def machine() -> list[str]:
    """Return what the figures depend on: processor, cores, memory, system, versions. No names, no paths."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()} {platform.release()}",
        f"Python {platform.python_version()}; "
        + ", ".join(f"{name} {version_of(name)}" for name in PACKAGES if version_of(name)),
    ]


def version_of(package: str) -> str:
    """Return the version of an installed package, nothing where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines)
