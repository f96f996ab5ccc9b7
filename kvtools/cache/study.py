"""One log through one cache: what it hits, what an unlimited one would, and an LRU cache of every size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache.curve import HitCurve, stack_distances
from kvtools.cache.intern import Interner
from kvtools.cache.lru import lru_hits
from kvtools.cache.scheduler import simulate
from kvtools.cache.workload import Workload, without_needless_blocks
from kvtools.jit import kernel
from kvtools.model import CacheSpec, ReplayResult, SchedulerSpec, share
from kvtools.table import offsets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.table import Ragged


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """The prompts in replay order, as dense block ids: prompt ``i`` owns ``ids[offsets[i]:offsets[i + 1]]``.

    ``skip_lookup`` prompts fill the cache without reading it, and are not counted as queried.
    """

    tokens: NDArray[np.int64]
    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    skip_lookup: NDArray[np.bool_]

    def lookups(self, spec: CacheSpec) -> NDArray[np.int64]:
        """Blocks that each prompt may hit: by vLLM's rules at most n-1 tokens, so that one token is left to compute."""
        listed = np.diff(self.offsets)
        limit = listed if spec.rules == "trace" else np.minimum(listed, (self.tokens - 1) // spec.block_size)
        return np.where(self.skip_lookup, 0, limit)

    def block_tokens(self, spec: CacheSpec) -> NDArray[np.int32]:
        """Tokens of each listed block: ``block_size``, by trace rules the last one its own."""
        sizes = np.full(len(self.ids), spec.block_size, dtype=np.int32)
        if spec.rules == "trace":
            listed = np.diff(self.offsets)
            some = listed > 0
            last = self.offsets[1:][some] - 1
            sizes[last] = self.tokens[some] - (listed[some] - 1) * spec.block_size
        return sizes


@dataclass(frozen=True, slots=True, eq=False)
class CacheStudy:
    """The hits of one log at one size, without a limit, and at every size.

    ``result`` is the cache asked for; ``ceiling`` the hit tokens of each request without a limit; ``queried``
    the tokens it asked for; ``curve`` an LRU cache of every size. All count only the requests that are
    measured; arrays are in replay order.
    """

    result: ReplayResult
    ceiling: NDArray[np.int64]
    queried: NDArray[np.int64]
    curve: HitCurve

    def hits(self, rows: NDArray[np.bool_]) -> tuple[int, int]:
        """Return hit and queried tokens of some requests in the cache asked for."""
        return int(self.result.hit_tokens[rows].sum()), int(self.result.queried_tokens[rows].sum())

    def ceiling_tokens(self, rows: NDArray[np.bool_]) -> int:
        """Hit tokens of some requests in an unlimited cache."""
        return int(self.ceiling[rows].sum())

    def per_request(self, owner: NDArray[np.int64], requests: int) -> CacheStudy:
        """Sum the lookups of each request; ``owner`` says whose each lookup is."""

        def summed(column: NDArray[np.int64]) -> NDArray[np.int64]:
            # Weights are floats in numpy; whole tokens below 2**53 stay exact.
            return np.rint(np.bincount(owner, weights=column, minlength=requests)).astype(np.int64)

        result = replace(
            self.result,
            queried_tokens=summed(self.result.queried_tokens),
            hit_tokens=summed(self.result.hit_tokens),
            refused=summed(self.result.refused.astype(np.int64)) > 0,
        )
        return CacheStudy(result, summed(self.ceiling), summed(self.queried), self.curve)

    def ceiling_rate(self, rows: NDArray[np.bool_]) -> float | None:
        """Hit rate (0..1) of some requests in an unlimited cache."""
        return share(self.ceiling_tokens(rows), int(self.queried[rows].sum()))


def study_cache(prompts: Prompts, spec: CacheSpec, measure_from: float = 0.0) -> CacheStudy:
    """Replay ``prompts`` one at a time through ``spec`` and work out ceiling and curve.

    Requests before the share ``measure_from`` (0..1) of the log fill the cache but are not counted.
    """
    measured = np.arange(len(prompts.tokens)) >= int(len(prompts.tokens) * measure_from)
    lookups, block_tokens = prompts.lookups(spec), prompts.block_tokens(spec)
    distances = stack_distances(prompts.ids, prompts.offsets, lookups)
    ceiling = _hit_tokens(distances, block_tokens, prompts.offsets) * measured
    counted = block_tokens
    if not measured.all():
        counted = np.where(np.repeat(measured, np.diff(prompts.offsets)), block_tokens, 0)
    unique = int(prompts.ids.max()) + 1 if len(prompts.ids) else 0
    return CacheStudy(
        result=_measured(replay_prompts(prompts, spec, ceiling), measured),
        ceiling=ceiling,
        queried=prompts.tokens * (measured & ~prompts.skip_lookup),
        curve=HitCurve.from_distances(distances, counted, unique),
    )


def replay_prompts(prompts: Prompts, spec: CacheSpec, unlimited: NDArray[np.int64]) -> ReplayResult:
    """Return what the cache of ``spec`` hits, one request at a time; ``unlimited``: hit tokens without a limit."""
    refused = np.zeros(len(prompts.tokens), dtype=np.bool_)
    evictions = 0
    hits = unlimited
    if spec.capacity_blocks is not None and spec.rules == "trace":
        blocks, evictions = lru_hits(
            prompts.ids, prompts.offsets, prompts.lookups(spec), spec.capacity_blocks
        )
        hits = _leading(blocks, prompts, spec)
    elif spec.capacity_blocks is not None:
        work, scheduler = _one_token_each(prompts), SchedulerSpec()
        simulation = simulate(work, without_needless_blocks(work, spec, scheduler), scheduler)
        hits, evictions, refused = simulation.hit_tokens, simulation.evictions, simulation.refused
    queried = np.where(refused | prompts.skip_lookup, 0, prompts.tokens)
    return ReplayResult("simulator", spec, "cold", queried, np.where(refused, 0, hits), refused, evictions)


def unlimited_hits(prompts: Prompts, spec: CacheSpec) -> NDArray[np.int64]:
    """Return the hit tokens of each prompt where nothing is ever evicted; much cheaper than the whole curve."""
    blocks = _seen_before(prompts.ids, prompts.offsets, prompts.lookups(spec))
    return _leading(blocks, prompts, spec)


@kernel
def _seen_before(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], lookups: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many leading blocks of each prompt an earlier one has. Dense ids are numbered at first sight."""
    known = -1
    hits = np.zeros(len(offsets) - 1, dtype=np.int64)
    for request in range(len(offsets) - 1):
        start = offsets[request]
        while hits[request] < lookups[request] and ids[start + hits[request]] <= known:
            hits[request] += 1
        for place in range(start, offsets[request + 1]):
            known = max(known, ids[place])
    return hits


def trace_hits(tokens: NDArray[np.int64], keys: Ragged, spec: CacheSpec) -> ReplayResult:
    """Replay prompts of ``tokens`` tokens and block ``keys`` by trace rules, one at a time."""
    everyone = np.zeros(len(tokens), dtype=np.bool_)
    prompts = Prompts(tokens, Interner().intern(keys.values), keys.offsets, skip_lookup=everyone)
    return study_cache(prompts, spec).result


def _one_token_each(prompts: Prompts) -> Workload:
    count = len(prompts.tokens)
    return Workload(
        prompt_tokens=prompts.tokens,
        output_tokens=np.ones(count, dtype=np.int64),
        block_ids=prompts.ids.astype(np.int64),
        offsets=prompts.offsets,
        arrival_us=np.zeros(count, dtype=np.int64),
        priority=np.zeros(count, dtype=np.int64),
        skip_lookup=prompts.skip_lookup,
    )


def _leading(blocks: NDArray[np.int64], prompts: Prompts, spec: CacheSpec) -> NDArray[np.int64]:
    """Return the tokens of each prompt's first ``blocks``."""
    before = offsets_of(prompts.block_tokens(spec))
    starts = prompts.offsets[:-1]
    tokens: NDArray[np.int64] = before[starts + blocks] - before[starts]
    return tokens


@kernel
def _hit_tokens(
    distances: NDArray[np.int32], block_tokens: NDArray[np.int32], offsets: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the tokens of each request's blocks that some cache hits."""
    hits = np.zeros(len(offsets) - 1, dtype=np.int64)
    for request in range(len(offsets) - 1):
        for place in range(offsets[request], offsets[request + 1]):
            if distances[place] > 0:
                hits[request] += block_tokens[place]
    return hits


def _measured(result: ReplayResult, measured: NDArray[np.bool_]) -> ReplayResult:
    return replace(
        result,
        queried_tokens=result.queried_tokens * measured,
        hit_tokens=result.hit_tokens * measured,
        refused=result.refused & measured,
    )
