"""One LRU cache of one size over dense block ids: the plain reference for every other figure.

Invariant: the ring holds the resident blocks from most to least recently used. A request looks up its
leading blocks until the first miss, then touches *all* its blocks from the last to the first, so that its
first block is the most recent: vLLM frees a request's blocks tail first, and evicts the deepest one first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel
def _lru(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    lookups: NDArray[np.int64],
    capacity: int,
    distinct: int,
) -> tuple[NDArray[np.int64], int]:
    newer = np.full(distinct + 1, -1, dtype=np.int64)
    older = np.full(distinct + 1, -1, dtype=np.int64)
    ring = distinct  # the sentinel: its older neighbour is the newest block, its newer one the oldest
    newer[ring] = ring
    older[ring] = ring
    resident = 0
    evictions = 0
    hits = np.zeros(len(offsets) - 1, dtype=np.int64)
    for request in range(len(offsets) - 1):
        start, end = offsets[request], offsets[request + 1]
        while hits[request] < lookups[request] and newer[ids[start + hits[request]]] >= 0:
            hits[request] += 1
        for place in range(end - 1, start - 1, -1):
            block = ids[place]
            if newer[block] >= 0:
                older[newer[block]] = older[block]
                newer[older[block]] = newer[block]
            elif resident == capacity:
                oldest = newer[ring]
                newer[ring] = newer[oldest]
                older[newer[oldest]] = ring
                newer[oldest] = -1
                evictions += 1
            else:
                resident += 1
            newest = older[ring]
            older[ring] = block
            newer[block] = ring
            older[block] = newest
            newer[newest] = block
    return hits, evictions


def lru_hits(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], lookups: NDArray[np.int64], capacity_blocks: int
) -> tuple[NDArray[np.int64], int]:
    """Return the hit blocks of each request in an LRU cache of ``capacity_blocks``, and the evictions.

    ``ids``: dense block ids of all requests, one after another; request ``i`` owns
    ``ids[offsets[i]:offsets[i + 1]]`` and looks up its first ``lookups[i]`` blocks at most.
    """
    distinct = int(ids.max()) + 1 if len(ids) else 0
    hits, evictions = _lru(ids, offsets, lookups, capacity_blocks, distinct)
    return hits, int(evictions)
