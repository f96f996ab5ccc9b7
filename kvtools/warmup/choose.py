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
def _chain(following: NDArray[np.int32], node: int) -> tuple[int, int]:
    """Return the last node of a chain and its blocks."""
    length = 1
    while following[node] >= 0:
        node = following[node]
        length += 1
    return node, length


class _Tree:
    """The greedy paths of one tree at any price of a block."""

    def __init__(self, tree: BlockTree, likely: NDArray[np.float64]) -> None:
        self.tree, self.likely = tree, likely
        self.parent = np.ascontiguousarray(tree.nodes[:, PARENT])

    def greedy(self, queries: int, price: float) -> list[tuple[float, int, int, int]]:
        """Return gain, first node, last node and blocks of the best ``queries`` chains, the best first."""
        value = np.maximum(self.likely - price, 0.0)
        best, following = _longest(self.parent, value)
        above = np.where(self.parent < 0, -1, following[self.parent])
        heads = np.flatnonzero((value > 0.0) & (above != np.arange(len(value))))
        if len(heads) > queries:
            heads = heads[np.argpartition(-best[heads], queries)[:queries]]
        # Equal gains: the more recent first.
        heads = heads[np.lexsort((-self.tree.nodes[heads, LAST], -best[heads]))]
        return [(float(best[head]), int(head), *_chain(following, int(head))) for head in heads.tolist()]

    def chosen(self, chain: tuple[float, int, int, int], room: int) -> Chosen:
        """Return a chain as a prefix, cut to ``room`` new blocks; its value is by probability alone."""
        _, _, node, blocks = chain
        while blocks > room:
            node, blocks = int(self.parent[node]), blocks - 1
        value, at = 0.0, node
        for _ in range(blocks):
            value += float(self.likely[at])
            at = int(self.parent[at])
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
    if blocks is None or sum(chain[3] for chain in free) <= blocks:
        every = tuple(paths.chosen(chain, chain[3]) for chain in free)
        return Choice(every, sum(one.value for one in every))
    low, high = 0.0, 1.0
    cheap, dear = free, []
    for _ in range(_HALVINGS):
        price = (low + high) / 2
        found = paths.greedy(queries, price)
        if sum(chain[3] for chain in found) <= blocks:
            high, dear = price, found
        else:
            low, cheap = price, found
    bound = min(
        sum(chain[0] for chain in found) + price * blocks for found, price in ((cheap, low), (dear, high))
    )
    sets = [_filled(paths, found, blocks) for found in (cheap, dear)]
    best = max(sets, key=lambda one: sum(prefix.value for prefix in one))
    return Choice(best, bound)


def _filled(paths: _Tree, chains: list[tuple[float, int, int, int]], blocks: int) -> tuple[Chosen, ...]:
    """Return the chains in their order as far as there is room; the one that no longer fits is cut."""
    prefixes = []
    for chain in chains:
        if blocks < 1:
            break
        prefix = paths.chosen(chain, blocks)
        prefixes.append(prefix)
        blocks -= prefix.blocks
    return tuple(prefixes)
