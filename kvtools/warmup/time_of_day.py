"""Blocks weighted by the time of day: those that other days asked for at the time to come count more, others less."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.warmup.tree import BlockTree

DAY_US = 86_400_000_000

_PRIOR_LOOKUPS = 4.0
"""A block is taken to be asked for at all times of the day like the traffic, by the weight of so many lookups."""


@kernel
def _asked(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    lookups: NDArray[np.int64],
    then: NDArray[np.bool_],
    found: NDArray[np.int64],
) -> None:
    """Count the lookups of each block: all, and those of the requests that come ``then``."""
    for request in range(len(then)):
        start = offsets[request]
        for place in range(start, start + lookups[request]):
            found[ids[place], 0] += 1
            found[ids[place], 1] += then[request]


def day_weights(tree: BlockTree, horizon: int) -> NDArray[np.float64] | None:
    """Return for each block how many times as often it is asked for at the time of the next ``horizon`` requests.

    That is its share of lookups at that time over the share of all requests; 1: as often as at any time. ``None`` where
    the log has no clock, or the horizon covers a whole day, or a time of which no request is known.
    """
    history, stop = tree.history, tree.requests
    if history.arrival_us is None or stop < 2:
        return None
    arrival = history.arrival_us[:stop]
    now = int(arrival[-1])
    span_us = (now - int(arrival[0])) * horizon // (stop - 1)
    after = (arrival - now) % DAY_US
    then = (after > 0) & (after <= span_us)
    share = float(then.mean())
    if not share or span_us >= DAY_US:
        return None
    found = np.zeros((len(tree.nodes), 2), dtype=np.int64)
    _asked(history.ids, history.offsets, history.lookups, then, found)
    weights: NDArray[np.float64] = (
        (found[:, 1] + _PRIOR_LOOKUPS * share) / (found[:, 0] + _PRIOR_LOOKUPS) / share
    )
    return weights
