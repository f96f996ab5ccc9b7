"""Sparse 64-bit keys to dense ids 0, 1, 2, … in the order of first sight, by an open-addressing table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio (Knuth's multiplicative hashing)


@kernel
def _insert_all(
    keys: NDArray[np.uint64],
    ids: NDArray[np.int32],
    table_keys: NDArray[np.uint64],
    table_ids: NDArray[np.int32],
    start: int,
    known: int,
    limit: int,
) -> tuple[int, int]:
    """Intern ``keys[start:]`` until the table holds ``limit``; return where it stopped and how many are known."""
    mask = np.uint64(len(table_keys) - 1)
    for index in range(start, len(keys)):
        key = keys[index]
        slot = ((key * _SPREAD) >> np.uint64(20)) & mask
        while table_ids[slot] >= 0 and table_keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        if table_ids[slot] < 0:
            if known >= limit:
                return index, known
            table_keys[slot] = key
            table_ids[slot] = known
            known += 1
        ids[index] = table_ids[slot]
    return len(keys), known


@kernel
def _rehash(
    old_keys: NDArray[np.uint64],
    old_ids: NDArray[np.int32],
    new_keys: NDArray[np.uint64],
    new_ids: NDArray[np.int32],
) -> None:
    mask = np.uint64(len(new_keys) - 1)
    for old in range(len(old_keys)):
        if old_ids[old] >= 0:
            slot = ((old_keys[old] * _SPREAD) >> np.uint64(20)) & mask
            while new_ids[slot] >= 0:
                slot = (slot + np.uint64(1)) & mask
            new_keys[slot] = old_keys[old]
            new_ids[slot] = old_ids[old]


class Interner:
    """Gives equal keys equal ids across calls; grows by doubling, at most two thirds full."""

    def __init__(self, slots: int = 1 << 12) -> None:
        self._keys = np.empty(slots, dtype=np.uint64)
        self._ids = np.full(slots, -1, dtype=np.int32)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def intern(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the id of each key; a key never seen gets the next free one."""
        ids = np.empty(len(keys), dtype=np.int32)
        done = 0
        while done < len(keys):
            limit = 2 * len(self._keys) // 3
            done, self._known = _insert_all(keys, ids, self._keys, self._ids, done, self._known, limit)
            if done < len(keys):
                self._grow()
        return ids

    def _grow(self) -> None:
        keys = np.empty(2 * len(self._keys), dtype=np.uint64)
        ids = np.full(len(keys), -1, dtype=np.int32)
        _rehash(self._keys, self._ids, keys, ids)
        self._keys, self._ids = keys, ids
