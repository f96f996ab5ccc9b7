"""The hits of an LRU cache at every size, exactly, in one pass over the log.

LRU has the inclusion property (Mattson et al., 1970): a block is found in a cache of C blocks if and only if
fewer than C other blocks were touched since its own last touch. So one number per lookup, its stack distance
(1: the most recent block), answers all sizes. Distances are counted with a Fenwick tree over touch times.

Invariant: ``mark[t]`` is 1 exactly where ``t`` is the latest touch of some block. When the tree is full, the
marks are moved together, which keeps their order and so every distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel
def _add(tree: NDArray[np.int32], place: int, value: int) -> None:
    place += 1
    while place < len(tree):
        tree[place] += value
        place += place & -place


@kernel
def _sum_to(tree: NDArray[np.int32], place: int) -> int:
    """Return the number of marks at 0 … place."""
    place += 1
    total = 0
    while place > 0:
        total += tree[place]
        place -= place & -place
    return total


@kernel
def _move_together(
    tree: NDArray[np.int32], last: NDArray[np.int64], owner: NDArray[np.int32], now: int
) -> int:
    """Renumber the latest touches 0, 1, 2, … and rebuild the tree; return the next free time."""
    free = 0
    for time in range(now):
        block = owner[time]
        if block >= 0 and last[block] == time:
            last[block] = free
            owner[free] = block
            free += 1
    owner[free:] = -1
    tree[:] = 0
    for place in range(1, len(tree)):
        if place <= free:
            tree[place] += 1
        above = place + (place & -place)
        if above < len(tree):
            tree[above] += tree[place]
    return free


@kernel
def _distances(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    lookups: NDArray[np.int64],
    distinct: int,
    times: int,
) -> NDArray[np.int32]:
    tree = np.zeros(times + 1, dtype=np.int32)
    owner = np.full(times, -1, dtype=np.int32)
    last = np.full(distinct, -1, dtype=np.int64)
    found = np.zeros(len(ids), dtype=np.int32)
    now = 0
    marks = 0
    for request in range(len(offsets) - 1):
        start, end = offsets[request], offsets[request + 1]
        if now + (end - start) > times:
            now = _move_together(tree, last, owner, now)
        # A run of hits ends where the smallest cache that holds all of it ends: the largest distance so far.
        farthest = 0
        for place in range(start, start + lookups[request]):
            touched = last[ids[place]]
            if touched < 0:
                break
            farthest = max(farthest, marks - _sum_to(tree, touched) + 1)
            found[place] = farthest
        for place in range(end - 1, start - 1, -1):
            block = ids[place]
            if last[block] >= 0:
                _add(tree, last[block], -1)
            else:
                marks += 1
            last[block] = now
            owner[now] = block
            _add(tree, now, 1)
            now += 1
    return found


@kernel
def _by_distance(distances: NDArray[np.int32], tokens: NDArray[np.int32], sizes: int) -> NDArray[np.int64]:
    # What numpy.bincount does, without turning every place's tokens into a float first.
    total = np.zeros(sizes, dtype=np.int64)
    for place in range(len(distances)):
        total[distances[place]] += tokens[place]
    return total


def stack_distances(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], lookups: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return for each place of ``ids`` the smallest LRU cache, in blocks, in which its lookup is a hit; 0 is never.

    Shapes as for ``lru_hits``. A lookup counts as a hit only if all before it in its request do.
    """
    if not len(ids):
        return np.empty(0, dtype=np.int32)
    distinct = int(ids.max()) + 1
    longest = int(np.diff(offsets).max())
    return _distances(ids, offsets, lookups, distinct, 2 * distinct + longest)


@dataclass(frozen=True, slots=True, eq=False)
class HitCurve:
    """Hit tokens of an LRU cache at every size.

    ``hit_tokens[c]`` are the hits in a cache of ``c`` blocks, c = 0 … ``unique_blocks``; a larger cache hits no more.
    """

    hit_tokens: NDArray[np.int64]

    @classmethod
    def from_distances(
        cls, distances: NDArray[np.int32], tokens: NDArray[np.int32], unique_blocks: int
    ) -> HitCurve:
        """Sum ``tokens`` (of each place) over the sizes in which that place is a hit."""
        hits = _by_distance(distances, tokens, unique_blocks + 1)
        hits[0] = 0
        return cls(np.cumsum(hits, out=hits))

    @property
    def unique_blocks(self) -> int:
        """Distinct blocks of the log: a cache that holds them all never evicts."""
        return len(self.hit_tokens) - 1

    def at(self, capacity_blocks: int | None) -> int:
        """Hit tokens in a cache of ``capacity_blocks`` (``None``: without limit)."""
        size = self.unique_blocks if capacity_blocks is None else min(capacity_blocks, self.unique_blocks)
        return int(self.hit_tokens[size])

    def blocks_for(self, share_of_ceiling: float) -> int:
        """Return the smallest cache, in blocks, with at least that share (0..1) of the hits of an unlimited one."""
        wanted = int(np.ceil(share_of_ceiling * self.hit_tokens[-1]))
        return int(np.searchsorted(self.hit_tokens, wanted))
