"""The prefix tree of a stretch of log, block by block: how often, and when last, each block was asked for.

Chained keys make the tree: a block has one parent, the block before it in any prompt that holds it. Blocks are dense
ids in the order of first sight (``kvtools.cache.Interner``), so a parent's id is always below its children's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


SEEN, ASKED, LAST, PARENT, DEPTH, REPEATS = range(6)
"""Columns of a node."""

COUNT_CLASSES, REPEAT_CLASSES, GAP_BINS = 8, 3, 64


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Requests in replay order: request ``r`` owns ``ids[offsets[r]:offsets[r + 1]]``, looks up ``lookups[r]`` of them.

    ``tokens`` are its prompt tokens, ``whole`` (uint64) a digest of the whole prompt; a request with ``skip_lookup``
    fills the cache without reading it. ``samples``: answers asked for at once (``n``), each a lookup of its own when
    replayed; it is one sight of the prompt all the same. ``arrival_us``: ascending
    arrivals, where the time of day is to count. ``repeats``: how many earlier requests have the same prompt.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    lookups: NDArray[np.int64]
    tokens: NDArray[np.int64]
    whole: NDArray[np.uint64]
    skip_lookup: NDArray[np.bool_]
    samples: NDArray[np.int64] | None = None
    arrival_us: NDArray[np.int64] | None = None
    repeats: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "repeats", _earlier_equals(self.whole))

    def __len__(self) -> int:
        return len(self.tokens)

    def blocks(self, request: int, depth: int | None = None) -> NDArray[np.int32]:
        """The first ``depth`` blocks of a request, all without it."""
        start, end = int(self.offsets[request]), int(self.offsets[request + 1])
        return self.ids[start : end if depth is None else start + depth]

    def distinct(self, stop: int) -> int:
        """How many distinct blocks the first ``stop`` requests have: their ids are the first ones."""
        return int(self.ids[: self.offsets[stop]].max(initial=-1)) + 1


def _earlier_equals(whole: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return how many earlier entries equal each."""
    order = np.argsort(whole, kind="stable")
    ordered = whole[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(whole) else order
    lengths = np.diff(np.append(begins, len(whole)))
    found = np.empty(len(whole), dtype=np.int32)
    found[order] = np.arange(len(whole)) - np.repeat(begins, lengths)
    return found


@kernel
def gap_bin(gap: int) -> int:
    """Return the bin of a gap of 1 request or more: two bins an octave, 2^a to 1.5 * 2^a and on to 2^(a + 1)."""
    octave, rest = 0, gap
    while rest > 1:
        rest >>= 1
        octave += 1
    upper = octave > 0 and gap >= (3 << octave) // 2
    return min(2 * octave + upper, GAP_BINS - 1)


@kernel
def count_class(asked: int) -> int:
    """Return 0, 1, 2, 3 as they are, then 4 for 4-7, 5 for 8-15, 6 for 16-31, 7 for more."""
    if asked < 4:
        return asked
    place = 4
    while asked >= 8 and place < COUNT_CLASSES - 1:
        asked >>= 1
        place += 1
    return place


@kernel
def _grow(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    lookups: NDArray[np.int64],
    repeats: NDArray[np.int32],
    stretch: tuple[int, int],
    nodes: NDArray[np.int32],
    gaps: NDArray[np.int64],
) -> None:
    for request in range(stretch[0], stretch[1]):
        start = offsets[request]
        for place in range(start, offsets[request + 1]):
            node = nodes[ids[place]]
            asked = place < start + lookups[request]
            if node[SEEN] == 0:
                node[PARENT] = ids[place - 1] if place > start else -1
                node[DEPTH] = place - start + 1
            else:
                kind = gaps[count_class(node[ASKED]), min(node[REPEATS], REPEAT_CLASSES - 1)]
                kind[gap_bin(request - node[LAST]), 1 if asked else 0] += 1
                kind[gap_bin(request - node[LAST]), 2] += request - node[LAST]
            node[SEEN] += 1
            node[ASKED] += asked
            node[LAST] = request
            node[REPEATS] = max(node[REPEATS], repeats[request])


@dataclass(slots=True, eq=False)
class BlockTree:
    """The tree of the first ``requests`` of a history: ``nodes[block, column]``, blocks numbered as in the history.

    ``SEEN`` requests hold the block, ``ASKED`` of them look it up (by vLLM's rules not the last block of a prompt that
    ends with it), the ``LAST`` of them is a request's place; ``PARENT`` is the block before it (-1: none), ``DEPTH``
    the blocks up to and with it, ``REPEATS`` how often a whole prompt with it had come before. ``gaps[count class,
    repeat class, bin]`` counts, for blocks of a class, gaps in requests from one sight to the next: those that ended in
    the block being seen but not looked up, those that ended in a lookup, and the length of both.
    """

    history: History
    requests: int
    nodes: NDArray[np.int32]
    gaps: NDArray[np.int64]

    @classmethod
    def empty(cls, history: History, stop: int) -> BlockTree:
        """Return the tree of no request, with room for the first ``stop``."""
        shape = (COUNT_CLASSES, REPEAT_CLASSES, GAP_BINS, 3)
        nodes = np.zeros((history.distinct(stop), 6), dtype=np.int32)
        return cls(history, 0, nodes, np.zeros(shape, dtype=np.int64))

    def grow_to(self, stop: int) -> BlockTree:
        """Take in the requests up to ``stop`` (excluded); return the tree itself."""
        own = self.history
        stretch = (self.requests, stop)
        _grow(own.ids, own.offsets, own.lookups, own.repeats, stretch, self.nodes, self.gaps)
        self.requests = stop
        return self


def tree_of(history: History, stop: int) -> BlockTree:
    """Return the tree of the first ``stop`` requests."""
    return BlockTree.empty(history, stop).grow_to(stop)
