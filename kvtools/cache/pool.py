"""vLLM's block pool over flat arrays: which blocks are held, which are cached, which goes next.

The rules are those of vLLM 0.32 (``vllm/v1/core/block_pool.py``):

- The free list starts in the order of block numbers. Blocks are taken from its head; a taken block that
  still carries a key loses it, which is one eviction.
- A request's blocks are freed from its last to its first. Blocks without a key go to the head of the free
  list in that order (so the last one is reused first), keyed blocks to its tail.
- Several blocks may carry one key. A lookup returns the one that was keyed first among those still keyed.

Invariants: a block is in the free list if and only if no request holds it. Block 0 is vLLM's null block,
which no request ever holds: here it closes the ring of the free list, so that ``blocks[0, NEXT]`` is the
head and ``blocks[0, PREVIOUS]`` the tail. The blocks of one key form a ring of their own in the order in
which they were keyed. Every operation on one block is O(1).

The compiled loops index whole arrays instead of slicing rows: a slice would count references at every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvtools.cache.inner import inner
from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEXT, PREVIOUS, HOLDERS, KEY, KEY_NEXT, KEY_PREVIOUS = range(6)
"""Columns of ``Pool.blocks``: the free list, how many requests hold the block, its key, the key's ring."""

FREE, EVICTED, PARTIAL_BLOCKS_LAST, FORGET_COPIES, TIER_SIZE, TIER_COPIES = range(6)
"""Entries of ``Pool.counts``: blocks in the free list, keys lost to reuse so far, and the two switches; blocks that a
second tier holds (0: there is none), and copies that it has taken so far."""

NO_KEY = -1


class Pool(NamedTuple):
    """The state of a block pool; the functions of this module change it in place.

    ``blocks`` is [blocks + 1, 6]; ``first`` [keys] holds each key's first block (0: not cached); ``counts`` [6].
    ``tables`` [slots, most blocks of a request] lists the blocks that a request holds, one row per running
    request; ``keys`` is flat, the keys of one request's blocks one after the other. ``copied`` [keys] numbers the
    copies of a second tier from 1 (0: never copied); [0] where there is none.
    """

    blocks: NDArray[np.int32]
    first: NDArray[np.int32]
    counts: NDArray[np.int64]
    tables: NDArray[np.int32]
    keys: NDArray[np.int32]
    copied: NDArray[np.int64]


class Rules(NamedTuple):
    """What differs between pools.

    ``partial_blocks_last`` frees blocks without a key to the tail, as vLLM did before May 2026.
    ``forget_copies`` drops the key of a freed block if another block carries it too: only right where nothing
    is ever evicted, and there it bounds the pool by distinct keys plus what is held at once.
    ``tier_blocks``: a second tier copies every block that is keyed and forgets the oldest copy first; vLLM has none
    unless a connector is configured.
    """

    partial_blocks_last: bool = False
    forget_copies: bool = False
    tier_blocks: int = 0


def new_pool(capacity_blocks: int, tables: tuple[int, int], keys: NDArray[np.int32], rules: Rules) -> Pool:
    """Return a pool of ``capacity_blocks`` free blocks, numbered from 1.

    ``tables`` is the shape of the block tables, ``keys`` are dense ids from 0.
    """
    size = capacity_blocks + 1
    blocks = np.zeros((size, 6), np.int32)
    blocks[:, NEXT] = np.arange(1, size + 1)
    blocks[:, PREVIOUS] = np.arange(-1, size - 1)
    blocks[-1, NEXT] = 0
    blocks[0, PREVIOUS] = size - 1
    blocks[:, KEY] = NO_KEY
    first = np.zeros(int(keys.max(initial=0)) + 1, np.int32)
    switches = [rules.partial_blocks_last, rules.forget_copies, rules.tier_blocks, 0]
    counts = np.array([capacity_blocks, 0, *switches], np.int64)
    copied = np.zeros(len(first) if rules.tier_blocks else 0, np.int64)
    return Pool(blocks, first, counts, np.empty(tables, np.int32), keys, copied)


@inner
def lookup(pool: Pool, slot: int, base: int, limit: int) -> tuple[int, int]:
    """Write the cached blocks of the longest run from ``keys[base]``, at most ``limit``, into table ``slot``.

    Returns their number, and how many of them are in the free list. Nothing is touched.
    """
    found = 0
    idle = 0
    while found < limit:
        block = pool.first[pool.keys[base + found]]
        if block == 0:
            break
        pool.tables[slot, found] = block
        if pool.blocks[block, HOLDERS] == 0:
            idle += 1
        found += 1
    return found, idle


