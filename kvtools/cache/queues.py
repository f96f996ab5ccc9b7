"""The waiting queues: binary heaps of request numbers, lowest rank first; one for each lane.

One heap serves both policies of vLLM (``vllm/v1/core/sched/request_queue.py``). Under ``priority`` a rank is
the place in (priority, arrival). Under ``fcfs`` it is the place of arrival, and a preempted request, which
vLLM puts in front of all others, gets a rank below every rank given before.

Invariant: ``rank[queue[lane, (i - 1) // 2]] < rank[queue[lane, i]]`` for each i below ``size``; ranks are distinct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.cache.inner import inner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@inner
def push(
    queue: NDArray[np.int32], lane: int, size: int, rank: NDArray[np.signedinteger[Any]], request: int
) -> None:
    """Add ``request`` to the ``size`` requests in ``queue[lane]``."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if rank[queue[lane, parent]] < rank[request]:
            break
        queue[lane, place] = queue[lane, parent]
        place = parent
    queue[lane, place] = request


@inner
def pop(queue: NDArray[np.int32], lane: int, size: int, rank: NDArray[np.signedinteger[Any]]) -> None:
    """Remove ``queue[lane, 0]``, the request of lowest rank, from the ``size`` requests in the lane."""
    last = size - 1
    moved = queue[lane, last]
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        if child + 1 < last and rank[queue[lane, child + 1]] < rank[queue[lane, child]]:
            child += 1
        if rank[moved] < rank[queue[lane, child]]:
            break
        queue[lane, place] = queue[lane, child]
        place = child
    queue[lane, place] = moved


@inner
def remove(
    queue: NDArray[np.int32], lane: int, size: int, rank: NDArray[np.signedinteger[Any]], request: int
) -> None:
    """Remove ``request``, which is there, from the ``size`` requests in ``queue[lane]``."""
    place = 0
    while queue[lane, place] != request:
        place += 1
    # It rises to the head, as if its rank were the lowest, and leaves from there.
    while place > 0:
        parent = (place - 1) >> 1
        queue[lane, place] = queue[lane, parent]
        place = parent
    queue[lane, 0] = request
    pop(queue, lane, size, rank)
