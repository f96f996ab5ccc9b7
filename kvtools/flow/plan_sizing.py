"""``plan sizing``: how much KV memory which part of the hits takes, and what a better order or a second tier adds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools import __version__
from kvtools.cache import Interner, Prompts, replay_prompts, unlimited_hits
from kvtools.cache.memory import kv_size
from kvtools.errors import UsageError
from kvtools.flow.intake import Intake, IntakeOptions, PathLike, Watcher, take_in
from kvtools.flow.plan_fleet import fleet_of
from kvtools.flow.plan_intake import UNKNOWN, plan_cache, plan_log, plan_settings
from kvtools.heat.log import HeatLog
from kvtools.model import CacheSpec, share
from kvtools.plan.optimal import optimal_hits
from kvtools.plan.sizing import (
    SHARES,
    SizeSearch,
    largest_prompt_blocks,
    lru_curve,
    second_tier,
    window_bounds,
    working_sets,
)
from kvtools.plan.sizing_formulas import formulas
from kvtools.report.coverage import coverage
from kvtools.report.model import SCHEMA_VERSION, Hits
from kvtools.report.plan_sizing import (
    ArticleFormula,
    Current,
    KvBlock,
    Offload,
    Sizing,
    SizingReport,
    Working,
    WorkingWindow,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from kvtools.cache.curve import HitCurve
    from kvtools.flow.plan_intake import PlanLog, PlannedRequests
    from kvtools.flow.sizing import CacheMemory
    from kvtools.plan.sizing import Need

TIERS = (1, 2, 4, 8)
"""Sizes of a second tier that are tried where none is asked for, in sizes of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingOptions(IntakeOptions):
    """What ``plan sizing`` can be told besides how to read.

    ``capacity_blocks`` or ``memory`` is the cache there is; ``model_config`` and ``kv_dtype`` alone say how large a
    block is. ``offload_blocks``: sizes of a second tier (default: 1, 2, 4 and 8 times the first).
    """

    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    model_config: Path | None = None
    kv_dtype: str = "auto"
    offload_blocks: tuple[int, ...] = ()
    classes: bool = True

    def __post_init__(self) -> None:
        if self.offload_blocks and self.capacity_blocks is None and self.memory is None:
            raise UsageError(
                "--offload-blocks is a tier behind a cache of known size: give --capacity-blocks or --kv-memory."
            )
        if self.offload_blocks and min(self.offload_blocks) < 1:
            raise UsageError(f"--offload-blocks {min(self.offload_blocks)}: at least 1.")
        CacheSpec(1 if self.block_size is None else self.block_size, self.capacity_blocks)

    def block(self, block_size: int) -> KvBlock | None:
        """Return what a block of ``block_size`` tokens takes, ``None`` without a model's config."""
        config, dtype = self.model_config, self.kv_dtype
        if self.memory is not None:
            config, dtype = self.memory.model_config, self.memory.kv_dtype
        if config is None:
            return None
        size = kv_size(config, dtype)
        return KvBlock(
            attention=size.model,
            bytes_per_token=size.bytes_per_token,
            bytes_per_block=size.bytes_per_token * block_size,
        )


def plan_sizing(
    paths: Sequence[PathLike] | PathLike,
    options: SizingOptions | None = None,
    watcher: Watcher | None = None,
) -> SizingReport:
    """Return how much cache the hits of a log take.

    Raises:
        InputError: the log or the model's config cannot be read, or the model has what kvtools does not model.
        UsageError: the options contradict each other.
    """
    chosen = options or SizingOptions()
    chosen.block(1)  # a config that cannot be used is told before the log is read
    return take_in(paths, chosen, watcher or Watcher(), lambda intake: _plan(intake, chosen))


@dataclass(frozen=True, slots=True, eq=False)
class _Study:
    """The lookups in replay order, the cache asked for, an LRU cache of every size, and what a block takes."""

    prompts: Prompts
    owner: NDArray[np.int64]
    spec: CacheSpec
    curve: HitCurve
    block: KvBlock | None

    @property
    def queried(self) -> int:
        return int(self.prompts.tokens[~self.prompts.skip_lookup].sum())

    def rate(self, hit_tokens: int) -> float | None:
        return share(hit_tokens, self.queried)

    def gib(self, blocks: int) -> float | None:
        return None if self.block is None else self.block.gib(blocks)