@inner
def register(pool: Pool, slot: int, base: int, start: int, stop: int) -> None:
    """Key the blocks ``start`` to ``stop`` of table ``slot``, none of which carries a key yet."""
    blocks, first = pool.blocks, pool.first
    for position in range(start, stop):
        block, key = pool.tables[slot, position], pool.keys[base + position]
        head = first[key]
        if head == 0:
            first[key] = head = block
            last = block
        else:
            last = blocks[head, KEY_PREVIOUS]
        blocks[block, KEY] = key
        blocks[block, KEY_NEXT] = head
        blocks[block, KEY_PREVIOUS] = last
        blocks[last, KEY_NEXT] = block
        blocks[head, KEY_PREVIOUS] = block


@inner
def in_tier(pool: Pool, key: int) -> bool:
    """Tell whether the second tier, which there is, holds a copy of the block with this key."""
    number = pool.copied[key]
    return bool(number > 0 and pool.counts[TIER_COPIES] - number < pool.counts[TIER_SIZE])


@inner
def copy(pool: Pool, base: int, start: int, stop: int) -> None:
    """Copy the blocks with the keys ``keys[base + start]`` to ``stop`` into the second tier, unless it holds them.

    The last one first, so that it is forgotten first: without those before it, a block is of no use.
    """
    for position in range(stop - 1, start - 1, -1):
        key = pool.keys[base + position]
        if not in_tier(pool, key):
            pool.counts[TIER_COPIES] += 1
            pool.copied[key] = pool.counts[TIER_COPIES]


@inner
def copies(pool: Pool, base: int, limit: int) -> int:
    """Return the length of the longest run from ``keys[base]``, at most ``limit``, that the second tier holds."""
    found = 0
    if pool.counts[TIER_SIZE] > 0:
        while found < limit and in_tier(pool, pool.keys[base + found]):
            found += 1
    return found


@inner
def forget(pool: Pool, block: int) -> None:
    """Take the key off ``block``; the next block of the same key, if any, becomes the one that lookups find."""
    blocks, first = pool.blocks, pool.first
    key, following, previous = blocks[block, KEY], blocks[block, KEY_NEXT], blocks[block, KEY_PREVIOUS]
    blocks[previous, KEY_NEXT] = following
    blocks[following, KEY_PREVIOUS] = previous
    if first[key] == block:
        first[key] = following if following != block else 0
    blocks[block, KEY] = NO_KEY


@inner
def touch(pool: Pool, slot: int, stop: int) -> None:
    """Hold the cached blocks of table ``slot`` up to ``stop`` once more; those in the free list leave it."""
    blocks = pool.blocks
    for position in range(stop):
        block = pool.tables[slot, position]
        if blocks[block, HOLDERS] == 0:
            following, previous = blocks[block, NEXT], blocks[block, PREVIOUS]
            blocks[previous, NEXT] = following
            blocks[following, PREVIOUS] = previous
            pool.counts[FREE] -= 1
        blocks[block, HOLDERS] += 1


@inner
def take(pool: Pool, slot: int, start: int, stop: int) -> None:
    """Fill table ``slot`` from ``start`` to ``stop`` from the head of the free list, which must be long enough."""
    blocks = pool.blocks
    for position in range(start, stop):
        block = blocks[0, NEXT]
        following = blocks[block, NEXT]
        blocks[0, NEXT] = following
        blocks[following, PREVIOUS] = 0
        if blocks[block, KEY] != NO_KEY:
            forget(pool, block)
            pool.counts[EVICTED] += 1
        blocks[block, HOLDERS] = 1
        pool.tables[slot, position] = block
    pool.counts[FREE] -= stop - start


@inner
def free(pool: Pool, slot: int, stop: int, kept: int) -> None:
    """Let go of the blocks of table ``slot`` up to ``stop``, last one first; only the first ``kept`` stay cached."""
    blocks, counts = pool.blocks, pool.counts
    reused_first = 0
    for position in range(stop - 1, -1, -1):
        block = pool.tables[slot, position]
        blocks[block, HOLDERS] -= 1
        if blocks[block, HOLDERS] > 0:
            continue
        counts[FREE] += 1
        key = blocks[block, KEY]
        if key != NO_KEY and (position >= kept or (counts[FORGET_COPIES] and pool.first[key] != block)):
            forget(pool, block)
            key = NO_KEY
        if key == NO_KEY and not counts[PARTIAL_BLOCKS_LAST]:
            previous = reused_first
            reused_first = block
        else:
            previous = blocks[0, PREVIOUS]
        following = blocks[previous, NEXT]
        blocks[block, NEXT] = following
        blocks[block, PREVIOUS] = previous
        blocks[previous, NEXT] = block
        blocks[following, PREVIOUS] = block


@kernel
def copy_free_list(blocks: NDArray[np.int32], order: NDArray[np.int64]) -> None:
    """Write the numbers of the free blocks into ``order`` in the order in which they would be taken."""
    block = 0
    for position in range(order.size):
        block = blocks[block, NEXT]
        order[position] = block
