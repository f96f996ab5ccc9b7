"""An LRU cache over block keys that is fed for ever: the same as ``kvtools.cache.lru``, in fixed memory.

Invariant: the ring holds the resident blocks from most to least recently used, the table the slot of each key. A
request looks up its leading blocks until the first miss, then touches *all* its blocks from the last to the first. As
long as nothing was evicted it hits what a cache without limit hits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.table import Ragged

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio (Knuth's multiplicative hashing)


@kernel
def _place(key: np.uint64, table: NDArray[np.int32], keys: NDArray[np.uint64]) -> int:
    """Return where the table holds the key's slot, or where it would."""
    mask = len(table) - 1
    place = int((key * _SPREAD) >> np.uint64(20)) & mask
    while table[place] >= 0 and keys[table[place]] != key:
        place = (place + 1) & mask
    return place


@kernel
def _forget(place: int, table: NDArray[np.int32], keys: NDArray[np.uint64]) -> None:
    """Empty a place of the table and move up what stands behind it (Knuth, The Art of Computer Programming 6.4 R)."""
    mask = len(table) - 1
    table[place] = -1
    behind = (place + 1) & mask
    while table[behind] >= 0:
        slot = table[behind]
        table[behind] = -1
        table[_place(keys[slot], table, keys)] = slot
        behind = (behind + 1) & mask


@kernel
def _roll(
    given: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    lookups: NDArray[np.int64],
    table: NDArray[np.int32],
    keys: NDArray[np.uint64],
    newer: NDArray[np.int32],
    older: NDArray[np.int32],
    state: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the hit blocks of each request; ``state``: resident blocks, evictions."""
    ring = len(keys)
    hits = np.zeros(len(offsets) - 1, dtype=np.int64)
    for request in range(len(hits)):
        start, end = offsets[request], offsets[request + 1]
        while (
            hits[request] < lookups[request] and table[_place(given[start + hits[request]], table, keys)] >= 0
        ):
            hits[request] += 1
        for index in range(end - 1, start - 1, -1):
            slot = table[_place(given[index], table, keys)]
            known = slot >= 0
            if not known and state[0] < len(keys):
                slot = state[0]
                state[0] += 1
            else:
                if not known:
                    slot = newer[ring]
                    state[1] += 1
                    _forget(_place(keys[slot], table, keys), table, keys)
                older[newer[slot]] = older[slot]
                newer[older[slot]] = newer[slot]
            if not known:
                keys[slot] = given[index]
                table[_place(given[index], table, keys)] = slot
            newest = older[ring]
            older[ring] = slot
            newer[slot] = ring
            older[slot] = newest
            newer[newest] = slot
    return hits


class RollingCache:
    """A cache of ``capacity_blocks``; about 24 bytes a block, all of it taken at the start."""

    def __init__(self, capacity_blocks: int) -> None:
        slots = 1 << max((2 * capacity_blocks - 1).bit_length(), 1)
        self._table = np.full(slots, -1, dtype=np.int32)
        self._keys = np.zeros(capacity_blocks, dtype=np.uint64)
        self._newer = np.full(capacity_blocks + 1, capacity_blocks, dtype=np.int32)
        self._older = np.full(capacity_blocks + 1, capacity_blocks, dtype=np.int32)
        self._state = np.zeros(2, dtype=np.int64)

    @property
    def resident(self) -> int:
        """Blocks that are held now."""
        return int(self._state[0])

    @property
    def evictions(self) -> int:
        """Blocks that had to go so far: while there are none, hits are those of an unlimited cache."""
        return int(self._state[1])

    def hits(self, blocks: Ragged, lookups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the hit blocks of each request; it looks up at most its first ``lookups`` blocks."""
        return _roll(
            blocks.values,
            blocks.offsets,
            lookups,
            self._table,
            self._keys,
            self._newer,
            self._older,
            self._state,
        )
