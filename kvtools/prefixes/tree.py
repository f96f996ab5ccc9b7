"""The prefix tree over all prompts: its branch points, the longest shared prefix, and the nearest earlier prompt.

The inner nodes are the intervals of equal LCP of the sorted prompts (Abouelhoda, Kurtz and Ohlebusch, "Replacing
suffix trees with enhanced suffix arrays", J. Discrete Algorithms 2004): as many as prompts at most, however long
these are. Depths are in tokens, or in blocks where the sequences are block ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel
from kvtools.prefixes.sorting import SortedPrompts, sort_prompts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kvtools.table import Ragged


@dataclass(frozen=True, slots=True)
class Part:
    """One way on from a branch point: the value that follows (``None``: the prompt ends) and the prompts that take it.

    ``first`` and ``stop`` are places in the sorted order.
    """

    value: int | None
    first: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class BranchPoints:
    """Where prompts part, one entry each; children come before their parents.

    The prompts ``order[first:stop]`` share ``depth`` values and then part ``ways`` ways, ``ended`` of them by
    ending there (which is one of the ways).
    """

    depth: NDArray[np.int64]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    ways: NDArray[np.int64]
    ended: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def prompts(self) -> NDArray[np.int64]:
        """How many prompts pass each of them."""
        return self.stop - self.first


@kernel
def _intervals(lcp: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return depth, first, stop and cuts of each node (a row each), children first, and the parents (-1: none).

    ``cuts`` counts the neighbours in the node that share its depth and no more.
    """
    count = len(lcp)
    nodes, parent = np.empty((count, 4), dtype=np.int64), np.full(count, -1, dtype=np.int64)
    # The open intervals, the innermost last: depth, first place, cuts, and their children (chained by ``sibling``).
    stack = np.empty((count + 1, 4), dtype=np.int64)
    sibling = np.full(count, -1, dtype=np.int64)
    opened = known = 0
    for place in range(1, count + 1):
        shared = lcp[place] if place < count else -1
        begin, closed = place - 1, -1
        while opened and stack[opened - 1, 0] > shared:
            opened -= 1
            if closed >= 0:
                sibling[closed] = stack[opened, 3]
                stack[opened, 3] = closed
            begin, closed = stack[opened, 1], known
            nodes[known] = stack[opened, 0], begin, place, stack[opened, 2]
            child = stack[opened, 3]
            while child >= 0:
                parent[child] = known
                child = sibling[child]
            known += 1
        if shared < 0:
            continue
        if opened == 0 or stack[opened - 1, 0] < shared:
            stack[opened] = shared, begin, 0, -1
            opened += 1
        stack[opened - 1, 2] += 1
        if closed >= 0:
            sibling[closed] = stack[opened - 1, 3]
            stack[opened - 1, 3] = closed
    return nodes[:known], parent[:known]


@kernel
def _innermost(first: NDArray[np.int64], stop: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the deepest node around each place, -1 where there is none: children come first and claim theirs."""
    above = np.full(count, -1, dtype=np.int64)
    for node in range(len(first)):
        for place in range(first[node], stop[node]):
            if above[place] < 0:
                above[place] = node
    return above


@kernel
def _nearest(
    place_of: NDArray[np.int64],
    above: NDArray[np.int64],
    depth: NDArray[np.int64],
    parent: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    earlier = np.full(len(place_of), -1, dtype=np.int64)
    shared = np.zeros(len(place_of), dtype=np.int64)
    last = np.full(len(depth), -1, dtype=np.int64)
    for row in range(len(place_of)):
        node = above[place_of[row]]
        while node >= 0:
            if earlier[row] < 0 and last[node] >= 0:
                earlier[row], shared[row] = last[node], depth[node]
            last[node] = row
            node = parent[node]
    return earlier, shared


@dataclass(frozen=True, slots=True, eq=False)
class PrefixTree:
    """The tree of some prompts. Nodes are numbered, children before their parents; -1 is none.

    Node ``k`` holds the prompts ``order[first[k]:stop[k]]``, all of which share ``depth[k]`` values, and no two
    neighbours more than their own nodes say; ``above[place]`` is the deepest node around a place. Prompts that are
    equal throughout have a node too, at which nothing parts.
    """

    sequences: Ragged
    prompts: SortedPrompts
    depth: NDArray[np.int64]
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    cuts: NDArray[np.int64]
    parent: NDArray[np.int64]
    above: NDArray[np.int64]

    def branch_points(self) -> BranchPoints:
        """Return the nodes at which prompts part."""
        lengths = self.sequences.lengths()[self.prompts.order]
        inside = np.flatnonzero(self.above >= 0)
        ending = inside[lengths[inside] == self.depth[self.above[inside]]]
        ended = np.bincount(self.above[ending], minlength=len(self.depth))
        # Each of the equal prompts that end is cut off from the next, but to end is one way.
        ways = self.cuts + 1 - np.maximum(ended - 1, 0)
        parting = np.flatnonzero(ways > 1)
        columns = (self.depth, self.first, self.stop, ways, ended)
        return BranchPoints(*(column[parting] for column in columns))

    def parts(self, first: int, stop: int, depth: int) -> Iterator[Part]:
        """Yield the ways in which ``order[first:stop]`` part behind ``depth`` values; to end comes first."""
        cut = (first + 1 + np.flatnonzero(self.prompts.lcp[first + 1 : stop] == depth)).tolist()
        begun: int | None = None
        for begin, end in zip([first, *cut], [*cut, stop], strict=True):
            sequence = self.sequences.row(int(self.prompts.order[begin]))
            if len(sequence) == depth:
                begun = begin if begun is None else begun
                continue
            if begun is not None:
                yield Part(None, begun, begin)
                begun = None
            yield Part(int(sequence[depth]), begin, end)
        if begun is not None:
            yield Part(None, begun, stop)

    def longest_shared_prefix(self, namespaces: NDArray[np.uint64] | None = None) -> dict[int, int]:
        """Return per namespace (its digest; 0 where none are given) the most values that any two prompts share."""
        order, lcp = self.prompts.order, self.prompts.lcp
        names = np.zeros(len(order), dtype=np.uint64) if namespaces is None else namespaces[order]
        begins = np.flatnonzero(lcp < 0)
        if not len(begins):
            return {}
        most = np.maximum(np.maximum.reduceat(lcp, begins), 0)
        return dict(zip(names[begins].tolist(), most.tolist(), strict=True))

    def nearest_earlier(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each prompt the earlier one (a smaller row) that shares most with it, and how much that is.

        Among those that share as much it is the latest; -1 where a prompt is the first of its namespace. Each
        prompt walks from its place to the root, over at most as many nodes as it has values, and leaves its row
        there: the first node that holds a row holds the answer.
        """
        place_of = np.empty_like(self.prompts.order)
        place_of[self.prompts.order] = np.arange(len(place_of))
        earlier, shared = _nearest(place_of, self.above, self.depth, self.parent)
        return earlier, shared


def prefix_tree(sequences: Ragged, namespaces: NDArray[np.uint64] | None = None) -> PrefixTree:
    """Sort prompts and build their tree; rows are in replay order. Arguments as of ``sort_prompts``.

    The nodes (depths, how many prompts, how they part) depend on the prompts alone, not on their order.
    """
    prompts = sort_prompts(sequences, namespaces)
    nodes, parent = _intervals(prompts.lcp)
    depth, first, stop, cuts = (np.ascontiguousarray(column) for column in nodes.T)
    above = _innermost(first, stop, len(sequences))
    return PrefixTree(sequences, prompts, depth, first, stop, cuts, parent, above)
