"""How much cache the hits of a log take: exact sizes, the working set over time, a second tier behind the first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import replay_prompts, unlimited_hits
from kvtools.cache.curve import HitCurve, stack_distances
from kvtools.plan.optimal import optimal_hits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kvtools.cache import Prompts
    from kvtools.model import CacheSpec

SHARES = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of the ceiling's hits that a size is looked for."""

WINDOWS = 12


@dataclass(frozen=True, slots=True)
class Need:
    """The smallest cache with ``share`` (0..1) of the ceiling's hits; ``optimal_hit_tokens``: by the best order."""

    share: float
    capacity_blocks: int
    hit_tokens: int
    optimal_hit_tokens: int


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """A stretch of requests: ``touched_blocks`` are distinct; ``live_blocks`` at its end were seen and come again."""

    first: int
    stop: int
    touched_blocks: int
    new_blocks: int
    live_blocks: int


@dataclass(frozen=True, slots=True)
class Tier:
    """Hits of either tier with a second one of ``blocks``: if it copies the first, if it holds only the others."""

    blocks: int
    copies_hit_tokens: int
    victims_hit_tokens: int


def largest_prompt_blocks(prompts: Prompts, spec: CacheSpec) -> int:
    """Return the blocks that the longest prompt needs while it runs: a smaller cache refuses it."""
    if spec.rules == "trace" or not len(prompts.tokens):
        return 1
    return max(1, -(-int(prompts.tokens.max()) // spec.block_size))


def lru_curve(prompts: Prompts, spec: CacheSpec) -> HitCurve:
    """Return the hit tokens of an LRU cache of every size."""
    distances = stack_distances(prompts.ids, prompts.offsets, prompts.lookups(spec))
    return HitCurve.from_distances(
        distances, prompts.block_tokens(spec), int(prompts.ids.max(initial=-1)) + 1
    )


@dataclass(slots=True)
class SizeSearch:
    """Finds the smallest cache of vLLM's own rules with enough hits, beginning at the LRU cache's size.

    While no request is refused, a larger cache never hits less (one request at a time), so that a search by halves is
    exact. ``replays`` counts the sizes that were replayed.
    """

    prompts: Prompts
    spec: CacheSpec
    curve: HitCurve
    advance: Callable[[int], None] = lambda _: None
    replays: int = 0

    def hits(self, capacity_blocks: int) -> int:
        """Return the hit tokens in a cache of that size, exactly."""
        if self.spec.rules == "trace":
            return self.curve.at(capacity_blocks)
        spec = replace(self.spec, capacity_blocks=capacity_blocks)
        self.replays += 1
        return replay_prompts(self.prompts, spec, unlimited_hits(self.prompts, spec)).total_hit_tokens

    def smallest(self, share: float) -> Need:
        """Return the smallest cache that runs every request and has ``share`` of the ceiling's hits."""
        wanted = int(np.ceil(share * self.curve.at(None)))
        least = largest_prompt_blocks(self.prompts, self.spec)
        low, high = least - 1, max(self.curve.blocks_for(share), least)
        found, step = self.hits(high), 1
        if found < wanted:
            while found < wanted:
                low, high, step = high, high + step, 2 * step
                found = self.hits(high)
        else:
            while high - step > low and (fewer := self.hits(high - step)) >= wanted:
                high, found, step = high - step, fewer, 2 * step
            low = max(low, high - step)
        while high - low > 1:
            middle = (low + high) // 2
            hits = self.hits(middle)
            if hits >= wanted:
                high, found = middle, hits
            else:
                low = middle
        best = optimal_hits(self.prompts, replace(self.spec, capacity_blocks=high))
        self.advance(1)
        return Need(share, high, found, int(best.sum()))


def working_sets(prompts: Prompts, spec: CacheSpec, bounds: Sequence[int]) -> tuple[list[WorkingSet], int]:
    """Return the stretches ``bounds[k] : bounds[k + 1]`` of requests, and the most blocks that were ever live.

    That many blocks are what the best order of eviction needs for every hit that there is.
    """
    requests = len(prompts.tokens)
    owner = np.repeat(np.arange(requests), np.diff(prompts.offsets))
    distinct = int(prompts.ids.max(initial=-1)) + 1
    first = np.full(distinct, requests, dtype=np.int64)
    np.minimum.at(first, prompts.ids, owner)
    reach = -(-unlimited_hits(prompts, replace(spec, capacity_blocks=None)) // spec.block_size)
    place = np.arange(len(prompts.ids)) - np.repeat(prompts.offsets[:-1], np.diff(prompts.offsets))
    hit = place < np.repeat(reach, np.diff(prompts.offsets))
    last = np.full(distinct, -1, dtype=np.int64)
    np.maximum.at(last, prompts.ids[hit], owner[hit])
    again = last > first
    change = np.bincount(first[again], minlength=requests + 1) - np.bincount(
        last[again], minlength=requests + 1
    )
    live = np.cumsum(change)[:requests]
    found = []
    for begin, end in pairwise(bounds):
        touched = np.unique(prompts.ids[prompts.offsets[begin] : prompts.offsets[end]])
        new = int(((first[touched] >= begin) & (first[touched] < end)).sum())
        alive = int(live[end - 1]) if end else 0
        found.append(WorkingSet(begin, end, len(touched), new, alive))
    return found, int(live.max(initial=0))


def window_bounds(arrival_us: NDArray[np.int64] | None, requests: int, windows: int = WINDOWS) -> list[int]:
    """Return where each of ``windows`` equal stretches of time begins, and the end; of requests without a clock.

    ``arrival_us``: ascending. Stretches without requests are left out.
    """
    if arrival_us is None or arrival_us[-1] == arrival_us[0]:
        bounds = np.linspace(0, requests, min(windows, requests) + 1).astype(np.int64)
    else:
        edges = np.linspace(arrival_us[0], arrival_us[-1], windows + 1)
        bounds = np.searchsorted(arrival_us, edges)
        bounds[-1] = requests
    distinct: list[int] = np.unique(bounds).tolist()
    return distinct


def second_tier(curve: HitCurve, capacity_blocks: int, tier_blocks: Sequence[int]) -> list[Tier]:
    """Return what a second tier adds behind a first of ``capacity_blocks``, both LRU.

    A tier that copies every block of the first, as vLLM's native offloading does, is one LRU cache of the larger
    size; a tier that only takes what the first gives up is one of both together (stack distances: Mattson 1970).
    """
    return [
        Tier(blocks, curve.at(max(capacity_blocks, blocks)), curve.at(capacity_blocks + blocks))
        for blocks in tier_blocks
    ]
