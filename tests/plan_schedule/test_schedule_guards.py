"""What each policy does, on requests few enough to follow every step by hand.

A step takes 1 ms whatever it computes, a block holds 4 tokens; nobody shares a prefix unless the test says so.
A request of n output tokens that runs from t on ends at t + n ms.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from kvtools.cache import Workload
from kvtools.errors import UsageError
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import Schedule, schedule
from kvtools.plan.schedule_policies import PolicyLimits, policy_of
from kvtools.plan.schedule_state import FINISHED, KILLED, REFUSED, Clock
from kvtools.plan.schedule_whatif import WhatIf

CLOCK = Clock(step_us=1000, token_ns=0, context_ns=0, overlap=False)
HOT, COLD = True, False
LIMITS = PolicyLimits(
    cold_timeout_s=0.002, slow_s=0.002, check_s=0.001, cold_output_tokens=3, retry_after_s=(0.003, 0.003)
)


def run(
    policy: str,
    *requests: tuple[int, bool, int, int],
    seats: int = 4,
    blocks: int | None = None,
    limits: PolicyLimits = LIMITS,
    twins: bool = False,
    what_if: WhatIf | None = None,
) -> Schedule:
    """Run requests of (arrival in µs, hot, prompt tokens, output tokens); ``twins``: all begin with one text."""
    prompts, outputs = (np.array([one[place] for one in requests], np.int64) for place in (2, 3))
    full = (prompts + outputs - 1) // 4
    shared = prompts // 4 if twins else np.zeros_like(prompts)
    rows = [
        [*range(same), *range(100 * n, 100 * n + all_ - same)]
        for n, (same, all_) in enumerate(zip(shared, full, strict=True), 1)
    ]
    work = Workload(
        prompt_tokens=prompts,
        output_tokens=outputs,
        block_ids=np.array([block for row in rows for block in row], np.int64),
        offsets=np.array([0, *accumulate(map(len, rows))], np.int64),
        arrival_us=np.array([one[0] for one in requests], np.int64),
        priority=np.zeros(len(requests), np.int64),
        skip_lookup=np.zeros(len(requests), np.bool_),
    )
    return schedule(
        work,
        np.array([one[1] for one in requests]),
        CacheSpec(4, blocks),
        SchedulerSpec(max_num_seqs=seats),
        CLOCK,
        policy_of(policy, limits, seats),
        limits,
        what_if or WhatIf(),
    )


def again(
    requests: tuple[tuple[int, bool, int, int], ...], blocks: int, what_if: WhatIf | None = None
) -> Schedule:
    """Run requests of which the first and the last have one prompt, and the others prompts of their own."""
    full = [(prompt + output - 1) // 4 for _, _, prompt, output in requests]
    rows = [list(range(100 * n, 100 * n + count)) for n, count in enumerate(full)]
    rows[-1] = rows[0]
    _, ids = np.unique(np.concatenate(rows), return_inverse=True)
    columns = np.array(requests)
    work = Workload(
        prompt_tokens=columns[:, 2],
        output_tokens=columns[:, 3],
        block_ids=ids.astype(np.int64),
        offsets=np.array([0, *accumulate(full)], np.int64),
        arrival_us=columns[:, 0],
        priority=np.zeros(len(rows), np.int64),
        skip_lookup=np.zeros(len(rows), np.bool_),
    )
    policy, spec = policy_of("fcfs", LIMITS, 4), CacheSpec(4, blocks)
    return schedule(
        work,
        columns[:, 1] > 0,
        spec,
        SchedulerSpec(max_num_seqs=4),
        CLOCK,
        policy,
        LIMITS,
        what_if or WhatIf(),
    )


def ends(done: Schedule) -> list[int]:
    return done.end_us.tolist()


def test_a_hot_request_takes_the_seat_of_a_running_cold_one() -> None:
    pair = (0, COLD, 5, 10), (1500, HOT, 5, 1)
    assert ends(run("fcfs", *pair, seats=1)) == [10_000, 11_000]
    # The hot one is seen at 2 ms and runs at once; the cold one keeps its 2 tokens and makes 8 more from 3 ms on.
    done = run("hotcold", *pair, seats=1)
    assert ends(done) == [11_000, 3_000]
    assert done.interruptions.tolist() == [1, 0]
    # vLLM's priority lets it wait: nothing that runs is preempted for one that waits.
    assert ends(run("priority", *pair, seats=1)) == [10_000, 11_000]


def test_a_hot_request_takes_the_blocks_of_a_running_cold_one() -> None:
    # Of 4 blocks the cold one holds 3 (9 tokens and those it makes), the hot one needs 2.
    pair = (0, COLD, 9, 3), (500, HOT, 5, 1)
    assert ends(run("fcfs", *pair, blocks=4)) == [3_000, 4_000]
    done = run("hotcold", *pair, blocks=4)
    assert (done.end_us[1], done.interruptions.tolist()) == (2_000, [1, 0])


def test_cold_requests_keep_to_their_seats() -> None:
    requests = (0, COLD, 5, 3), (0, COLD, 5, 3), (0, HOT, 5, 3)
    assert ends(run("fcfs", *requests)) == [3_000, 3_000, 3_000]
    limits = replace(LIMITS, cold_seqs=1, cold_timeout_s=60)
    assert ends(run("hotcold", *requests, limits=limits)) == [3_000, 6_000, 3_000]
    limits = replace(limits, cold_seqs=2, hot_seqs=1)
    assert ends(run("hotcold", *requests, (0, HOT, 5, 1), limits=limits)) == [3_000, 3_000, 3_000, 4_000]


@pytest.mark.parametrize(("ended", "expected"), [(False, [5_000, 5_000]), (True, [5_000, 2_000])])
def test_a_cold_request_that_waits_too_long(*, ended: bool, expected: list[int]) -> None:
    limits = replace(LIMITS, cold_seqs=1, timeout_ends=ended)
    done = run("hotcold", (0, COLD, 5, 5), (0, COLD, 5, 3), limits=limits)
    # After 2 ms it becomes hot, and runs beside the other; or it is ended, without a token.
    assert ends(done) == expected
    assert done.outcome.tolist() == [FINISHED, KILLED if ended else FINISHED]
    assert done.promoted.tolist() == [False, not ended]
    assert (done.first_us[1] < 0) == ended


def test_the_breaker_sends_cold_requests_away_while_memory_is_full() -> None:
    limits = replace(LIMITS, memory_line=0.5)
    pair = (0, COLD, 9, 2), (500, COLD, 5, 1)
    # The first holds 3 of 4 blocks until 2 ms. The second is told to come again 3 ms after 0.5 ms: at 3.5 ms.
    done = run("breaker", *pair, blocks=4, limits=limits)
    assert (done.refusals, ends(done)) == (1, [2_000, 4_500])
    done = run("breaker", *pair, blocks=4, limits=replace(limits, retries=0))
    assert (done.refusals, done.outcome.tolist()) == (1, [FINISHED, REFUSED])
    # A hot one is never sent away.
    done = run("breaker", pair[0], (500, HOT, 5, 1), blocks=4, limits=limits)
    assert (done.refusals, done.outcome.tolist()) == (0, [FINISHED, FINISHED])


def test_memory_without_limit_is_never_full() -> None:
    limits = replace(LIMITS, memory_line=0, release_line=0)
    pair = (0, COLD, 3, 4), (500, COLD, 3, 1)
    assert run("breaker", *pair, blocks=9, limits=limits).refusals > 0
    assert run("breaker", *pair, limits=limits).refusals == 0
    assert run("dynamic", *pair, limits=limits).interruptions.tolist() == [0, 0]


def test_the_breaker_kills_the_longest_cold_request_where_hot_ones_wait_too_long() -> None:
    # The hot one came at 0.5 ms and has no seat. At 3 ms it waits for longer than 2 ms; the longer cold one goes.
    requests = (0, COLD, 5, 50), (0, COLD, 9, 50), (500, HOT, 5, 1)
    done = run("breaker", *requests, seats=2)
    # Its first token comes at 4 ms, 3.5 ms after it asked: too late as well, and so the other goes.
    assert done.outcome.tolist() == [KILLED, KILLED, FINISHED]
    assert ends(done) == [4_000, 3_000, 4_000]


def test_the_dynamic_scheduler_shortens_cold_answers_in_an_emergency() -> None:
    # With only cold requests there, their share is above any line once the first one runs.
    done = run("dynamic", (0, COLD, 5, 10), (1500, COLD, 5, 10), limits=replace(LIMITS, cold_seqs=2))
    assert done.shortened.tolist() == [False, True]
    assert ends(done) == [10_000, 2_000 + 3_000]
    assert done.tokens.tolist() == [15, 8]


def test_the_dynamic_scheduler_takes_smaller_bites_of_cold_prompts() -> None:
    limits = replace(LIMITS, cold_step_tokens=10, least_step_tokens=4, check_s=0.001)
    # 16 tokens: the cap is 8 from the first look on (10 x 0.8), then 6, then 4: 8 + 6 + 2.
    assert ends(run("dynamic", (0, COLD, 16, 1), limits=limits)) == [3_000]
    assert ends(run("dynamic", (0, HOT, 16, 1), limits=limits)) == [1_000]


def test_cold_requests_never_hold_what_is_reserved() -> None:
    # Each needs 4 of 10 blocks; cold ones may hold 5.
    requests = (0, COLD, 16, 1), (0, COLD, 16, 1), (0, HOT, 16, 1)
    assert ends(run("fcfs", *requests, blocks=10)) == [1_000, 1_000, 2_000]
    limits = replace(LIMITS, hot_reserve=0.5)
    assert ends(run("partitioned", *requests, blocks=10, limits=limits)) == [1_000, 2_000, 1_000]
    done = run("partitioned", (0, COLD, 24, 1), (0, HOT, 24, 1), blocks=10, limits=limits)
    assert done.too_large.tolist() == [True, False]


def test_what_cold_requests_leave_is_not_kept() -> None:
    # The second asks for the text of the first, 8 tokens of which are full blocks before its last token.
    def asked(kind: bool) -> tuple[tuple[int, bool, int, int], ...]:
        return (0, kind, 9, 1), (5000, kind, 9, 1)

    assert run("fcfs", *asked(COLD), blocks=10, twins=True).hit_tokens.tolist() == [0, 8]
    assert run("partitioned", *asked(COLD), blocks=10, twins=True).hit_tokens.tolist() == [0, 0]
    assert run("partitioned", *asked(HOT), blocks=10, twins=True).hit_tokens.tolist() == [0, 8]


def test_kv_usage_is_weighed_by_time() -> None:
    # 2 of 4 blocks for 2 ms, nothing for 6 ms, 1 block for 2 ms.
    done = run("fcfs", (0, HOT, 5, 2), (8000, HOT, 2, 2), blocks=4)
    assert {place: us for place, us in enumerate(done.usage_us.tolist()) if us} == {
        0: 6000,
        250: 2000,
        500: 2000,
    }
    assert [done.usage_quantile(part) for part in (0.5, 0.8, 0.81)] == [0.0, 0.25, 0.5]
    assert done.most_blocks == 2


def test_a_roofline_takes_the_longer_of_reading_and_computing() -> None:
    clock = Clock(step_us=1000, token_ns=200_000, context_ns=50_000, overlap=True)
    limits = PolicyLimits()
    work = Workload(
        prompt_tokens=np.array([8]),
        output_tokens=np.array([2]),
        block_ids=np.arange(2),
        offsets=np.array([0, 2]),
        arrival_us=np.array([0]),
        priority=np.array([0]),
        skip_lookup=np.array([False]),
    )
    done = schedule(
        work, np.array([True]), CacheSpec(4), SchedulerSpec(), clock, policy_of("fcfs", limits, 4), limits
    )
    # Prefill: reading 1000 + 8 x 50, computing 8 x 200. Decode: reading 1000 + 9 x 50, computing 200.
    assert (done.first_us[0], done.end_us[0]) == (1600, 1600 + 1450)


def test_cold_blocks_of_half_the_bytes_hold_twice_the_tokens() -> None:
    # 16 tokens are 4 blocks, or 2 of cold requests with 8-bit KV. Of 6 blocks one request fits, then all three.
    requests = (0, COLD, 16, 1), (0, COLD, 16, 1), (0, COLD, 16, 1)
    assert ends(run("fcfs", *requests, blocks=6)) == [1_000, 2_000, 3_000]
    assert ends(run("fcfs", *requests, blocks=6, what_if=WhatIf(cold_int8=True))) == [1_000] * 3
    # A hot request finds nothing of a cold one's 8-bit blocks; another cold one does, in blocks of 8 tokens.
    kinds = (0, COLD, 17, 1), (5000, HOT, 17, 1), (9000, COLD, 17, 1)
    assert run("fcfs", *kinds, blocks=20, twins=True).hit_tokens.tolist() == [0, 16, 16]
    halved = run("fcfs", *kinds, blocks=20, twins=True, what_if=WhatIf(cold_int8=True))
    assert halved.hit_tokens.tolist() == [0, 0, 16]


def test_a_tier_of_copies_brings_back_what_the_pool_lost() -> None:
    # A pool of 5 blocks: the second request takes the blocks of the first, which comes again at 8 ms.
    what_if = WhatIf(tier_blocks=9, reload_ms=0.25)
    requests = (0, HOT, 17, 1), (4000, COLD, 20, 1), (8000, HOT, 17, 1)
    plain, tier = again(requests, 5), again(requests, 5, what_if)
    assert (plain.hit_tokens.tolist(), plain.tier_hit_tokens.tolist()) == ([0, 0, 0], [0, 0, 0])
    assert (tier.hit_tokens.tolist(), tier.tier_hit_tokens.tolist()) == ([0, 0, 0], [0, 0, 16])
    assert tier.computed_tokens == plain.computed_tokens - 16
    # Its 4 blocks take 4 x 0.25 ms besides the step.
    assert (plain.end_us[2], tier.end_us[2]) == (9_000, 10_000)
    # The second request's 5 blocks were copied since: a tier of 8 has room for 3 of the first's, one of 5 for none.
    for blocks, tokens in ((8, 12), (5, 0)):
        small = again(requests, 5, replace(what_if, tier_blocks=blocks))
        assert small.tier_hit_tokens.tolist() == [0, 0, tokens]


def test_a_gpu_that_fails_slows_down_and_sends_cold_requests_to_the_cpu() -> None:
    # From 2 ms to 6 ms half of the speed is left: a step takes 2 ms.
    what_if = WhatIf(failure=(0.002, 0.004, 0.5), cpu_tokens_per_s=1000, cpu_step_ms=10)
    requests = (0, HOT, 5, 5), (3000, COLD, 5, 2), (3500, COLD, 5, 1)
    # Steps end at 1, 2, 4, 6, 7 ms. Under fcfs the cold ones are seen at 4 ms: first tokens at 6 ms.
    done = run("fcfs", *requests, what_if=what_if)
    assert ends(done) == [7_000, 7_000, 6_000]
    # The CPU takes 5 ms for 5 tokens and 10 ms a step, one request after the other: 3 + 5 + 10 + 10; 28 + 5 + 10.
    done = run("hotcold", *requests, what_if=what_if)
    assert ends(done) == [7_000, 28_000, 43_000]
    assert done.first_us.tolist() == [1_000, 18_000, 43_000]
    assert done.moved.tolist() == [False, True, True]
    assert done.present_us == 7_000 + 25_000 + 39_500
    with pytest.raises(UsageError, match="--gpu-failure"):
        WhatIf(failure=(0, 1, 0))


def test_limits_out_of_range_are_refused() -> None:
    for wrong in ({"hot_reserve": 1.5}, {"cold_seqs": 0}, {"retries": -1}, {"retry_after_s": (5.0, 3.0)}):
        with pytest.raises(UsageError):
            PolicyLimits(**wrong)
    with pytest.raises(UsageError, match="there is none of that name"):
        policy_of("lifo", PolicyLimits(), 4)
