"""The oracle: vLLM's counting rules for one request at a time, as plainly as they can be said."""

from __future__ import annotations


def lru_hits(requests: list[list[int]], lookups: list[int], capacity: int) -> list[int]:
    """Return the hit blocks of each request in an LRU list of ``capacity`` blocks (the last one is the newest)."""
    cache: list[int] = []
    hits = []
    for blocks, limit in zip(requests, lookups, strict=True):
        found = 0
        while found < limit and blocks[found] in cache:
            found += 1
        hits.append(found)
        for block in reversed(blocks):
            if block in cache:
                cache.remove(block)
            cache.append(block)
            del cache[:-capacity]
    return hits
