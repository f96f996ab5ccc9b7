"""The simulator on cases small enough to follow every block by hand.

A prompt is written as runs: ``A48`` is the first 48 tokens of a text that is A's own, so that equal names
give equal tokens. Output tokens are unique. Blocks are numbered from 1, as in the free list of the pool.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from kvtools.cache.scheduler import Simulation, simulate
from kvtools.cache.workload import StepTime, Workload, without_needless_blocks
from kvtools.errors import UsageError
from kvtools.model import Arrivals, CacheSpec, SchedulerSpec

SEQUENTIAL = SchedulerSpec()
CLOSED = SchedulerSpec(arrivals="closed")
LOG = SchedulerSpec(arrivals="log")
ROUNDS = StepTime(1, 0, 1)
"""A clock whose unit is one planning round."""


def work(
    *prompts: str,
    block_size: int = 16,
    outputs: list[int] | None = None,
    salts: list[str] | None = None,
    arrivals: list[int] | None = None,
    priorities: list[int] | None = None,
    skips: list[bool] | None = None,
) -> Workload:
    """Return the workload of ``prompts``, one generated token each unless ``outputs`` says otherwise."""
    n = len(prompts)
    outputs = outputs or [1] * n
    known: dict[object, int] = {}
    rows = []
    for place, prompt in enumerate(prompts):
        runs = [(run[0], int(run[1:])) for run in prompt.split()]
        tokens: list[object] = [(name, i) for name, length in runs for i in range(length)]
        tokens += [("output", place, i) for i in range(outputs[place])]
        parent: object = salts[place] if salts else None
        row = []
        for start in range(0, len(tokens) - block_size + 1, block_size):
            parent = known.setdefault((parent, tuple(tokens[start : start + block_size])), len(known))
            row.append(parent)
        rows.append(row)
    lengths = [sum(int(run[1:]) for run in prompt.split()) for prompt in prompts]
    return Workload(
        prompt_tokens=np.array(lengths, np.int64),
        output_tokens=np.array(outputs, np.int64),
        block_ids=np.array([key for row in rows for key in row], np.int64),
        offsets=np.array([0, *accumulate(map(len, rows))], np.int64),
        arrival_us=np.array(arrivals or [0] * n, np.int64),
        priority=np.array(priorities or [0] * n, np.int64),
        skip_lookup=np.array(skips or [False] * n, np.bool_),
    )


def hits(result: Simulation) -> list[int]:
    return [int(tokens) for tokens in result.hit_tokens]


@pytest.mark.parametrize(("block_size", "expected"), [(16, [0, 240, 240]), (784, [0, 0, 0])])
def test_a_prefix_shorter_than_a_block_never_hits(block_size: int, expected: list[int]) -> None:
    requests = work("S240 a100", "S240 b100", "S240 c100", block_size=block_size)
    assert hits(simulate(requests, CacheSpec(block_size), SEQUENTIAL)) == expected


def test_requests_of_different_salts_share_nothing() -> None:
    requests = work("S100", "S100", "S100", "S100", salts=["one", "two", "three", "three"])
    assert hits(simulate(requests, CacheSpec(), SEQUENTIAL)) == [0, 0, 0, 96]


def test_a_request_that_reads_no_cache_fills_it_and_is_not_counted() -> None:
    result = simulate(work("S100", "S100", "S100", skips=[False, True, False]), CacheSpec(), SEQUENTIAL)
    assert hits(result) == [0, 0, 96]
    assert result.queried_tokens.tolist() == [100, 0, 100]
    alone = simulate(work("S100", "S100", skips=[True, False]), CacheSpec(), SEQUENTIAL)
    assert hits(alone) == [0, 96]


def test_hits_are_tokens_of_full_blocks() -> None:
    result = simulate(work("S40", "S40", "S32 x200"), CacheSpec(), SEQUENTIAL)
    assert hits(result) == [0, 32, 32]
    assert result.queried_tokens.sum() == 312


def test_the_last_block_of_a_request_is_evicted_first() -> None:
    # A holds 1 2 3, freed as 3 2 1 behind 4; B takes 4 and 3; A finds 1 and 2 and takes 3 back from B.
    result = simulate(work("A48", "B32", "A48"), CacheSpec(capacity_blocks=4), SEQUENTIAL)
    assert hits(result) == [0, 0, 32]
    assert result.evictions == 2
    assert result.free_order.tolist() == [4, 3, 2, 1]


@pytest.mark.parametrize(("last", "expected", "evictions"), [(False, 32, 4), (True, 0, 6)])
def test_where_partly_filled_blocks_are_freed_to(*, last: bool, expected: int, evictions: int) -> None:
    # u takes the two unused blocks. To the head: v takes u's partial block and A's 4, w takes v's partial one and
    # A's 3, the last request finds A's 1 and 2 and takes w's partial one and the full ones of u and v: 4 keys lost.
    # To the tail: v takes A's 4 and 3, w takes A's 2 and 1, the last one takes both blocks of u, both of v and
    # the partial one of w: 6 keys lost.
    requests = work("A64", "u20", "v20", "w20", "A65")
    result = simulate(
        requests, CacheSpec(capacity_blocks=6, free_partial_blocks="last" if last else "first"), SEQUENTIAL
    )
    assert hits(result) == [0, 0, 0, 0, expected]
    assert result.evictions == evictions


@pytest.mark.parametrize(("name", "expected"), [("V", 0), ("W", 0), ("X", 48), ("Y", 48), ("Z", 48)])
def test_a_warm_up_set_larger_than_the_cache_evicts_its_own_head(name: str, expected: int) -> None:
    requests = work("V48", "W48", "X48", "Y48", "Z48", f"{name}48 q8")
    assert hits(simulate(requests, CacheSpec(capacity_blocks=9), SEQUENTIAL))[-1] == expected


@pytest.mark.parametrize(
    ("capacity", "expected"), [(None, [0, 0, 0, 64, 64, 64]), (8, [0] * 6), (20, [0, 0, 0, 64, 64, 64])]
)
def test_a_ceiling_is_not_a_hit_rate(capacity: int | None, expected: list[int]) -> None:
    requests = work("A64 a8", "B64 b8", "C64 c8", "A64 d8", "B64 e8", "C64 f8")
    result = simulate(requests, CacheSpec(capacity_blocks=capacity), SEQUENTIAL)
    assert hits(result) == expected
    assert capacity is not None or (result.evictions == 0 and result.free_order.size == 0)


@pytest.mark.parametrize("capacity", [None, 21])
def test_a_burst_hits_within_the_step(capacity: int | None) -> None:
    result = simulate(work("S100", "S100", "S100"), CacheSpec(capacity_blocks=capacity), CLOSED)
    assert hits(result) == [0, 96, 96]
    assert result.steps == 1


def test_of_several_blocks_with_one_key_the_first_is_found() -> None:
    # The second A8 may hit one block only and keys block 3 as a copy of 2. A12 finds 1 and 2, not 3.
    result = simulate(work("A8", "A8", "A12", block_size=4), CacheSpec(4, 10), SEQUENTIAL)
    assert hits(result) == [0, 4, 8]
    assert result.free_order.tolist() == [5, 6, 7, 8, 9, 10, 3, 4, 2, 1]


def test_lookups_after_a_preemption_are_counted_apart() -> None:
    # r runs from step 0, the more urgent s from step 1. Step 30: r (130 tokens) holds 9 blocks, s needs its
    # 9th of 17, so r goes; its partial block serves s. s reaches 169 tokens: its 10th and 11th block are r's
    # 8th and 7th. r comes back with 6 blocks, takes s's partial one and two keyed ones.
    requests = work("r100", "s100", outputs=[40, 70], arrivals=[0, 1], priorities=[1, 0])
    result = simulate(requests, CacheSpec(capacity_blocks=17), replace(LOG, policy="priority"), ROUNDS)
    assert (result.queried_tokens.sum(), result.hit_tokens.sum()) == (200, 0)
    assert (result.resumed_queried_tokens, result.resumed_hit_tokens) == (130, 96)
    assert result.preemptions.tolist() == [1, 0]
    assert result.finish_order.tolist() == [1, 0]
    assert result.evictions == 4


def test_first_come_first_served_preempts_the_last_one() -> None:
    # Step 5: a holds 1 3, b holds 2 4, a needs a third: b goes, a takes 4. Step 7: a ends, the list is
    # 4 2 3 1. b finds 2, takes 4 and 3, ends in step 10 with 3 partly filled.
    result = simulate(work("a4", "b4", block_size=4, outputs=[8, 8]), CacheSpec(4, 4), CLOSED)
    assert result.preemptions.tolist() == [0, 1]
    assert (result.resumed_queried_tokens, result.resumed_hit_tokens) == (9, 4)
    assert result.finished_step.tolist() == [7, 10]
    assert result.evictions == 2
    assert result.free_order.tolist() == [3, 1, 4, 2]


def test_a_request_that_does_not_fit_waits_for_those_that_run() -> None:
    # Five times 7 blocks are 35 of 30: four run, and each generates 4 tokens in steps 0 to 3.
    requests = work("a100", "b100", "c100", "d100", "e100", outputs=[4] * 5)
    result = simulate(requests, CacheSpec(capacity_blocks=30), CLOSED)
    assert result.admitted_step.tolist() == [0, 0, 0, 0, 4]
    assert result.finished_step.tolist() == [3, 3, 3, 3, 7]
    assert result.preemptions.sum() == 0


def test_without_the_check_of_the_whole_prompt_the_first_chunk_is_enough() -> None:
    # Step 0: a takes 2 of 3 blocks and 8 of 12 tokens. b's first 4 tokens fit, all its 8 would need 2 blocks.
    requests = work("a8", "b8", block_size=4)
    reserved = simulate(requests, CacheSpec(4, 3), replace(CLOSED, max_num_batched_tokens=12))
    assert reserved.admitted_step.tolist() == [0, 1]
    chunked = replace(CLOSED, max_num_batched_tokens=12, reserve_full_isl=False)
    assert simulate(requests, CacheSpec(4, 3), chunked).admitted_step.tolist() == [0, 0]


def test_the_watermark_stays_free_while_something_runs() -> None:
    # A third of 6 blocks, the null block among them, is 2. While a holds 1 of the 5 usable, b's 3 leave only 1.
    spec = replace(CLOSED, watermark_share=0.34)
    requests = work("a4", "b12", block_size=4, outputs=[1, 1])
    assert simulate(requests, CacheSpec(4, 5), spec).admitted_step.tolist() == [0, 1]
    assert simulate(requests, CacheSpec(4, 5), CLOSED).admitted_step.tolist() == [0, 0]
    assert simulate(requests, CacheSpec(4, 6), spec).admitted_step.tolist() == [0, 0]


def test_a_long_prompt_is_cut_into_chunks() -> None:
    budget = replace(SEQUENTIAL, max_num_batched_tokens=4)
    assert simulate(work("a10"), CacheSpec(), budget).steps == 3
    capped = replace(CLOSED, long_prefill_token_threshold=4)
    assert simulate(work("a10", "b10"), CacheSpec(), capped).finished_step.tolist() == [2, 2]
    assert simulate(work("a10"), CacheSpec(), capped).steps == 1


def test_without_chunked_prefill_a_prompt_waits_for_a_whole_budget() -> None:
    spec = replace(CLOSED, max_num_batched_tokens=12, enable_chunked_prefill=False)
    assert simulate(work("a8", "b8"), CacheSpec(), spec).admitted_step.tolist() == [0, 1]
    assert simulate(work("a12", "b8"), CacheSpec(), spec).refused.tolist() == [True, False]


@pytest.mark.parametrize(
    ("asynchronous", "admitted", "finished"), [(False, [0, 0, 1], [3, 0, 1]), (True, [0, 0, 2], [4, 1, 3])]
)
def test_asynchronous_scheduling_sees_the_end_one_step_later(
    *, asynchronous: bool, admitted: list[int], finished: list[int]
) -> None:
    spec = replace(CLOSED, max_num_seqs=2, async_scheduling=asynchronous)
    result = simulate(work("a4", "b4", "c4", outputs=[4, 1, 1]), CacheSpec(), spec)
    assert result.admitted_step.tolist() == admitted
    assert result.finished_step.tolist() == finished
    assert result.scheduled_tokens == 4 + 3 + 4 + 4


def test_the_most_urgent_request_is_admitted_first() -> None:
    spec = replace(CLOSED, max_num_seqs=1, policy="priority")
    result = simulate(work("a4", "b4", "c4", "d4", priorities=[2, 0, 2, -1]), CacheSpec(), spec)
    assert result.finish_order.tolist() == [3, 1, 0, 2]


@pytest.mark.parametrize(("second", "steps"), [(150, [0, 1, 2]), (201, [0, 2, 3])])
def test_the_clock_of_the_log_decides_who_is_there(second: int, steps: list[int]) -> None:
    # 100 µs a step and 10 µs a token: step 0 computes 10 tokens and ends at 200, step 1 at 260 or later.
    requests = work("a10", "b5", "c5", outputs=[2, 1, 1], arrivals=[0, second, 10_000])
    result = simulate(requests, CacheSpec(), LOG, StepTime(100, 10_000))
    assert result.admitted_step.tolist() == steps


def test_requests_that_could_never_run_are_refused() -> None:
    # With 10 output tokens, 13 of 4 + 10 need KV: 4 blocks of 4, one more than there are.
    requests = work("a4", "b4", "", "c4", block_size=4, outputs=[10, 9, 1, 1])
    result = simulate(requests, CacheSpec(4, 3), CLOSED)
    assert result.refused.tolist() == [True, False, True, False]
    assert result.queried_tokens.tolist() == [0, 4, 0, 4]
    assert result.admitted_step[[0, 2]].tolist() == [-1, -1]
    assert result.finish_order.tolist() == [3, 1]
    long = replace(CLOSED, max_model_len=13)
    assert simulate(requests, CacheSpec(4, 9), long).refused.tolist() == [True, False, True, False]


def test_utilization_is_what_fills_the_held_blocks() -> None:
    # 5, then 6 tokens in 2 blocks of 4.
    alone = simulate(work("a5", block_size=4, outputs=[2]), CacheSpec(4), SEQUENTIAL)
    assert (alone.filled_token_steps, alone.held_block_steps, alone.block_utilization) == (11, 4, 11 / 16)
    assert [alone.utilization_quantile(q) for q in (0.5, 0.95)] == [0.625, 0.75]
    # The shared block counts once: 4 + 1 + 1 tokens in 3 blocks.
    shared = simulate(work("S4 a1", "S4 b1", block_size=4), CacheSpec(4), CLOSED)
    assert (shared.filled_token_steps, shared.held_block_steps) == (6, 3)
    assert shared.utilization_quantile(0.5) == 0.5


@pytest.mark.parametrize("arrivals", ["sequential", "closed", "log"])
def test_no_requests(arrivals: Arrivals) -> None:
    result = simulate(work(), CacheSpec(capacity_blocks=2), SchedulerSpec(arrivals=arrivals), ROUNDS)
    assert (result.steps, result.block_utilization, result.utilization_quantile(0.5)) == (0, None, None)
    assert result.free_order.tolist() == [1, 2]


def test_settings_that_no_engine_runs_with_are_refused() -> None:
    requests = work("a4")
    with pytest.raises(UsageError, match="step time"):
        simulate(requests, CacheSpec(), LOG)
    with pytest.raises(UsageError, match="rules 'vllm'"):
        simulate(requests, CacheSpec(rules="trace"), SEQUENTIAL)
    with pytest.raises(UsageError, match="max_num_seqs"):
        simulate(requests, CacheSpec(), replace(SEQUENTIAL, max_num_seqs=0))
    with pytest.raises(UsageError, match="watermark_share"):
        simulate(requests, CacheSpec(), replace(SEQUENTIAL, watermark_share=-0.1))
    with pytest.raises(UsageError, match="at least 0"):
        StepTime(-1)


def test_columns_that_contradict_each_other_are_refused() -> None:
    requests = work("a40")
    with pytest.raises(ValueError, match="full blocks"):
        simulate(replace(requests, block_ids=requests.block_ids[:1]), CacheSpec(), SEQUENTIAL)
    with pytest.raises(ValueError, match="one entry"):
        simulate(replace(requests, priority=requests.priority[:0]), CacheSpec(), SEQUENTIAL)
    with pytest.raises(ValueError, match="output token"):
        simulate(replace(requests, output_tokens=requests.output_tokens * 0), CacheSpec(), SEQUENTIAL)
    with pytest.raises(ValueError, match="dense"):
        simulate(replace(requests, block_ids=requests.block_ids - 1), CacheSpec(), SEQUENTIAL)


def test_a_cache_larger_than_everything_takes_no_memory_for_it() -> None:
    # Distinct keys: A, A, B of 16 tokens each, and 3 blocks of 40 tokens held at once: 6 blocks never evict.
    requests = work("A40", "A40", "B30")
    assert int(requests.block_ids.max()) + 1 == 3
    ample = without_needless_blocks(requests, CacheSpec(capacity_blocks=2_000_000_000), SEQUENTIAL)
    assert ample.capacity_blocks is None
    assert without_needless_blocks(requests, CacheSpec(capacity_blocks=6), SEQUENTIAL).capacity_blocks is None
    tight = CacheSpec(capacity_blocks=5)
    assert without_needless_blocks(requests, tight, SEQUENTIAL) == tight


def test_an_engine_that_commits_at_the_end_misses_a_burst() -> None:
    burst = work("S100", "S100", "S100")
    late = CacheSpec(commit="finished")
    assert hits(simulate(burst, CacheSpec(), CLOSED)) == [0, 96, 96]
    assert hits(simulate(burst, late, CLOSED)) == [0, 0, 0]
    # One after another it makes no difference; the answer's full blocks are kept too.
    assert hits(simulate(burst, late, SEQUENTIAL)) == [0, 96, 96]
