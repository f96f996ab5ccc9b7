"""A set that fits the cache, worth what it saves before the traffic has pushed it out.

In a cache with a limit a warm block stays until as many distinct blocks have been asked for as lie above it: for a full
set between none and all of the cache's, half of them on average. How many requests that takes is read off the latest
traffic; further ahead no block is worth anything. A block counts until one look-ahead, or by its mean over places all
over the cache (``SPREAD``). Which saves most is tried (``kvtools.warmup.rehearsal``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel
from kvtools.warmup.choose import Choice, Chosen, choose
from kvtools.warmup.recurrence import probabilities
from kvtools.warmup.time_of_day import day_weights
from kvtools.warmup.tree import LAST, SEEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.warmup.tree import BlockTree, History


SPREAD = (0.125, 0.25, 0.5, 0.75, 1.0)
"""Look-aheads, in caches, of a block whose place in the cache is not known yet."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be sent: at most ``queries`` requests, and ``blocks`` distinct blocks (``None``: any number)."""

    queries: int
    blocks: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A set: its ``choice``, and the ``horizon`` in requests that it looked ahead.

    ``left_out``: what a larger cache would be sent under the same budget, the most valuable first; ``likely``: the
    probability (0..1) of each block.
    """

    choice: Choice
    horizon: int
    left_out: tuple[Chosen, ...]
    likely: NDArray[np.float64]


@kernel
def _to_fill(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], stop: int, blocks: int, seen: NDArray[np.bool_]
) -> int:
    distinct = 0
    for request in range(stop - 1, -1, -1):
        for place in range(offsets[request], offsets[request + 1]):
            if not seen[ids[place]]:
                seen[ids[place]] = True
                distinct += 1
        if distinct >= blocks:
            return stop - request
    return stop


def requests_to_fill(history: History, stop: int, blocks: int) -> int:
    """Return how many of the latest requests before ``stop`` have ``blocks`` distinct blocks; all, where none do."""
    seen = np.zeros(history.distinct(stop), dtype=np.bool_)
    return int(_to_fill(history.ids, history.offsets, stop, blocks, seen))


def plan(
    tree: BlockTree,
    horizon: int,
    budget: Budget,
    capacity_blocks: int | None,
    look_aheads: Sequence[float] = (0.5,),
    *,
    by_time: bool = False,
) -> Plan:
    """Return the set to send before the requests that follow those of ``tree``; ``horizon`` is in requests.

    In a cache with a limit a block counts until ``look_aheads`` times its blocks have been asked for; of several, by
    the mean of its probabilities. ``by_time`` weights blocks by the time of day to come.
    """
    stays = [horizon]
    if capacity_blocks is not None and capacity_blocks < tree.history.distinct(tree.requests):
        asked = [max(int(capacity_blocks * share), 1) for share in look_aheads]
        stays = [min(requests_to_fill(tree.history, tree.requests, blocks), horizon) for blocks in asked]
    stay = max(stays)
    weights = day_weights(tree, stay) if by_time else None
    likely = np.mean([probabilities(tree, one, weights) for one in stays], axis=0)
    room = room_of(budget, capacity_blocks)
    choice = choose(tree, likely, budget.queries, room)
    left_out: tuple[Chosen, ...] = ()
    if room is not None and room != budget.blocks:
        inside = {(prefix.request, prefix.depth) for prefix in choice.prefixes}
        in_a_larger = likely if stay == horizon else probabilities(tree, horizon)
        freely = choose(tree, in_a_larger, budget.queries, budget.blocks).prefixes
        left_out = tuple(one for one in freely if (one.request, one.depth) not in inside)
    return Plan(choice, stay, left_out, likely)


def room_of(budget: Budget, capacity_blocks: int | None) -> int | None:
    """Return how many distinct blocks a set may have, ``None``: any number."""
    return min((limit for limit in (budget.blocks, capacity_blocks) if limit is not None), default=None)


def as_prefixes(tree: BlockTree, likely: NDArray[np.float64], requests: list[int]) -> tuple[Chosen, ...]:
    """Return whole prompts (all their full blocks) as prefixes, each with what it adds to those before it."""
    covered: set[int] = set()
    prefixes = []
    for request in requests:
        own = tree.history.blocks(request)
        fresh = [block for block in own.tolist() if block not in covered]
        if not fresh:
            continue
        covered.update(fresh)
        members = int(tree.nodes[own[-1], SEEN])
        value = float(likely[fresh].sum())
        prefixes.append(Chosen(int(tree.nodes[own[-1], LAST]), len(own), len(fresh), value, members))
    return tuple(prefixes)
