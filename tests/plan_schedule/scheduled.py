"""Workloads for the schedule simulation, and the exact simulator beside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from kvtools.cache import Workload
from kvtools.cache.scheduler import Simulation, simulate
from kvtools.cache.workload import StepTime
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import Schedule, schedule
from kvtools.plan.schedule_policies import Policy, PolicyLimits, policy_of
from kvtools.plan.schedule_state import Clock

BLOCK = 4
CLOCK = Clock(step_us=1000, token_ns=50_000, context_ns=0, overlap=False)
"""A step takes 1 ms and 50 µs for each token that it computes."""


def mixed(seed: int, requests: int = 60, span_us: int = 200_000) -> tuple[Workload, NDArray[np.bool_]]:
    """Return short hot requests that share heads, and long cold ones of which each is its own."""
    chance = np.random.default_rng(seed)
    hot = chance.random(requests) < 0.7
    heads = chance.integers(1, 8, 3)
    rows: list[list[int]] = []
    prompts, outputs = [], []
    fresh = 1000
    for is_hot in hot.tolist():
        family = int(chance.integers(0, 3))
        head = list(range(100 * family, 100 * family + int(heads[family]))) if is_hot else []
        own = int(chance.integers(1, 5 if is_hot else 20))
        outputs.append(int(chance.integers(1, 13)))
        prompts.append((len(head) + own) * BLOCK - int(chance.integers(0, BLOCK)))
        full = (prompts[-1] + outputs[-1] - 1) // BLOCK
        rows.append((head + list(range(fresh, fresh + full)))[:full])
        fresh += full
    _, ids = np.unique(np.concatenate(rows), return_inverse=True)
    work = Workload(
        prompt_tokens=np.array(prompts, np.int64),
        output_tokens=np.array(outputs, np.int64),
        block_ids=ids.astype(np.int64),
        offsets=np.array([0, *accumulate(map(len, rows))], np.int64),
        arrival_us=np.sort(chance.integers(0, span_us, requests)).astype(np.int64),
        priority=np.zeros(requests, np.int64),
        skip_lookup=chance.random(requests) < 0.05,
    )
    return work, hot


def engine(seed: int) -> tuple[CacheSpec, SchedulerSpec]:
    """Return a cache and a scheduler that are tight in one way or another."""
    chance = np.random.default_rng(seed + 1_000_000)
    cache = CacheSpec(BLOCK, int(chance.integers(30, 90)))
    scheduler = SchedulerSpec(
        arrivals="log",
        max_num_seqs=int(chance.integers(1, 12)),
        max_num_batched_tokens=int(chance.integers(8, 80)),
        long_prefill_token_threshold=int(chance.integers(0, 2)) * 7,
        watermark_share=0.02 * int(chance.integers(0, 2)),
    )
    return cache, scheduler


def run(
    seed: int, policy: str | Policy = "fcfs", limits: PolicyLimits | None = None, *, draw: int = 0
) -> Schedule:
    """Return the seed's requests on the seed's engine, under a policy."""
    work, hot = mixed(seed)
    cache, scheduler = engine(seed)
    limits = replace(limits or PolicyLimits(), seed=draw)
    chosen = policy if isinstance(policy, Policy) else policy_of(policy, limits, scheduler.max_num_seqs)
    return schedule(work, hot, cache, scheduler, CLOCK, chosen, limits)


def exact(seed: int, priority: NDArray[np.int64] | None = None) -> Simulation:
    """Return what the exact simulator of vLLM's scheduler makes of the same."""
    work, _ = mixed(seed)
    cache, scheduler = engine(seed)
    if priority is not None:
        work = Workload(**{name: getattr(work, name) for name in work.__slots__} | {"priority": priority})
        scheduler = SchedulerSpec(
            **{name: getattr(scheduler, name) for name in scheduler.__slots__} | {"policy": "priority"}
        )
    return simulate(work, cache, scheduler, StepTime(CLOCK.step_us, CLOCK.token_ns, CLOCK.step_us))
