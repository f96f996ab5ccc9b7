"""Similarity of prefixes: Jaccard on sets of chained block keys.

A chained key stands for its block and all before it, so two prompts of a and b blocks whose first L blocks
are equal share exactly L keys: (shared) / (all) = L / (a + b - L).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOW_REQUESTS = 1_000


@kernel
def common_blocks(ids: NDArray[np.int32], offsets: NDArray[np.int64], one: int, other: int) -> int:
    """Return how many leading blocks two requests share, by bisection: equal at k means equal before k."""
    low = 0
    high = min(offsets[one + 1] - offsets[one], offsets[other + 1] - offsets[other])
    while low < high:
        middle = (low + high + 1) // 2
        if ids[offsets[one] + middle - 1] == ids[offsets[other] + middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _with_previous(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], groups: NDArray[np.int64], group_count: int
) -> NDArray[np.float64]:
    previous = np.full(group_count, -1, dtype=np.int64)
    found = np.full(len(groups), np.nan)
    for request in range(len(groups)):
        before = previous[groups[request]]
        previous[groups[request]] = request
        if before < 0:
            continue
        shared = common_blocks(ids, offsets, before, request)
        either = offsets[before + 1] - offsets[before] + offsets[request + 1] - offsets[request] - shared
        if either:
            found[request] = shared / either
    return found


def consecutive_prefix(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], groups: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return each request's prefix Jaccard (0..1) with the one before it in its group, NaN where there is none.

    ``ids``: dense ids of chained keys, request ``i`` owning ``ids[offsets[i]:offsets[i + 1]]``; ``groups``: small
    integers. A pair without a block on either side says nothing and is NaN.
    """
    count = int(groups.max()) + 1 if len(groups) else 0
    found: NDArray[np.float64] = _with_previous(ids, offsets, groups, count)
    return found


@kernel
def _nearest(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], distinct: int, window: int
) -> NDArray[np.float64]:
    requests = len(offsets) - 1
    # Only requests with the same first block share a prefix: walk those alone, newest first.
    latest = np.full(distinct, -1, dtype=np.int64)
    earlier = np.full(requests, -1, dtype=np.int64)
    best = np.full(requests, np.nan)
    latest_with_blocks = -window - 1
    for request in range(requests):
        mine = offsets[request + 1] - offsets[request]
        if request and (mine or latest_with_blocks >= request - window):
            best[request] = 0.0
        if mine == 0:
            continue
        latest_with_blocks = request
        head = ids[offsets[request]]
        other = latest[head]
        earlier[request] = other
        latest[head] = request
        while other >= 0 and other >= request - window and best[request] < 1.0:
            theirs = offsets[other + 1] - offsets[other]
            if min(mine, theirs) > best[request] * max(mine, theirs):
                shared = common_blocks(ids, offsets, other, request)
                best[request] = max(best[request], shared / (mine + theirs - shared))
            other = earlier[other]
    return best


def nearest_prefix(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], window: int = WINDOW_REQUESTS
) -> NDArray[np.float64]:
    """Return each request's largest prefix Jaccard (0..1) with any of the ``window`` requests before it.

    NaN for the first request, and for a prompt without a block among others without one.
    """
    distinct = int(ids.max()) + 1 if len(ids) else 0
    found: NDArray[np.float64] = _nearest(ids, offsets, distinct, window)
    return found
