"""The hot/cold scheduler, run by the oracle with a fake model, against ``plan schedule --policy hotcold``, at random.

Needs what ``test_scheduler_oracle.py`` needs. Steps of both take one unit of time, those in which nothing runs too.
"""

from __future__ import annotations

import importlib.util
import os
import random
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from workloads import Case, Request, random_case, workload

from kvtools.plan.schedule import Schedule, schedule
from kvtools.plan.schedule_policies import PolicyLimits, policy_of
from kvtools.plan.schedule_state import KILLED, Clock

ORACLE = Path(__file__).resolve().parents[3] / "shared/vllm/oracle.py"
CASES = int(os.environ.get("KVTOOLS_ORACLE_CASES", "100"))
FIRST_SEED = int(os.environ.get("KVTOOLS_ORACLE_SEED", "0"))
HOT, COLD = 0, 3
STEP = Clock(step_us=1, token_ns=0, context_ns=0, overlap=False)

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed in this environment", allow_module_level=True)
if not ORACLE.is_file():
    pytest.skip("no shared/vllm/oracle.py beside the project", allow_module_level=True)


@pytest.fixture(scope="module")
def oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vllm_oracle_hotcold", ORACLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _settings_of_each_case() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def _case(seed: int) -> tuple[Case, PolicyLimits]:
    """Return a random case, hot or cold by lot, with arrivals of which no two are equal, and limits."""
    chance = random.Random(seed)
    case = random_case(seed)
    span = max(len(case.requests), chance.choice([20, 100, 400]))
    moments = sorted(chance.sample(range(span), len(case.requests)))
    share = chance.choice([0.2, 0.5, 0.8])
    requests = [
        replace(request, arrival=moment, priority=COLD if chance.random() < share else HOT, skip_lookup=False)
        for request, moment in zip(case.requests, moments, strict=True)
    ]
    scheduler = replace(case.scheduler, arrivals="log", async_scheduling=False, policy="priority")
    limits = PolicyLimits(
        hot_seqs=chance.choice([None, None, 1, 3]),
        cold_seqs=chance.choice([None, 1, 2, 5]),
        cold_timeout_s=chance.choice([3, 20, 100, 10_000]) / 1e6,
        timeout_ends=chance.random() < 0.5,
    )
    return Case(seed, case.cache, scheduler, None, requests), limits


def _simulated(case: Case, limits: PolicyLimits) -> Schedule:
    work = workload(case.requests, case.cache.block_size)
    hot = np.array([request.priority == HOT for request in case.requests])
    policy = policy_of("hotcold", limits, case.scheduler.max_num_seqs)
    return schedule(work, hot, case.cache, case.scheduler, STEP, policy, limits)


class Seen:
    """What the scheduler had running: the most cold and hot requests at once, and those that were promoted."""

    def __init__(self) -> None:
        self.most = {False: 0, True: 0}
        self.promoted: set[int] = set()


def _scheduler_class(case: Case, seen: Seen, *, asynchronous: bool) -> type:
    """Return the scheduler with the oracle's clock, that looks at itself after each step."""
    import kvtools.vllm_plugin as plugin

    base: Any = plugin.AsyncHotColdScheduler if asynchronous else plugin.HotColdScheduler

    class Watched(base):
        now = 0.0
        entering: float | None = None

        def add_request(self, request: Any) -> None:
            self.now = max(self.now, request.arrival_time)
            self.entering = request.arrival_time
            super().add_request(request)
            self.entering = None

        def _now_s(self) -> float:
            return self.now if self.entering is None else self.entering

        def schedule(self, throttle_prefills: bool = False) -> Any:
            planned = super().schedule(throttle_prefills)
            self.now += 1
            for cold in (False, True):
                running = sum((request.priority >= COLD) == cold for request in self.running)
                seen.most[cold] = max(seen.most[cold], running)
            for name, request in self.requests.items():
                if request.priority != case.requests[int(name)].priority:
                    seen.promoted.add(int(name))
            return planned

    return Watched


def _driven(oracle: ModuleType, case: Case, limits: PolicyLimits, *, asynchronous: bool) -> tuple[Any, Seen]:
    os.environ["KVTOOLS_COLD_TIMEOUT_S"] = str(limits.cold_timeout_s * 1e6)
    os.environ["KVTOOLS_ON_TIMEOUT"] = "abort" if limits.timeout_ends else "promote"
    os.environ["KVTOOLS_COLD_LIMIT"] = "" if limits.cold_seqs is None else str(limits.cold_seqs)
    os.environ["KVTOOLS_HOT_LIMIT"] = "" if limits.hot_seqs is None else str(limits.hot_seqs)
    seen, settings = Seen(), case.scheduler
    assert case.cache.capacity_blocks is not None
    engine = oracle.VllmOracle(
        block_size=case.cache.block_size,
        num_gpu_blocks=case.cache.capacity_blocks + 1,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        policy="priority",
        long_prefill_token_threshold=settings.long_prefill_token_threshold,
        enable_chunked_prefill=settings.enable_chunked_prefill,
        scheduler_reserve_full_isl=settings.reserve_full_isl,
        watermark=settings.watermark_share,
        async_scheduling=asynchronous,
        scheduler_cls=_scheduler_class(case, seen, asynchronous=asynchronous),
    )
    return engine.run(
        [_asked(oracle, request) for request in case.requests], clock="step", max_steps=10**6
    ), seen


def _asked(oracle: ModuleType, request: Request) -> Any:
    return oracle.Req(
        prompt=request.prompt,
        out_len=len(request.output),
        output=request.output,
        arrival=float(request.arrival),
        cache_salt=request.salt,
        priority=request.priority,
    )


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CASES))
def test_the_real_scheduler_does_what_was_simulated(seed: int, oracle: ModuleType) -> None:
    case, limits = _case(seed)
    ours = _simulated(case, limits)
    theirs, seen = _driven(oracle, case, limits, asynchronous=False)
    killed = set(np.flatnonzero(ours.outcome == KILLED).tolist())
    whole = [place for place in theirs.finish_order if place not in killed]
    assert whole == [place for place in ours.finish_order.tolist() if place not in killed]
    assert sorted(theirs.finish_order) == list(range(len(case.requests)))
    assert seen.promoted == set(np.flatnonzero(ours.promoted).tolist())
    assert theirs.preemptions == ours.interruptions.tolist()
    assert [max(tokens, 0) for tokens in theirs.cached] == ours.hit_tokens.tolist()
    assert theirs.scheduled_tokens == ours.computed_tokens


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CASES))
@pytest.mark.parametrize("asynchronous", [False, True])
def test_limits_hold_in_every_step_and_no_request_is_lost(
    seed: int, asynchronous: bool, oracle: ModuleType
) -> None:
    case, limits = _case(seed)
    result, seen = _driven(oracle, case, limits, asynchronous=asynchronous)
    cold_limit = limits.cold_seqs or max(case.scheduler.max_num_seqs // 3, 1)
    assert seen.most[True] <= cold_limit
    assert seen.most[False] <= (limits.hot_seqs or case.scheduler.max_num_seqs)
    assert sorted(result.finish_order) == list(range(len(case.requests)))
