"""Where the work on chunks runs: here, in other processes of this machine, or on a Dask cluster.

All three give the same results in the same order. What is handed over has to be picklable; a task may run twice where
a worker was lost, so a task changes nothing but its result.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvtools.errors import UsageError
from kvtools.executors.base import Executor, Pending
from kvtools.executors.serial import Serial

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["SERIAL", "Executor", "ExecutorName", "Pending", "Work", "executor"]

ExecutorName = Literal["serial", "processes", "dask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Where the work on chunks runs.

    ``workers``: how many processes (``None``: one per processor of this machine); ``scheduler``: the address of a Dask
    cluster that runs already (``None``: one of processes on this machine is started). In the folder ``cache_dir``
    results are kept for the next run, without it they are not.

    Raises:
        UsageError: the options do not fit together.
    """

    executor: ExecutorName = "serial"
    workers: int | None = None
    scheduler: str | None = None
    cache_dir: Path | None = None

    def __post_init__(self) -> None:
        if self.scheduler is not None and (self.executor != "dask" or self.workers is not None):
            raise UsageError(
                "--scheduler: goes with --executor dask, and without --workers: the cluster has its own."
            )
        if self.workers is not None and self.executor == "serial":
            raise UsageError("--workers: goes with --executor processes or dask; serial is one process.")


SERIAL = Work()


def executor(work: Work) -> AbstractContextManager[Executor]:
    """Return the executor, to be entered; leaving it ends its workers.

    Raises:
        EngineError: no Dask scheduler answers.
        MissingExtra: Dask is not installed.
    """
    if work.executor == "serial":
        return nullcontext(Serial())
    count = work.workers or os.cpu_count() or 1
    if work.executor == "processes":
        from kvtools.executors.processes import Processes  # noqa: PLC0415 - only where used

        return Processes(count)
    from kvtools.executors.dask import dask_executor  # noqa: PLC0415 - an extra

    return dask_executor(count, work.scheduler)
