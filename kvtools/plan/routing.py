"""A log on several replicas: which one each request goes to, and what their caches then hit.

A routing decision is made in log order. Policies that look at the replicas see, of each, the tokens that it has
computed so far and an LRU cache of the prompts that were sent to it, as routers keep one. What they decide is then
replayed in the exact engine, one replica after the other: the hits are the engine's, not the router's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts, replay_prompts, unlimited_hits
from kvtools.jit import kernel
from kvtools.model import share
from kvtools.plan.routing_ring import Ring
from kvtools.table import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.model import CacheSpec

ROUND_ROBIN, LEAST_LOADED = "round-robin", "least-loaded"
SESSION_AFFINE, PREFIX_HASH, PREFIX_AWARE = "session-affine", "prefix-hash", "prefix-aware"
POLICIES = (ROUND_ROBIN, LEAST_LOADED, SESSION_AFFINE, PREFIX_HASH, PREFIX_AWARE)

BALANCE = 1.25
"""``prefix-aware`` passes a replica by that has computed more than this times the mean (bounded loads: Mirrokni,
Thorup and Zadimoghaddam, SODA 2018)."""

SLACK_REQUESTS = 16
"""… and this many mean prompts more: a log's first requests would be scattered without it."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """The lookups in replay order. ``request`` is the request of each (n answers are n lookups), from 0 upwards.

    ``session_hash`` and ``prefix_hash`` [lookups] are the CRC-32 of their routing keys.
    """

    prompts: Prompts
    request: NDArray[np.int64]
    session_hash: NDArray[np.uint32]
    prefix_hash: NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """What ``replicas`` caches hit. ``replica``, ``hit_tokens``, ``queried_tokens``, ``refused``: of each lookup."""

    policy: str
    replicas: int
    replica: NDArray[np.int64]
    hit_tokens: NDArray[np.int64]
    queried_tokens: NDArray[np.int64]
    refused: NDArray[np.bool_]
    evictions: int

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens over queried tokens, over all replicas (a ratio of sums); ``None`` where nothing was queried."""
        return share(int(self.hit_tokens.sum()), int(self.queried_tokens.sum()))

    @property
    def computed_tokens(self) -> NDArray[np.int64]:
        """Prompt tokens that each replica had to compute."""
        computed = np.zeros(self.replicas, dtype=np.int64)
        np.add.at(computed, self.replica, self.queried_tokens - self.hit_tokens)
        return computed

    @property
    def imbalance(self) -> float | None:
        """Computed tokens of the busiest replica over their mean: 1 is even, the number of replicas is one for all."""
        computed = self.computed_tokens
        return share(int(computed.max()) * self.replicas, int(computed.sum()))


def route(
    traffic: Traffic, spec: CacheSpec, policy: str, replicas: int, servers: Sequence[str] | None = None
) -> Routed:
    """Return what the caches of ``replicas`` engines hit, each of ``spec``, with requests routed by ``policy``.

    ``servers``: names of the replicas, as nginx hashes them (default: ``server_names``).
    """
    names = server_names(replicas) if servers is None else servers
    replica = _assigned(traffic, spec, policy, names)
    count = len(replica)
    hits, queried = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    refused = np.zeros(count, dtype=np.bool_)
    evictions = 0
    for number in range(replicas):
        rows = np.flatnonzero(replica == number)
        part = _taken(traffic.prompts, rows)
        result = replay_prompts(part, spec, unlimited_hits(part, spec))
        hits[rows], queried[rows], refused[rows] = result.hit_tokens, result.queried_tokens, result.refused
        evictions += result.evictions or 0
    return Routed(policy, replicas, replica, hits, queried, refused, evictions)


def server_names(replicas: int) -> list[str]:
    """Return names for replicas that have none."""
    return [f"replica-{number}:8000" for number in range(1, replicas + 1)]


def _assigned(traffic: Traffic, spec: CacheSpec, policy: str, servers: Sequence[str]) -> NDArray[np.int64]:
    if policy == ROUND_ROBIN:
        return traffic.request % len(servers)
    if policy in (SESSION_AFFINE, PREFIX_HASH):
        return Ring(servers).servers_of(
            traffic.session_hash if policy == SESSION_AFFINE else traffic.prefix_hash
        )
    balance = BALANCE if policy == PREFIX_AWARE else 0.0
    return _by_view(traffic, spec, len(servers), balance)


