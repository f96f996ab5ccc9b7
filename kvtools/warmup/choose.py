"""The prefixes to send: root paths of the prefix tree that cover the most expected savings under a budget.

The value of a set is the sum over the blocks that it covers of the probability that the block is asked for in the
horizon: one warm-up saves one computation of a block, however often it recurs behind that. Coverage is submodular, so
greedily taking the path with the largest gain is within 1 - 1/e of the optimum for a budget of queries (Nemhauser,
Wolsey and Fisher, Math. Programming 1978); for root paths of a tree it is the optimum itself (Steel, Systematic
Biology 2005; Pardi and Goldman, PLoS Genetics 2005). The greedy paths are the longest chains of the tree: one pass.

A budget of blocks prices each block (Lagrange): blocks below the price are cut off, and the price is the lowest at
which the greedy paths fit. The price also bounds the optimum from above, which tells how near the set is to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel
from kvtools.warmup.tree import DEPTH, LAST, PARENT, SEEN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.warmup.tree import BlockTree

_HALVINGS = 30
_FULL_SHARE = 0.995
"""The search for the price ends where the paths fill so much of the room."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """One prefix: the first ``depth`` blocks of ``request``. ``blocks`` of them are in no prefix chosen before.

    ``value`` is the expected number of blocks that these save; ``members`` are the requests that hold the prefix.
    """

    request: int
    depth: int
    blocks: int
    value: float
    members: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The prefixes in the order of their gain, the largest first; no set under the budget is worth more than ``bound``.

    Values in blocks; ``bound`` is of the model that the probabilities make, not of the traffic to come.
    """

    prefixes: tuple[Chosen, ...]
    bound: float

    @property
    def value(self) -> float:
        """Expected number of blocks saved."""
        return sum(prefix.value for prefix in self.prefixes)

    @property
    def blocks(self) -> int:
        """Distinct blocks of all prefixes."""
        return sum(prefix.blocks for prefix in self.prefixes)


@kernel
def _longest(
    parent: NDArray[np.int32], value: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the value of the best path from each node down, and its next node (-1: it ends); children come later."""
    best = np.zeros(len(parent))
    following = np.full(len(parent), -1, dtype=np.int32)
    for node in range(len(parent) - 1, -1, -1):
        best[node] += value[node]
        above = parent[node]
        if value[node] > 0.0 and above >= 0 and best[node] > best[above]:
            best[above] = best[node]
            following[above] = node
    return best, following


@kernel
def _chains(
    following: NDArray[np.int32], heads: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the last node of the chain behind each head, and its blocks."""
    last, length = heads.copy(), np.ones(len(heads), dtype=np.int64)
    for place in range(len(heads)):
        while following[last[place]] >= 0:
            last[place] = following[last[place]]
            length[place] += 1
    return last, length


@kernel
def _cut(
    parent: NDArray[np.int32], likely: NDArray[np.float64], node: int, blocks: int, room: int
) -> tuple[int, int, float]:
    """Return the last node of a chain cut to ``room`` blocks, its blocks, and the sum of their probabilities."""
    while blocks > room:
        node, blocks = parent[node], blocks - 1
    value, at = 0.0, node
    for _ in range(blocks):
        value += likely[at]
        at = parent[at]
    return node, blocks, value


@dataclass(frozen=True, slots=True, eq=False)
class _Chains:
    """Chains, the best first: the last node and the blocks of each; ``gain`` is of all, the price taken off."""

    gain: float
    last: NDArray[np.int64]
    length: NDArray[np.int64]

    @property
    def blocks(self) -> int:
        return int(self.length.sum())


class _Tree:
    """The greedy paths of one tree at any price of a block."""

    def __init__(self, tree: BlockTree, likely: NDArray[np.float64]) -> None:
        self.tree, self.likely = tree, likely
        self.parent = np.ascontiguousarray(tree.nodes[:, PARENT])

    def greedy(self, queries: int, price: float) -> _Chains:
        """Return the best ``queries`` chains, the best first."""
        value = np.maximum(self.likely - price, 0.0)
        best, following = _longest(self.parent, value)
        above = np.where(self.parent < 0, -1, following[self.parent])
        heads = np.flatnonzero((value > 0.0) & (above != np.arange(len(value))))
        if len(heads) > queries:
            heads = heads[np.argpartition(-best[heads], queries)[:queries]]
        # Equal gains: the more recent first.
        heads = heads[np.lexsort((-self.tree.nodes[heads, LAST], -best[heads]))]
        return _Chains(float(best[heads].sum()), *_chains(following, heads))

    def chosen(self, last: int, blocks: int, room: int) -> Chosen:
        """Return a chain as a prefix, cut to ``room`` new blocks; its value is by probability alone."""
        node, blocks, value = _cut(self.parent, self.likely, last, blocks, room)
        request, depth, members = self.tree.nodes[node][[LAST, DEPTH, SEEN]].tolist()
        return Chosen(request, depth, blocks, value, members)


def choose(tree: BlockTree, likely: NDArray[np.float64], queries: int, blocks: int | None) -> Choice:
    """Return the best prefixes of ``tree``: at most ``queries`` of them with at most ``blocks`` distinct blocks.

    ``likely``: the probability (0..1) of each block, never more than its parent's.
    """
    if queries < 1 or blocks == 0 or not len(likely):
        return Choice((), 0.0)
    paths = _Tree(tree, likely)
    free = paths.greedy(queries, 0.0)
    if blocks is None or free.blocks <= blocks:
        every = _filled(paths, free, free.blocks)
        return Choice(every, sum(one.value for one in every))
    low, high = 0.0, 1.0
    cheap, dear = free, _Chains(0.0, free.last[:0], free.length[:0])
    for _ in range(_HALVINGS):
        price = (low + high) / 2
        found = paths.greedy(queries, price)
        if found.blocks > blocks:
            low, cheap = price, found
            continue
        high, dear = price, found
        if found.blocks >= _FULL_SHARE * blocks:
            break
    bound = min(found.gain + price * blocks for found, price in ((cheap, low), (dear, high)))
    sets = [_filled(paths, found, blocks) for found in (cheap, dear)]
    best = max(sets, key=lambda one: sum(prefix.value for prefix in one))
    return Choice(best, bound)


def _filled(paths: _Tree, chains: _Chains, room: int) -> tuple[Chosen, ...]:
    """Return the chains in their order as far as there is room; the one that no longer fits is cut."""
    prefixes = []
    for last, blocks in zip(chains.last.tolist(), chains.length.tolist(), strict=True):
        if room < 1:
            break
        prefix = paths.chosen(last, blocks, room)
        prefixes.append(prefix)
        room -= prefix.blocks
    return tuple(prefixes)
