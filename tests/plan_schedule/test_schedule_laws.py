"""Laws of every policy, and what makes a policy equal to vLLM's own scheduler."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduled import BLOCK, CLOCK, engine, exact, mixed, run

from kvtools.cache import Workload
from kvtools.heat.priority import COLD, HOT, vllm_priority
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import Schedule, schedule
from kvtools.plan.schedule_policies import POLICIES, Policy, PolicyLimits, policy_of
from kvtools.plan.schedule_state import FINISHED, KILLED, REFUSED, Clock

SEEDS = st.integers(0, 10_000)
TIGHT = PolicyLimits(
    hot_seqs=3,
    cold_seqs=1,
    cold_timeout_s=0.05,
    memory_line=0.5,
    slow_s=0.02,
    check_s=0.01,
    cold_output_tokens=3,
    dynamic_timeout_s=0.05,
    cold_step_tokens=16,
    least_step_tokens=4,
    hot_reserve=0.3,
    retries=2,
    retry_after_s=(0.01, 0.02),
)
"""Limits that every guard meets within the fraction of a second that these requests take."""
FEW = settings(max_examples=25, deadline=None)


@pytest.mark.parametrize("policy", POLICIES)
@FEW
@given(seed=SEEDS)
def test_no_request_is_lost(policy: str, seed: int) -> None:
    for limits in (PolicyLimits(), TIGHT, replace(TIGHT, timeout_ends=True)):
        done = run(seed, policy, limits)
        ended = np.isin(done.outcome, (FINISHED, REFUSED, KILLED))
        assert (ended ^ done.too_large).all()
        complete = done.outcome == FINISHED
        work, _ = mixed(seed)
        # A finished request has all its tokens, unless its answer was cut, and then at least one.
        wanted = work.prompt_tokens + work.output_tokens
        assert (done.tokens[complete & ~done.shortened] == wanted[complete & ~done.shortened]).all()
        assert (done.tokens[complete] > work.prompt_tokens[complete]).all()
        assert (done.first_us[complete] > done.arrival_us[complete]).all()
        assert (done.end_us[complete] >= done.first_us[complete]).all()
        assert (done.end_us[ended] >= done.arrival_us[ended]).all()


@FEW
@given(seed=SEEDS)
def test_first_come_first_served_is_the_exact_simulator(seed: int) -> None:
    ours, theirs = run(seed), exact(seed)
    assert (ours.too_large == theirs.refused).all()
    assert (ours.hit_tokens == theirs.hit_tokens * (theirs.queried_tokens > 0)).all()
    assert (ours.admitted_step == theirs.admitted_step).all()
    assert (ours.finish_order == theirs.finish_order).all()
    assert (ours.interruptions == theirs.preemptions).all()
    assert (ours.steps, ours.computed_tokens) == (theirs.steps, theirs.scheduled_tokens)


@FEW
@given(seed=SEEDS)
def test_priority_is_the_exact_simulator_with_the_numbers_of_the_gateway(seed: int) -> None:
    _, hot = mixed(seed)
    numbers = np.where(hot, vllm_priority(HOT), vllm_priority(COLD)).astype(np.int64)
    ours, theirs = run(seed, "priority"), exact(seed, numbers)
    assert (ours.admitted_step == theirs.admitted_step).all()
    assert (ours.finish_order == theirs.finish_order).all()
    assert (ours.interruptions == theirs.preemptions).all()


def _same(one: Schedule, other: Schedule) -> None:
    for name in ("outcome", "first_us", "end_us", "hit_tokens", "interruptions", "finish_order", "usage_us"):
        assert (getattr(one, name) == getattr(other, name)).all(), name
    assert one.steps == other.steps


@FEW
@given(seed=SEEDS)
def test_a_split_without_limits_is_first_come_first_served(seed: int) -> None:
    _same(run(seed, Policy("split", lanes=True)), run(seed))


@FEW
@given(seed=SEEDS)
def test_a_pool_without_a_reserve_is_no_pool(seed: int) -> None:
    pooled = policy_of("partitioned", PolicyLimits(hot_reserve=0.0), 8)
    _same(run(seed, replace(pooled, drop_cold=False)), run(seed))


@FEW
@given(seed=SEEDS)
def test_a_pool_that_is_all_hot_is_no_pool_where_all_is_hot(seed: int) -> None:
    work, _ = mixed(seed)
    cache, scheduler = engine(seed)
    hot = np.ones(len(work.prompt_tokens), dtype=np.bool_)
    limits = PolicyLimits(hot_reserve=1.0)
    both = [
        schedule(work, hot, cache, scheduler, CLOCK, policy_of(name, limits, 8), limits)
        for name in ("partitioned", "fcfs")
    ]
    _same(*both)
    cold = schedule(work, ~hot, cache, scheduler, CLOCK, policy_of("partitioned", limits, 8), limits)
    assert cold.too_large.all()


@FEW
@given(seed=SEEDS)
def test_one_class_under_hotcold_is_first_come_first_served(seed: int) -> None:
    work, _ = mixed(seed)
    cache, scheduler = engine(seed)
    hot = np.ones(len(work.prompt_tokens), dtype=np.bool_)
    limits = PolicyLimits()
    policies = [policy_of(name, limits, scheduler.max_num_seqs) for name in ("hotcold", "fcfs")]
    _same(*(schedule(work, hot, cache, scheduler, CLOCK, policy, limits) for policy in policies))


@pytest.mark.parametrize("policy", POLICIES)
@FEW
@given(seed=SEEDS)
def test_requests_present_over_time_are_the_sum_of_their_stays(policy: str, seed: int) -> None:
    """Little's law: the time integral of the requests present equals the sum of the times that they stay."""
    done = run(seed, policy, replace(TIGHT, retries=2))
    stays = (done.end_us - done.arrival_us)[~done.too_large]
    assert done.present_us == stays.sum()


