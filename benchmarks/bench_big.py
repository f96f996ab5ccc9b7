"""The big log: a million requests of about 1,000 tokens through ``analyze``, and stage by stage."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench_growth import PLAIN, analyzed
from big_log import write_log
from measure import table

HERE = Path(__file__).resolve().parent
COMPARED = ("Jaccard of text", "Jaccard of prefixes")
SKETCHED = ("first sights", "variable share")
GOALS = {"core": 120, "jaccards": 150}
GOAL_GB = 4


def stages(log: Path) -> dict[str, Any]:
    """Return what ``bench_stages.py`` says of a log."""
    program = [sys.executable, str(HERE / "bench_stages.py"), str(log)]
    found: dict[str, Any] = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
    return found


def stage_table(found: dict[str, Any]) -> str:
    """Return the table of the stages of one log."""
    requests, spent = found["requests"], found["cpu_s"]
    total = sum(spent.values())
    rows = [
        [name, f"{cpu:.2f}", f"{1e6 * cpu / requests:.1f}", f"{cpu / total:.0%}", f"{found['mb'][name]:,.0f}"]
        for name, cpu in spent.items()
    ]
    rows.append(
        [
            "all stages",
            f"{total:.2f}",
            f"{1e6 * total / requests:.1f}",
            "100%",
            f"{max(found['mb'].values()):,.0f}",
        ]
    )
    return table(["stage", "CPU s", "µs a request", "share", "MB at its end"], rows)


def sums(found: dict[str, Any]) -> tuple[float, float]:
    """Return the CPU seconds of lengths, hits and curve; and of both Jaccards besides."""
    spent = found["cpu_s"]
    core = sum(cpu for name, cpu in spent.items() if name not in COMPARED + SKETCHED)
    return core, core + sum(spent[name] for name in COMPARED)


def scaled(goal: float, requests: int) -> str:
    """Return a goal that was set for a million requests, for so many."""
    return f"{goal * requests / 1e6:.0f} CPU s"


def big(folder: Path, requests: int, *, processes: bool = True) -> str:
    """Return the section about the big log: whole runs, sums of stages, the table of stages."""
    log = write_log(folder / "big.jsonl", requests)
    found = stages(log)
    core, jaccards = sums(found)
    peak = f"{max(found['mb'].values()):,.0f}"
    rows = [
        [
            "lengths, hits, full curve (sum of stages)",
            f"{core:.1f}",
            "-",
            peak,
            scaled(GOALS["core"], requests),
        ],
        [
            "and both Jaccards (sum of stages)",
            f"{jaccards:.1f}",
            "-",
            peak,
            scaled(GOALS["jaccards"], requests),
        ],
    ]
    runs: list[tuple[str, tuple[str, ...], str]] = [
        (
            "`analyze --no-findings --no-classes`: all figures of text, cache and traffic",
            PLAIN,
            f"{GOAL_GB} GB",
        )
    ]
    if processes:
        two = (*PLAIN, "--executor", "processes", "--workers", "2")
        runs.append(("the same, `--executor processes --workers 2`", two, ""))
    runs.append(("`analyze`: with findings and classes", ("--no-cache",), "measured"))
    for name, options, goal in runs:
        usage = analyzed(log, *options)
        rows.append([name, *usage.cells(), goal])
    size = log.stat().st_size / 1e9
    log.unlink()
    return (
        f"{requests:,} requests of {found['tokens'] / requests:.0f} tokens on average, {size:.2f} GB; "
        f"{found['hit_tokens'] / found['tokens']:.2%} of the tokens hit in an unlimited cache.\n\n"
        + table(["what", "CPU s", "wall s", "peak MB", "goal"], rows)
        + "\n\nThe stages, in one process, start-up excluded:\n\n"
        + stage_table(found)
    )
