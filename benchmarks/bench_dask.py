"""What Dask costs: a cluster of processes to start, a task that does nothing, a task that carries a chunk of 4 MiB.

    python benchmarks/bench_dask.py [WORKERS]      (prints JSON: milliseconds; needs the extra ``dask``)

Wall time, as all is waiting: look at the order of magnitude where the machine is shared.
"""

from __future__ import annotations

import json
import sys
import time

from kvtools.executors import Work, executor

EMPTY_TASKS, CHUNK_TASKS, CHUNK_BYTES = 500, 50, 4 << 20


def nothing() -> None:
    """Do nothing."""


def length(data: bytes) -> int:
    """Return how long ``data`` is."""
    return len(data)


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    begun = time.monotonic()
    with executor(Work(executor="dask", workers=workers)) as runner:
        runner.submit(nothing).result()
        started = time.monotonic()
        for pending in [runner.submit(nothing) for _ in range(EMPTY_TASKS)]:
            pending.result()
        emptied = time.monotonic()
        data = bytes(CHUNK_BYTES)
        for _ in range(CHUNK_TASKS):
            assert runner.submit(length, data).result() == CHUNK_BYTES
        carried = time.monotonic()
    spent = {
        "start": 1e3 * (started - begun),
        "empty task": 1e3 * (emptied - started) / EMPTY_TASKS,
        "task with 4 MiB": 1e3 * (carried - emptied) / CHUNK_TASKS,
        "stop": 1e3 * (time.monotonic() - carried),
    }
    print(json.dumps(spent))


if __name__ == "__main__":
    main()