def _plan(intake: Intake, options: SizingOptions) -> SizingReport:
    heat = HeatLog() if options.classes else None
    log, planned, spec = plan_log(intake, heat=heat)
    memory = options.memory
    blocks = memory.capacity_blocks(spec.block_size) if memory else options.capacity_blocks
    prompts, owner = planned.lookups()
    study = _Study(
        prompts,
        owner,
        replace(spec, capacity_blocks=blocks),
        lru_curve(prompts, spec),
        options.block(spec.block_size),
    )
    intake.watcher.begin(len(SHARES) + 1)
    search = SizeSearch(prompts, spec, study.curve, intake.watcher.advance)
    needs = [search.smallest(part) for part in SHARES] if study.curve.at(None) else []
    sizes = [_sized(study, need) for need in needs]
    fleet = fleet_of(planned, spec, blocks, heat)
    intake.watcher.advance(1)
    rules = [
        ArticleFormula(
            name=one.name,
            rule=one.rule,
            low=one.low,
            high=one.high,
            measured=one.measured,
            unit=one.unit,
            why=one.why,
        )
        for one in formulas(fleet)
    ]
    return _report(intake, (log, planned), study, sizes, (options, rules))


def _sized(study: _Study, need: Need) -> Sizing:
    return Sizing(
        share_of_ceiling=need.share,
        capacity_blocks=need.capacity_blocks,
        gib=study.gib(need.capacity_blocks),
        hit_tokens=need.hit_tokens,
        hit_rate=study.rate(need.hit_tokens),
        optimal_hit_tokens=need.optimal_hit_tokens,
        optimal_hit_rate=study.rate(need.optimal_hit_tokens),
    )


def _report(
    intake: Intake,
    taken: tuple[PlanLog, PlannedRequests],
    study: _Study,
    sizes: list[Sizing],
    asked: tuple[SizingOptions, list[ArticleFormula]],
) -> SizingReport:
    (log, planned), (options, rules), spec = taken, asked, study.spec
    ceiling = study.curve.at(None)
    return SizingReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=intake.inputs(),
        settings=plan_settings(intake, planned.order),
        coverage=coverage(log.counts, intake.log.skipped),
        requests=len(planned.session_hash),
        prompt_tokens=int(planned.requests.prompt_tokens.sum()),
        cache=plan_cache(spec),
        kv=study.block,
        ceiling=Hits(hit_tokens=ceiling, hit_rate=study.rate(ceiling)),
        unique_blocks=study.curve.unique_blocks,
        largest_prompt_blocks=largest_prompt_blocks(study.prompts, spec),
        mean_prompt_blocks=float(np.mean(-(-planned.requests.prompt_tokens // spec.block_size))),
        current=_current(study),
        sizing=sizes,
        working_set=_working(planned, study),
        offload=_offload(study, options.offload_blocks),
        formulas=rules,
    )


def _current(study: _Study) -> Current | None:
    spec = study.spec
    if spec.capacity_blocks is None:
        return None
    result = replay_prompts(study.prompts, spec, unlimited_hits(study.prompts, spec))
    best = int(optimal_hits(study.prompts, spec).sum())
    queried, hits = result.total_queried_tokens, result.total_hit_tokens
    return Current(
        capacity_blocks=spec.capacity_blocks,
        gib=study.gib(spec.capacity_blocks),
        hit_tokens=hits,
        hit_rate=share(hits, queried),
        optimal_hit_tokens=best,
        optimal_hit_rate=share(best, queried),
        gap=share(best - hits, queried),
        refused_requests=int(result.refused.sum()),
    )


def _working(planned: PlannedRequests, study: _Study) -> Working:
    arrival = planned.requests.arrival_us
    timed = None if (arrival == UNKNOWN).any() else arrival
    requests = planned.requests
    once = Prompts(
        requests.prompt_tokens,
        Interner().intern(requests.keys.values),
        requests.keys.offsets,
        requests.skip_lookup,
    )
    found, peak = working_sets(once, study.spec, window_bounds(timed, len(arrival)))
    windows = [
        WorkingWindow(
            from_us=None if timed is None else int(arrival[one.first]),
            until_us=None if timed is None else int(arrival[one.stop - 1]),
            requests=one.stop - one.first,
            touched_blocks=one.touched_blocks,
            new_blocks=one.new_blocks,
            live_blocks=one.live_blocks,
        )
        for one in found
    ]
    return Working(peak_live_blocks=peak, peak_live_gib=study.gib(peak), windows=windows)


def _offload(study: _Study, asked: tuple[int, ...]) -> list[Offload]:
    capacity = study.spec.capacity_blocks
    if capacity is None:
        return []
    sizes = sorted(set(asked)) or [times * capacity for times in TIERS]
    return [
        Offload(
            blocks=tier.blocks,
            gib=None if study.block is None else tier.blocks * study.block.bytes_per_block / 2**30,
            copies_hit_tokens=tier.copies_hit_tokens,
            copies_hit_rate=study.rate(tier.copies_hit_tokens),
            victims_hit_tokens=tier.victims_hit_tokens,
            victims_hit_rate=study.rate(tier.victims_hit_tokens),
        )
        for tier in second_tier(study.curve, capacity, sizes)
    ]
