"""The loop of the schedule simulation over the exact simulator's own steps (``kvtools.cache``): one compiled function.

Without guards, lanes and retries it does what ``kvtools.cache.steps.run`` does, request for request; that is a test.
Steps are planned one after the other (no asynchronous scheduling).
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import kvtools.plan.schedule_guards as guards_module
import kvtools.plan.schedule_state as state_module
from kvtools.cache.inner import inlined, inner, sources_digest
from kvtools.cache.pool import FREE
from kvtools.cache.queues import pop
from kvtools.cache.state import (
    COMPUTED,
    FINISHED,
    FLIGHT,
    FLIGHT_COLUMNS,
    FLIGHT_SIZE,
    LANE,
    NOW,
    OLDEST,
    RELOADED,
    REQUEST,
    RUNNING_COUNT,
    SAMPLED,
    STATUS,
    STEP,
    WAITING_COUNT,
)
from kvtools.cache.steps import deliver, plan
from kvtools.jit import kernel
from kvtools.plan.schedule_guards import guard, let_in, usage_permille
from kvtools.plan.schedule_state import (
    ARRIVED_US,
    BUSY_US,
    END_US,
    ENTERED_US,
    FIRST_US,
    HOT_LANE,
    OUTCOME,
    PRESENT_US,
    RELOADS_SEEN,
    RETRY_SIZE,
    SLOW_FIRST,
    USAGE,
    USED_MOST,
)
from kvtools.plan.schedule_state import FINISHED as DONE

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from kvtools.cache.state import Engine, Limits
    from kvtools.plan.schedule_state import Clock, Guards, Run


@inlined
def duration(engine: Engine, clock: Clock, run: Run, step: int, tokens: int) -> int:
    """Return the µs that the step in flight takes, rounded down."""
    state = engine.state
    reading = clock.step_us
    if clock.context_ns > 0:
        context = 0
        for index in range(state[FLIGHT_SIZE + step]):
            request = engine.seats[index, FLIGHT + FLIGHT_COLUMNS * step + REQUEST]
            context += engine.requests[request, COMPUTED]
        reading += context * clock.context_ns // 1000
    computing = tokens * clock.token_ns // 1000
    took = max(reading, computing) if clock.overlap else reading + computing
    if clock.fails_us <= state[NOW] < clock.mended_us:
        took = took * 1000 // clock.left
    if clock.reload_ns > 0:
        took += (state[RELOADED] - run.dials[RELOADS_SEEN]) * clock.reload_ns // 1000
        run.dials[RELOADS_SEEN] = state[RELOADED]
    return int(took)


@inlined
def note(engine: Engine, guards: Guards, run: Run, step: int) -> None:
    """Write down whose first and last tokens the delivered step brought."""
    fate, now = run.fate, engine.state[NOW]
    for index in range(engine.state[FLIGHT_SIZE + step]):
        if engine.seats[index, FLIGHT + FLIGHT_COLUMNS * step + SAMPLED] == 0:
            continue
        request = engine.seats[index, FLIGHT + FLIGHT_COLUMNS * step + REQUEST]
        if fate[request, FIRST_US] < 0:
            fate[request, FIRST_US] = now
            slow = guards.slow_us > 0 and now - fate[request, ENTERED_US] > guards.slow_us
            if slow and engine.requests[request, LANE] == HOT_LANE:
                run.dials[SLOW_FIRST] = 1
        if engine.requests[request, STATUS] == FINISHED and fate[request, END_US] < 0:
            fate[request, END_US] = now
            fate[request, OUTCOME] = DONE


@inlined
def arrive(
    engine: Engine,
    limits: Limits,
    clock: Clock,
    guards: Guards,
    run: Run,
    order: NDArray[np.int32],
    upcoming: int,
) -> int:
    """Let in whoever has come by now, first arrivals before returning ones; return the next of ``order``."""
    now, fate = engine.state[NOW], run.fate
    while upcoming < order.size and fate[order[upcoming], ARRIVED_US] <= now:
        request = order[upcoming]
        run.dials[PRESENT_US] += now - fate[request, ARRIVED_US]
        let_in(engine, limits, clock, guards, run, request, fate[request, ARRIVED_US])
        upcoming += 1
    while run.dials[RETRY_SIZE] > 0 and run.due[run.retry[0, 0]] <= now:
        request = run.retry[0, 0]
        pop(run.retry, 0, run.dials[RETRY_SIZE], run.due)
        run.dials[RETRY_SIZE] -= 1
        let_in(engine, limits, clock, guards, run, request, run.due[request])
    return upcoming


@inlined
def next_event(run: Run, order: NDArray[np.int32], upcoming: int) -> int:
    """Return when the next request comes, -1 where none does any more."""
    event = -1
    if upcoming < order.size:
        event = run.fate[order[upcoming], ARRIVED_US]
    if run.dials[RETRY_SIZE] > 0:
        due = run.due[run.retry[0, 0]]
        event = due if event < 0 else min(event, due)
    return int(event)


@inlined
def advance(engine: Engine, run: Run, passed: int) -> None:
    """Move the clock on by ``passed`` µs in which nobody comes or goes."""
    state, dials = engine.state, run.dials
    dials[USAGE + usage_permille(engine)] += passed
    dials[PRESENT_US] += passed * (state[RUNNING_COUNT] + state[WAITING_COUNT] + dials[RETRY_SIZE])
    dials[USED_MOST] = max(dials[USED_MOST], engine.pool.blocks.shape[0] - 1 - engine.pool.counts[FREE])
    state[NOW] += passed


@inner
def _run(
    engine: Engine, limits: Limits, clock: Clock, guards: Guards, run: Run, order: NDArray[np.int32]
) -> None:
    state, upcoming = engine.state, 0
    while True:
        if state[RUNNING_COUNT] + state[WAITING_COUNT] == 0:
            event = next_event(run, order, upcoming)
            if event < 0:
                return
            advance(engine, run, max(event - state[NOW], 0))
        upcoming = arrive(engine, limits, clock, guards, run, order, upcoming)
        if guards.check_us > 0 or guards.timeout_us > 0 or guards.make_way:
            guard(engine, limits, guards, run)
        if state[RUNNING_COUNT] + state[WAITING_COUNT] == 0:
            continue
        step = state[OLDEST]
        tokens = plan(engine, limits)
        passed = duration(engine, clock, run, step, tokens) if tokens > 0 else max(limits.empty_step_us, 1)
        # The clock moves before the tokens arrive: who ends with this step was there during it.
        advance(engine, run, passed)
        deliver(engine, limits)
        note(engine, guards, run, step)
        if tokens > 0:
            state[STEP] += 1
            run.dials[BUSY_US] += passed


def _sources() -> str:
    digest = blake2b(digest_size=16)
    digest.update(sources_digest("lanes", "planning", "pool", "queues", "state", "steps").encode())
    for module in (guards_module, state_module):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


def _kept_by(sources: str) -> Callable[[Engine, Limits, Clock, Guards, Run, NDArray[np.int32]], None]:
    """Return the compiled loop, whose machine code on disk belongs to these ``sources`` (see ``cache.steps``)."""

    @kernel
    def run_schedule(
        engine: Engine, limits: Limits, clock: Clock, guards: Guards, run: Run, order: NDArray[np.int32]
    ) -> None:
        if len(sources) > 0:
            _run(engine, limits, clock, guards, run, order)

    return run_schedule


run_schedule = _kept_by(_sources())
"""Run the requests ``order``, listed in order of arrival, to their end."""
