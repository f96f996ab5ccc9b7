"""The way to the process that renders chat templates, and its limits.

A template gets ``seconds`` of wall-clock; when they are over the process is ended and the rest go to a new one.
The process may take 2 GiB of memory (``worker.MEMORY_BYTES``) where the system can limit it. Templates load no files:
jinja2's environment has no loader. So a template that runs for ever or takes all memory is reported, and harms
nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from threading import Timer
from typing import TYPE_CHECKING, Any

from kvtools.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = 10.0
"""Wall-clock for all probes of one template; the slowest of 40 real ones takes a fraction of a second."""

_START_SECONDS = 60.0
"""Wall-clock until a process is ready: Python and jinja2 have to load, on a busy machine too."""


@dataclass(frozen=True, slots=True)
class Job:
    """A chat template to probe, with the special tokens that are known."""

    name: str
    source: str
    special_tokens: Mapping[str, str]


def probe_chat_templates(jobs: Sequence[Job], seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Return for each job what the worker answered, or ``{"refused": sentence}`` where it was stopped.

    A stopped job costs the others nothing: they are tried in a process of their own.

    Raises:
        EngineError: Python cannot be started a second time.
    """
    answers: list[dict[str, Any]] = []
    while len(answers) < len(jobs):
        answers += _run(jobs[len(answers) :], seconds)
    return answers


def _run(jobs: Sequence[Job], seconds: float) -> list[dict[str, Any]]:
    """Answer jobs up to the first that ends the process, that one included."""
    command = [sys.executable, "-m", "kvtools.linting.worker"]
    answers: list[dict[str, Any]] = []
    with subprocess.Popen(  # noqa: S603 - our own module, no shell
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        try:
            _send(process, jobs)
            ready, _ = _line(process, _START_SECONDS)
            if not ready:
                raise EngineError("the process that renders chat templates did not start: try again.")
            for _ in jobs:
                line, stopped = _line(process, seconds)
                if not line.endswith("\n"):
                    why = f"it took more than {seconds:g} s" if stopped else "it ended its process"
                    return [*answers, {"refused": f"the probes were stopped: {why}"}]
                answers.append(json.loads(line))
        finally:
            process.kill()
    return answers


def _send(process: subprocess.Popen[str], jobs: Sequence[Job]) -> None:
    rows = [
        {"name": job.name, "source": job.source, "special_tokens": dict(job.special_tokens)} for job in jobs
    ]
    if process.stdin is not None:
        process.stdin.write(json.dumps(rows))
        process.stdin.close()


def _line(process: subprocess.Popen[str], seconds: float) -> tuple[str, bool]:
    """Return the next line, and whether the process had to be stopped for taking longer than ``seconds``."""
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)
        process.kill()

    timer = Timer(seconds, stop)
    timer.start()
    try:
        return (process.stdout.readline() if process.stdout else ""), bool(stopped)
    finally:
        timer.cancel()
