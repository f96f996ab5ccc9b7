"""The fit of a clock: it finds the clock that made the times, and says how far off it is on what it has not seen."""

from __future__ import annotations

import numpy as np
import pytest
from scheduled import CLOCK, mixed

from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import schedule
from kvtools.plan.schedule_fit import Times, fit
from kvtools.plan.schedule_mix import taken
from kvtools.plan.schedule_policies import PolicyLimits, policy_of
from kvtools.plan.schedule_state import Clock

REQUESTS = 600
WORK, HOT = mixed(3, requests=REQUESTS, span_us=6_000_000)
START = CLOCK._replace(step_us=4000, token_ns=6_250)
"""4 times too slow a step, 8 times too fast a token."""
UNKNOWN = np.full(REQUESTS, -1, np.int64)


def simulate(clock: Clock, count: int) -> Times:
    limits, rows = PolicyLimits(), np.arange(count)
    engine = CacheSpec(4, 200), SchedulerSpec()
    policy = policy_of("fcfs", limits, 256)
    done = schedule(taken(WORK, rows), HOT[rows], *engine, clock, policy, limits)
    return Times(done.first_us - done.arrival_us, done.end_us - done.arrival_us)


@pytest.mark.parametrize("kinds", ["TTFT and latency", "TTFT", "latency"])
def test_the_clock_that_made_the_times_is_found(kinds: str) -> None:
    made = simulate(CLOCK, REQUESTS)
    logged = Times(
        made.ttft_us if "TTFT" in kinds else UNKNOWN, made.latency_us if "latency" in kinds else UNKNOWN
    )
    found = fit(simulate, logged, START)
    assert found is not None
    assert found.error is not None
    assert found.origin == f"fitted to the first half of the log's {kinds}"
    assert found.clock.step_us == pytest.approx(CLOCK.step_us, rel=0.1)
    assert found.clock.token_ns == pytest.approx(CLOCK.token_ns, rel=0.1)
    assert found.error.requests == REQUESTS // 2
    errors = {
        "TTFT": (found.error.ttft_p50, found.error.ttft_p99),
        "latency": (found.error.latency_p50, found.error.latency_p99),
    }
    for kind, both in errors.items():
        assert all((one is not None and abs(one) < 0.05) if kind in kinds else one is None for one in both)


def test_a_time_for_context_is_taken_only_where_it_helps() -> None:
    reading = CLOCK._replace(context_ns=20_000)
    found = fit(simulate, simulate(reading, REQUESTS), START)
    assert found is not None
    assert found.clock.context_ns == pytest.approx(20_000, rel=0.25)
    plain = fit(simulate, simulate(CLOCK, REQUESTS), START)
    assert plain is not None
    assert plain.clock.context_ns == 0


def test_a_queue_at_the_middle_is_there_when_the_fit_is_judged() -> None:
    """An engine too slow by far: in the second half everybody waits for those of the first half too."""
    slow = CLOCK._replace(step_us=60_000)
    made = simulate(slow, REQUESTS)
    assert np.median(made.ttft_us[REQUESTS // 2 :]) > 2 * np.median(made.ttft_us[: REQUESTS // 2])
    found = fit(simulate, made, START)
    assert found is not None
    assert found.error is not None
    assert found.error.ttft_p50 == pytest.approx(0, abs=0.05)


def test_what_made_the_second_half_slower_is_in_the_error() -> None:
    made = simulate(CLOCK, REQUESTS)
    late = np.arange(REQUESTS) >= REQUESTS // 2
    found = fit(simulate, Times(made.ttft_us * np.where(late, 2, 1), UNKNOWN), START)
    assert found is not None
    assert found.error is not None
    assert found.error.ttft_p50 == pytest.approx(-0.5, abs=0.03)


def test_few_times_fit_nothing() -> None:
    few = np.where(np.arange(REQUESTS) < 39, 1000, -1)
    assert fit(simulate, Times(few, UNKNOWN), CLOCK) is None
    assert fit(simulate, Times(few, few + 1), CLOCK) is None
