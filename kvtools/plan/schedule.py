"""What a scheduling policy would have done with the requests of a log: the exact simulator, with a clock and guards.

Time passes in engine steps; a request that arrives during one is seen when it ends, as in the engine. Nothing is
known of the network, of tokenising, or of what clients do besides coming again after a 503.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import state as at
from kvtools.cache.preparing import prepare
from kvtools.cache.workload import Split, StepTime
from kvtools.heat.priority import COLD, HOT, vllm_priority
from kvtools.plan import schedule_state as of
from kvtools.plan.schedule_loop import run_schedule
from kvtools.plan.schedule_whatif import WhatIf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.cache.preparing import Prepared
    from kvtools.cache.workload import Workload
    from kvtools.model import CacheSpec, SchedulerSpec
    from kvtools.plan.schedule_policies import Policy, PolicyLimits
    from kvtools.plan.schedule_state import Clock


NOTHING = WhatIf()
_NEVER = 1_000
"""A line of KV usage in permille that is never passed."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """What became of each request; arrays have one entry per request, times in µs of the log's clock.

    ``first_us`` and ``end_us`` are -1 where there was no first token or no end; ``outcome`` is one of
    ``schedule_state``'s; ``too_large`` requests can never run under these settings and are in no other count.
    ``hit_tokens`` at the first admission, ``queried_tokens`` of requests that were admitted. ``interruptions`` per
    request: how often it was preempted; ``moved``: a CPU served it; ``tier_hit_tokens``: what a second tier brought
    back, besides the hits. ``usage_us`` [1001]: µs by KV usage in permille; ``refusals``: 503s sent.
    ``present_us``: the sum over time of requests present. ``finish_order``: request numbers.
    """

    policy: Policy
    arrival_us: NDArray[np.int64]
    first_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    outcome: NDArray[np.int64]
    too_large: NDArray[np.bool_]
    hit_tokens: NDArray[np.int64]
    queried_tokens: NDArray[np.int64]
    tokens: NDArray[np.int64]
    interruptions: NDArray[np.int64]
    promoted: NDArray[np.bool_]
    shortened: NDArray[np.bool_]
    moved: NDArray[np.bool_]
    tier_hit_tokens: NDArray[np.int64]
    admitted_step: NDArray[np.int64]
    finish_order: NDArray[np.int64]
    usage_us: NDArray[np.int64]
    present_us: int
    busy_us: int
    most_blocks: int
    refusals: int
    steps: int
    computed_tokens: int

    def usage_quantile(self, quantile: float) -> float:
        """Return the KV usage (0..1, whole permille) that is not exceeded for ``quantile`` of the time."""
        total = int(self.usage_us.sum())
        if total == 0:
            return 0.0
        return int(np.argmax(np.cumsum(self.usage_us) >= quantile * total)) / (of.USAGE_BINS - 1)


def schedule(
    work: Workload,
    hot: NDArray[np.bool_],
    cache: CacheSpec,
    scheduler: SchedulerSpec,
    clock: Clock,
    policy: Policy,
    limits: PolicyLimits,
    what_if: WhatIf = NOTHING,
) -> Schedule:
    """Run ``work`` under ``policy`` and return what became of each request; equal arguments give equal results.

    ``scheduler`` gives the engine's own settings; arrivals are the log's and steps are planned one after the other,
    whatever it says. Under ``priority``, hot and cold requests have the numbers of ``kvtools.heat.priority``.

    Raises:
        UsageError, ValueError: as ``kvtools.cache.simulate``.
    """
    if policy.by_priority:
        numbers = np.where(hot, vllm_priority(HOT), vllm_priority(COLD)).astype(np.int64)
        work = replace(work, priority=numbers)
    spec = replace(
        scheduler,
        arrivals="log",
        async_scheduling=False,
        policy="priority" if policy.by_priority else "fcfs",
    )
    work, block_tokens = what_if.blocks(work, hot, cache.block_size)
    clock = what_if.clock(clock, int(work.arrival_us.min(initial=np.iinfo(np.int64).max)))
    split = Split(~hot if policy.lanes else None, block_tokens, what_if.tier_blocks)
    ready = prepare(work, cache, spec, StepTime(clock.step_us, clock.token_ns, max(clock.step_us, 1)), split)
    order, refused = _set_lanes(ready, policy, cache)
    run = _run(work, order, ready, limits)
    switches = ready.limits._replace(
        first_lane_first=policy.hot_first,
        spare_first_lane=policy.spare_hot,
        drop_second_lane=policy.drop_cold,
    )
    guards = policy.guards
    if cache.capacity_blocks is None:
        # The blocks that stand in for memory without limit are as many as this log can use: their usage says nothing.
        guards = guards._replace(memory=_NEVER, release=_NEVER)
    run_schedule(ready.engine, switches, clock, guards, run, order)
    return _schedule(work, policy, ready, run, refused)


def _set_lanes(
    ready: Prepared, policy: Policy, cache: CacheSpec
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Set the limits of the lanes; return who can run, in order of arrival, and who never can."""
    state, requests = ready.engine.state, ready.engine.requests
    for place, seats in enumerate((policy.hot_seqs, policy.cold_seqs)):
        if policy.lanes and seats is not None:
            state[at.LANE_SEATS + place] = seats
    if cache.capacity_blocks is None or policy.cold_share_of_blocks >= 1:
        return ready.order, ready.refused
    room = int(policy.cold_share_of_blocks * cache.capacity_blocks)
    state[at.LANE_ROOM + of.COLD_LANE] = room
    need = -(-(requests[:, at.TOTAL] - 1) // requests[:, at.BLOCK])
    refused = ready.refused | ((requests[:, at.LANE] == of.COLD_LANE) & (need > room))
    return ready.order[~refused[ready.order]], refused


def _run(work: Workload, order: NDArray[np.int32], ready: Prepared, limits: PolicyLimits) -> of.Run:
    n = len(work.prompt_tokens)
    fate = np.zeros((n, of.FATE_COLUMNS), np.int64)
    fate[:, of.ARRIVED_US] = ready.arrival_us
    fate[:, [of.ENTERED_US, of.FIRST_US, of.END_US]] = -1
    fate[:, of.PROMPT] = work.prompt_tokens
    chance = np.random.default_rng(limits.seed)
    low, high = (round(second * 1e6) for second in limits.retry_after_s)
    dials = np.zeros(of.DIAL_ENTRIES, np.int64)
    if order.size:
        ready.engine.state[at.NOW] = ready.arrival_us[order[0]]
    return of.Run(
        fate=fate,
        delay_us=chance.integers(low, high + 1, (n, max(limits.retries, 1)), dtype=np.int64),
        due=np.zeros(n, np.int64),
        retry=np.empty((1, n), np.int32),
        timer=np.empty(n, np.int32),
        dials=dials,
    )


def _schedule(
    work: Workload, policy: Policy, ready: Prepared, run: of.Run, too_large: NDArray[np.bool_]
) -> Schedule:
    requests, fate, dials = ready.engine.requests, run.fate, run.dials
    admitted = requests[:, at.ADMITTED] >= 0
    places = np.where(requests[:, at.FINISH_PLACE] < 0, np.iinfo(np.int64).max, requests[:, at.FINISH_PLACE])
    order = np.argsort(places, kind="stable")
    return Schedule(
        policy=policy,
        arrival_us=ready.arrival_us,
        first_us=fate[:, of.FIRST_US].copy(),
        end_us=fate[:, of.END_US].copy(),
        outcome=fate[:, of.OUTCOME].copy(),
        too_large=too_large,
        hit_tokens=np.where(admitted & ~work.skip_lookup, requests[:, at.HIT], 0),
        queried_tokens=np.where(admitted & ~work.skip_lookup, work.prompt_tokens, 0),
        tokens=requests[:, at.TOKENS].copy(),
        interruptions=requests[:, at.PREEMPTIONS].copy(),
        promoted=fate[:, of.PROMOTED] > 0,
        shortened=fate[:, of.SHORTENED] > 0,
        moved=fate[:, of.MOVED] > 0,
        tier_hit_tokens=np.where(admitted & ~work.skip_lookup, requests[:, at.TIER_HIT], 0),
        admitted_step=requests[:, at.ADMITTED].copy(),
        finish_order=order[: int((requests[:, at.FINISH_PLACE] >= 0).sum())],
        usage_us=dials[of.USAGE :].copy(),
        present_us=int(dials[of.PRESENT_US]),
        busy_us=int(dials[of.BUSY_US]),
        most_blocks=int(dials[of.USED_MOST]),
        refusals=int(dials[of.REFUSALS]),
        steps=int(ready.engine.state[at.STEP]),
        computed_tokens=int(ready.engine.state[at.SCHEDULED_TOKENS]),
    )
