"""Where the work on chunks runs: here, in other processes of this machine, or on a Dask cluster.

All three give the same results in the same order. What is handed over has to be picklable; a task may run twice where
a worker was lost, so a task changes nothing but its result.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Literal

from kvtools.errors import UsageError
from kvtools.executors.base import Executor, Pending
from kvtools.executors.serial import Serial

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["EXECUTORS", "Executor", "ExecutorName", "Pending", "executor"]

ExecutorName = Literal["serial", "processes", "dask"]
EXECUTORS: tuple[ExecutorName, ...] = ("serial", "processes", "dask")


def executor(
    name: ExecutorName, workers: int | None = None, scheduler: str | None = None
) -> AbstractContextManager[Executor]:
    """Return the executor of that name, to be entered; leaving it ends its workers.

    ``workers``: how many processes (``None``: one per processor of this machine); ``scheduler``: the address of a Dask
    cluster that runs already (``None``: one of processes on this machine is started).

    Raises:
        MissingExtra: Dask is not installed.
        UsageError: the options do not fit together.
    """
    if scheduler is not None and (name != "dask" or workers is not None):
        raise UsageError(
            "--scheduler: goes with --executor dask, and without --workers: the cluster has its own."
        )
    if name == "serial":
        if workers is not None:
            raise UsageError("--workers: goes with --executor processes or dask; serial is one process.")
        return nullcontext(Serial())
    count = workers or os.cpu_count() or 1
    if name == "processes":
        from kvtools.executors.processes import Processes  # noqa: PLC0415 - only where used

        return Processes(count)
    from kvtools.executors.dask import dask_executor  # noqa: PLC0415 - an extra

    return dask_executor(count, scheduler)