def _by_view(traffic: Traffic, spec: CacheSpec, replicas: int, balance: float) -> NDArray[np.int64]:
    """Return the replica of each lookup by what the router sees of the replicas."""
    prompts = traffic.prompts
    distinct = int(prompts.ids.max(initial=-1)) + 1
    ample = spec.capacity_blocks is None or spec.capacity_blocks >= distinct
    capacity = 0 if ample or spec.capacity_blocks is None else spec.capacity_blocks
    # Where nothing is ever evicted there is no order to keep: a mark for each block is enough.
    newer = np.full((replicas, distinct + 1), -1, dtype=np.int8 if ample else np.int32)
    older = np.full((replicas, 1 if ample else distinct + 1), -1, dtype=newer.dtype)
    if not ample:
        newer[:, distinct] = older[:, distinct] = distinct
    slack = SLACK_REQUESTS * float(prompts.tokens.mean()) if len(prompts.tokens) else 0.0
    return _by_state(
        (prompts.ids, prompts.offsets),
        traffic.request,
        prompts.lookups(spec),
        prompts.tokens,
        (newer, older),
        (capacity, spec.block_size),
        (balance, slack),
    )


@kernel
def _by_state(
    blocks_of: tuple[NDArray[np.int32], NDArray[np.int64]],
    request: NDArray[np.int64],
    lookups: NDArray[np.int64],
    tokens: NDArray[np.int64],
    rings: tuple[NDArray[np.signedinteger], NDArray[np.signedinteger]],
    sizes: tuple[int, int],
    bound: tuple[float, float],
) -> NDArray[np.int64]:
    """Return the replica of each lookup; ``bound``: balance (0: prefixes do not count) and slack in tokens.

    ``sizes``: blocks of a replica's cache (0: without limit), and tokens of a block.
    """
    ids, offsets = blocks_of
    newer, older = rings
    capacity, block_size = sizes
    resident = np.zeros(len(newer), dtype=np.int64)
    load = np.zeros(len(newer), dtype=np.int64)
    chosen = np.zeros(len(lookups), dtype=np.int64)
    for row in range(len(lookups)):
        blocks = ids[offsets[row] : offsets[row + 1]]
        if row > 0 and request[row] == request[row - 1]:
            chosen[row] = chosen[row - 1]
        else:
            chosen[row] = _choice(newer, load, blocks, lookups[row], bound)
        one = chosen[row]
        found = _found(newer[one], blocks, lookups[row])
        load[one] += tokens[row] - min(found * block_size, tokens[row])
        if capacity == 0:
            for block in blocks:
                newer[one, block] = 0
        else:
            resident[one] = _touch(newer[one], older[one], blocks, resident[one], capacity)
    return chosen


@kernel
def _choice(
    newer: NDArray[np.signedinteger],
    load: NDArray[np.int64],
    blocks: NDArray[np.int32],
    lookups: int,
    bound: tuple[float, float],
) -> int:
    balance, slack = bound
    best, most = int(np.argmin(load)), 0
    if balance == 0.0:
        return best
    limit = balance * load.sum() / len(load) + slack
    for replica in range(len(load)):
        found = _found(newer[replica], blocks, lookups)
        fits = load[replica] <= limit
        if fits and (found > most or (found == most and load[replica] < load[best])):
            best, most = replica, found
    return best


@kernel
def _found(newer: NDArray[np.signedinteger], blocks: NDArray[np.int32], lookups: int) -> int:
    """Return how many leading blocks are in a replica's cache."""
    found = 0
    while found < lookups and newer[blocks[found]] >= 0:
        found += 1
    return found


@kernel
def _touch(
    newer: NDArray[np.signedinteger],
    older: NDArray[np.signedinteger],
    blocks: NDArray[np.int32],
    resident: int,
    capacity: int,
) -> int:
    """Make the blocks the most recent of the ring, the first one last; return how many are in it."""
    ring = len(newer) - 1
    for place in range(len(blocks) - 1, -1, -1):
        block = blocks[place]
        if newer[block] >= 0:
            older[newer[block]] = older[block]
            newer[older[block]] = newer[block]
        elif resident == capacity:
            oldest = newer[ring]
            newer[ring] = newer[oldest]
            older[newer[oldest]] = ring
            newer[oldest] = -1
        else:
            resident += 1
        newest = older[ring]
        older[ring] = block
        newer[block] = ring
        older[block] = newest
        newer[newest] = block
    return resident


def _taken(prompts: Prompts, rows: NDArray[np.int64]) -> Prompts:
    """Return some of the prompts, numbered anew: dense ids count from the first sight."""
    blocks = Ragged(prompts.ids, prompts.offsets).take(rows)
    ids = Interner().intern(blocks.values.astype(np.uint64))
    return Prompts(prompts.tokens[rows], ids, blocks.offsets, prompts.skip_lookup[rows])
