"""The largest shared prefixes of a log as a small tree: what a page can draw, whatever the log's length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_NODES = 150
"""Nodes kept, besides those above them."""
_NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class PrefixOutline:
    """Nodes by depth first seen; a node is a run of blocks that the same requests share.

    ``parent`` is a node's index, -1 at the top. ``first_block`` counts from the start of the prompt. ``requests`` carry
    the run; ``hits`` are the times that one of its blocks was hit, ``uses`` the times that one was asked for or
    filled. ``below`` are the uses of the node and all behind it in the log, nodes left out included. ``route`` is the
    digest of the only route that carries it, 0 where several do or none is named.
    """

    parent: NDArray[np.int64]
    first_block: NDArray[np.int64]
    blocks: NDArray[np.int64]
    requests: NDArray[np.int64]
    uses: NDArray[np.int64]
    hits: NDArray[np.int64]
    below: NDArray[np.int64]
    route: NDArray[np.uint64]


def prefix_outline(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    hit_blocks: NDArray[np.int64],
    routes: NDArray[np.uint64],
    largest: int = LARGEST_NODES,
) -> PrefixOutline:
    """Return the ``largest`` runs of blocks that two requests or more share, with those above them.

    ``ids`` are dense ids of chained block keys in the order of first sight: equal ids mean equal prefixes, and a
    block's parent has a smaller id. ``hit_blocks``: leading blocks that each request hit.
    """
    unique = int(ids.max()) + 1 if len(ids) else 0
    requests, hits = np.zeros(unique, dtype=np.int64), np.zeros(unique, dtype=np.int64)
    parent, children = np.full(unique, _NONE, dtype=np.int64), np.zeros(unique, dtype=np.int64)
    route = np.zeros(unique, dtype=np.uint64)
    _count(ids, offsets, hit_blocks, routes, requests, hits, parent, route)
    np.add.at(children, parent[parent != _NONE], 1)
    run, depth = np.empty(unique, dtype=np.int64), np.zeros(unique, dtype=np.int64)
    _runs(parent, requests, children, run, depth)
    return _kept(run, parent, depth, requests, hits, route, largest)


@kernel
def _count(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    hit_blocks: NDArray[np.int64],
    routes: NDArray[np.uint64],
    requests: NDArray[np.int64],
    hits: NDArray[np.int64],
    parent: NDArray[np.int64],
    route: NDArray[np.uint64],
) -> None:
    for request in range(len(offsets) - 1):
        before = -1
        start = offsets[request]
        for index in range(start, offsets[request + 1]):
            block = ids[index]
            if requests[block] == 0:
                parent[block] = before
                route[block] = routes[request]
            elif route[block] != routes[request]:
                route[block] = np.uint64(0)  # several
            requests[block] += 1
            if index - start < hit_blocks[request]:
                hits[block] += 1
            before = block


@kernel
def _runs(
    parent: NDArray[np.int64],
    requests: NDArray[np.int64],
    children: NDArray[np.int64],
    run: NDArray[np.int64],
    depth: NDArray[np.int64],
) -> None:
    """Give each block the first block of its run: an only child that every request of its parent reaches joins it."""
    for block in range(len(parent)):
        above = parent[block]
        depth[block] = depth[above] + 1 if above >= 0 else 0
        joins = above >= 0 and children[above] == 1 and requests[above] == requests[block]
        run[block] = run[above] if joins else block


def _kept(
    run: NDArray[np.int64],
    parent: NDArray[np.int64],
    depth: NDArray[np.int64],
    requests: NDArray[np.int64],
    hits: NDArray[np.int64],
    route: NDArray[np.uint64],
    largest: int,
) -> PrefixOutline:
    # A run is named after its first block, which is no other's: its number is how many begin before it.
    begins = run == np.arange(len(run))
    heads, which = np.flatnonzero(begins), (np.cumsum(begins, dtype=np.int32) - 1)[run]
    blocks = np.bincount(which, minlength=len(heads)).astype(np.int64)
    uses = blocks * requests[heads]
    hit = np.rint(np.bincount(which, weights=hits, minlength=len(heads))).astype(np.int64)
    above = np.full(len(heads), _NONE, dtype=np.int64)
    inner = parent[heads] != _NONE
    above[inner] = np.searchsorted(heads, run[parent[heads[inner]]])
    below = uses.copy()
    _summed_up(above, below)
    shared = np.flatnonzero(requests[heads] > 1)
    chosen = np.zeros(len(heads), dtype=np.bool_)
    # Ties go to the node first seen, so that a log has one outline.
    chosen[shared[np.argsort(-uses[shared], kind="stable")[:largest]]] = True
    _with_those_above(above, chosen)
    keep = np.flatnonzero(chosen)
    return PrefixOutline(
        parent=np.where(above[keep] == _NONE, _NONE, np.searchsorted(keep, above[keep])),
        first_block=depth[heads[keep]],
        blocks=blocks[keep],
        requests=requests[heads[keep]],
        uses=uses[keep],
        hits=hit[keep],
        below=below[keep],
        route=route[heads[keep]],
    )


@kernel
def _summed_up(above: NDArray[np.int64], below: NDArray[np.int64]) -> None:
    for node in range(len(above) - 1, -1, -1):
        if above[node] >= 0:
            below[above[node]] += below[node]


@kernel
def _with_those_above(above: NDArray[np.int64], chosen: NDArray[np.bool_]) -> None:
    for node in range(len(above) - 1, -1, -1):
        if chosen[node] and above[node] >= 0:
            chosen[above[node]] = True