@pytest.mark.parametrize("policy", POLICIES)
@FEW
@given(seed=SEEDS)
def test_work_is_conserved(policy: str, seed: int) -> None:
    """Without interruptions, cuts and kills, what was computed is what was asked for less what was hit."""
    done = run(seed, policy)
    if done.interruptions.any() or not np.isin(done.outcome[~done.too_large], (FINISHED,)).all():
        return
    work, _ = mixed(seed)
    wanted = (work.prompt_tokens + work.output_tokens - 1)[~done.too_large].sum()
    assert done.computed_tokens == wanted - done.hit_tokens.sum()
    assert done.busy_us >= done.computed_tokens * CLOCK.token_ns // 1000


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_seeds_give_equal_results(policy: str) -> None:
    _same(run(5, policy, TIGHT, draw=3), run(5, policy, TIGHT, draw=3))


def test_another_seed_lets_clients_come_again_at_another_time() -> None:
    ends = [run(5, "breaker", TIGHT, draw=seed).end_us for seed in (1, 2)]
    assert run(5, "breaker", TIGHT).refusals > 0
    assert (ends[0] != ends[1]).any()


def test_waiting_times_are_those_of_the_queue_that_theory_knows() -> None:
    """One seat, one step a request, arrivals at random: the M/D/1 queue of Pollaczek and Khinchine.

    A request of one token takes one step of S = 1 ms. At a load of r it waits r S / (2 (1 - r)) in the mean.
    """
    requests, load, step_us = 100_000, 0.7, 1000
    chance = np.random.default_rng(1)
    arrival = np.cumsum(chance.exponential(step_us / load, requests))
    work = Workload(
        prompt_tokens=np.ones(requests, np.int64),
        output_tokens=np.ones(requests, np.int64),
        block_ids=np.empty(0, np.int64),
        offsets=np.zeros(requests + 1, np.int64),
        arrival_us=arrival.astype(np.int64),
        priority=np.zeros(requests, np.int64),
        skip_lookup=np.zeros(requests, np.bool_),
    )
    hot = np.ones(requests, np.bool_)
    limits = PolicyLimits()
    done = schedule(
        work,
        hot,
        CacheSpec(BLOCK, 8),
        SchedulerSpec(max_num_seqs=1),
        Clock(step_us, 0, 0, overlap=False),
        policy_of("fcfs", limits, 1),
        limits,
    )
    waited = (done.end_us - done.arrival_us).mean() - step_us
    assert waited == pytest.approx(load * step_us / (2 * (1 - load)), rel=0.03)
    assert done.busy_us == requests * step_us
