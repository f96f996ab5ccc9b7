"""The waiting queue: a binary heap of request numbers, lowest rank first.

One heap serves both policies of vLLM (``vllm/v1/core/sched/request_queue.py``). Under ``priority`` a rank is
the place in (priority, arrival). Under ``fcfs`` it is the place of arrival, and a preempted request, which
vLLM puts in front of all others, gets a rank below every rank given before.

Invariant: ``rank[queue[(i - 1) // 2]] < rank[queue[i]]`` for each i below ``size``; ranks are distinct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.cache.inner import inner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@inner
def push(queue: NDArray[np.int32], size: int, rank: NDArray[np.int32], request: int) -> None:
    """Add ``request`` to the ``size`` requests in ``queue``."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if rank[queue[parent]] < rank[request]:
            break
        queue[place] = queue[parent]
        place = parent
    queue[place] = request


@inner
def pop(queue: NDArray[np.int32], size: int, rank: NDArray[np.int32]) -> None:
    """Remove ``queue[0]``, the request of lowest rank, from the ``size`` requests in ``queue``."""
    last = size - 1
    moved = queue[last]
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        if child + 1 < last and rank[queue[child + 1]] < rank[queue[child]]:
            child += 1
        if rank[moved] < rank[queue[child]]:
            break
        queue[place] = queue[child]
        place = child
    queue[place] = moved
