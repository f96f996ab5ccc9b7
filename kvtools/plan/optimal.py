"""The optimal offline eviction order: the most blocks that any order could hit, knowing what comes.

A block that is looked up again is a line from the request that touched it last to the one that looks it up; each line
that the cache keeps is one hit, and as many lines as the cache has blocks can be kept at once. Keeping the most lines
is an interval problem, which Belady's rule solves: where there are too many, give up the one that ends last (Belady,
IBM Systems Journal 1966; for intervals Carlisle and Lloyd 1995).

By vLLM's rules the blocks of the running request have to be in the cache while it runs, so there is room only for the
others beside them; no order can do better, vLLM's own included. By trace rules a request may pass without a block being
kept, as in KVCache.AI's simulator; the last block of a prompt then counts like a full one in the choice, so that the
optimum is one of blocks.

Invariant: of the lines that end at one request, the ones kept are those of its first blocks. A block is touched
whenever a deeper one is, so its line begins no earlier; the deepest is given up first. A count per request is enough.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import unlimited_hits
from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.cache import Prompts
    from kvtools.model import CacheSpec


@kernel
def _ends(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], hittable: NDArray[np.int64], distinct: int
) -> NDArray[np.int64]:
    """Return for each place the request that next looks its block up where it can hit; the number of requests: none."""
    requests = len(offsets) - 1
    ends = np.full(len(ids), requests, dtype=np.int64)
    upcoming = np.full(distinct, requests, dtype=np.int64)
    counted = np.full(distinct, -1, dtype=np.int64)
    for request in range(requests - 1, -1, -1):
        start, stop = offsets[request], offsets[request + 1]
        for place in range(start, stop):
            if counted[ids[place]] != request:
                counted[ids[place]] = request
                ends[place] = upcoming[ids[place]]
        for place in range(start, stop):
            upcoming[ids[place]] = request if place - start < hittable[request] else requests
    return ends


@kernel
def _kept(
    ends: NDArray[np.int64], offsets: NDArray[np.int64], need: NDArray[np.int64], capacity: int
) -> NDArray[np.int64]:
    """Return how many lines that end at each request are kept."""
    requests = len(offsets) - 1
    kept = np.zeros(requests, dtype=np.int64)
    listed = np.zeros(requests, dtype=np.bool_)
    latest = [0]
    latest.pop()
    total = 0
    for request in range(requests):
        total -= kept[request]
        for adding in range(2):
            room = capacity if adding else capacity - need[request]
            if adding:
                for place in range(offsets[request], offsets[request + 1]):
                    end = ends[place]
                    if end == requests:
                        continue
                    kept[end] += 1
                    total += 1
                    if not listed[end]:
                        listed[end] = True
                        heapq.heappush(latest, -end)
            while total > room:
                last = -latest[0]
                given_up = min(kept[last], total - room)
                kept[last] -= given_up
                total -= given_up
                if kept[last] == 0:
                    heapq.heappop(latest)
                    listed[last] = False
    return kept


def optimal_hits(prompts: Prompts, spec: CacheSpec) -> NDArray[np.int64]:
    """Return the hit tokens of each prompt in a cache of ``spec`` with the best order of eviction.

    Block keys that are not chained make it an upper bound. Requests that the engine refuses hit nothing.
    """
    unlimited = unlimited_hits(prompts, spec)
    if spec.capacity_blocks is None or not len(prompts.ids):
        return unlimited
    listed = np.diff(prompts.offsets)
    hittable = -(-unlimited // spec.block_size)
    need = np.zeros_like(listed)
    if spec.rules == "vllm":
        need = -(-prompts.tokens // spec.block_size)
        refused = need > spec.capacity_blocks
        hittable[refused] = 0
        need[refused] = 0
        prompts = _without_blocks(prompts, refused)
        listed = np.diff(prompts.offsets)
    ends = _ends(prompts.ids, prompts.offsets, hittable, int(prompts.ids.max(initial=-1)) + 1)
    blocks = _kept(ends, prompts.offsets, need, spec.capacity_blocks)
    whole = (blocks == listed) & (spec.rules == "trace")
    tokens: NDArray[np.int64] = np.where(whole, prompts.tokens, blocks * spec.block_size)
    return np.where(blocks > 0, tokens, 0)


def _without_blocks(prompts: Prompts, refused: NDArray[np.bool_]) -> Prompts:
    """Return the prompts with those that never run emptied: they touch nothing."""
    if not refused.any():
        return prompts
    listed = np.where(refused, 0, np.diff(prompts.offsets))
    keep = np.repeat(~refused, np.diff(prompts.offsets))
    offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(listed)))
    return type(prompts)(prompts.tokens, prompts.ids[keep], offsets, prompts.skip_lookup)
