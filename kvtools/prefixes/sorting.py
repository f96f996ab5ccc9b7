"""Prompts in lexicographic order, with the longest common prefix of each two neighbours.

Multikey quicksort (Bentley and Sedgewick, "Fast algorithms for sorting and searching strings", SODA 1997): a
stretch of prompts that share ``depth`` values is parted in three by the value at that depth, and the longest
common prefix (LCP) of neighbours falls out of where it was parted. What a whole stretch shares is skipped first,
prompt by prompt, so that long common heads are read in order and once. Prompts are read as far as they are
needed to tell them apart, and no further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.table import Ragged

_LANES = 16


@dataclass(frozen=True, slots=True, eq=False)
class SortedPrompts:
    """Prompts in order: by namespace, then value by value, a prompt before those that continue it.

    ``order[place]`` is the prompt (row) at that place; equal prompts stand by row. ``lcp[place]`` is what it shares
    with the prompt at the place before, in tokens (in blocks where the sequences are block ids); -1 where a
    namespace begins.
    """

    order: NDArray[np.int64]
    lcp: NDArray[np.int64]


@kernel
def _common(
    values: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    low: int,
    high: int,
    depth: int,
) -> int:
    """Return how many leading values all of ``order[low:high]`` share, which share ``depth`` of them already."""
    first = offsets[order[low]]
    known = int(offsets[order[low] + 1] - first)
    for place in range(low + 1, high):
        known = min(known, int(offsets[order[place] + 1] - offsets[order[place]]))
    # In stretches that grow: where one prompt parts early, little was compared in vain.
    stretch = 1
    while depth < known:
        stop = min(depth + stretch, known)
        for place in range(low + 1, high):
            start, at = offsets[order[place]], depth
            while at + _LANES <= stop:  # without a branch per value: compiled to vector instructions
                different = 0
                for lane in range(_LANES):
                    different |= values[start + at + lane] ^ values[first + at + lane]
                if different:
                    break
                at += _LANES
            while at < stop and values[start + at] == values[first + at]:
                at += 1
            stop = at
            if stop == depth:
                return depth
        if stop < min(depth + stretch, known):
            return stop
        depth = stop
        stretch *= 2
    return depth


@kernel
def _ended_first(
    offsets: NDArray[np.int64], order: NDArray[np.int64], low: int, high: int, depth: int
) -> int:
    """Move the prompts of just ``depth`` values to the front, by row, and return where the others begin."""
    front = low
    for place in range(low, high):
        row = order[place]
        if offsets[row + 1] - offsets[row] == depth:
            order[place] = order[front]
            order[front] = row
            front += 1
    if front - low > 1:
        order[low:front].sort()
    return front


@kernel
def _part(
    values: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    low: int,
    high: int,
    depth: int,
) -> tuple[int, int]:
    """Part ``order[low:high]`` by the value at ``depth``: below, equal to, above the middle one of three of them."""
    size = high - low
    # Places that are spread by a fixed rule: the input's own order must not make the worst case.
    step = 1 + (size * 7919) % 1013
    one = values[offsets[order[low + (step * 3) % size]] + depth]
    two = values[offsets[order[low + size // 2]] + depth]
    three = values[offsets[order[low + (step * 31) % size]] + depth]
    pivot = max(min(one, two), min(max(one, two), three))
    less, place, more = low, low, high
    while place < more:
        row = order[place]
        value = values[offsets[row] + depth]
        if value < pivot:
            order[place] = order[less]
            order[less] = row
            less += 1
            place += 1
        elif value > pivot:
            more -= 1
            order[place] = order[more]
            order[more] = row
        else:
            place += 1
    return less, more


@kernel
def _sort(
    values: NDArray[np.int32],
    offsets: NDArray[np.int64],
    order: NDArray[np.int64],
    lcp: NDArray[np.int64],
    low: int,
    high: int,
) -> None:
    """Sort ``order[low:high]`` and set ``lcp[low + 1:high]``; pending stretches never overlap: a short stack."""
    stack = np.empty(((high - low) // 2 + 4, 3), dtype=np.int64)
    stack[0] = low, high, 0
    pending = 1
    while pending:
        pending -= 1
        low, high, depth = stack[pending]
        depth = _common(values, offsets, order, low, high, depth)
        begin = _ended_first(offsets, order, low, high, depth)
        lcp[low + 1 : min(begin + 1, high)] = depth
        if high - begin < 2:
            continue
        less, more = _part(values, offsets, order, begin, high, depth)
        if less > begin:
            lcp[less] = depth
        if more < high:
            lcp[more] = depth
        for first, stop, shared in ((begin, less, depth), (less, more, depth + 1), (more, high, depth)):
            if stop - first > 1:
                stack[pending] = first, stop, shared
                pending += 1


def sort_prompts(sequences: Ragged, namespaces: NDArray[np.uint64] | None = None) -> SortedPrompts:
    """Sort prompts: token ids (int32), or dense ids of block keys (``kvtools.cache.Interner``).

    ``namespaces`` are digests, one per prompt: prompts of two namespaces share nothing. Which prompts are
    neighbours and what they share depends on the prompts alone, not on the order in which they come.
    """
    count = len(sequences)
    groups = np.zeros(count, dtype=np.uint64) if namespaces is None else namespaces
    order = np.argsort(groups, kind="stable").astype(np.int64)
    lcp = np.full(count, -1, dtype=np.int64)
    cuts = (np.flatnonzero(np.diff(groups[order])) + 1).tolist()
    for low, high in zip([0, *cuts], [*cuts, count], strict=True):
        if high - low > 1:
            _sort(sequences.values, sequences.offsets, order, lcp, low, high)
    return SortedPrompts(order, lcp)
