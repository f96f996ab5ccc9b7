"""The engine's loop: requests arrive, steps are planned, their tokens arrive, requests end, the clock runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.cache.inner import inlined, inner, sources_digest
from kvtools.cache.lanes import queued
from kvtools.cache.planning import key_full_blocks, release, serve_running, serve_waiting, store
from kvtools.cache.pool import FREE
from kvtools.cache.state import (
    BLOCK,
    COMPUTED,
    COUNT,
    ENDED,
    FILLED_TOKENS,
    FINISH_PLACE,
    FINISHED,
    FINISHED_AT,
    FINISHED_COUNT,
    FLIGHT,
    FLIGHT_COLUMNS,
    FLIGHT_SIZE,
    FLIGHT_TOKENS,
    HELD,
    HELD_BLOCKS,
    HISTOGRAM,
    HIT,
    IN_FLIGHT,
    LANE,
    NOW,
    OLDEST,
    PENDING,
    REQUEST,
    RUNNING,
    RUNNING_AT,
    RUNNING_COUNT,
    SAMPLED,
    SCHEDULED_TOKENS,
    STATUS,
    STEP,
    TOKENS,
    TOTAL,
    UTILIZATION_BINS,
    WAITING_COUNT,
)
from kvtools.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from kvtools.cache.state import Engine, Limits


@inlined
def measure(engine: Engine, limits: Limits) -> None:
    """Add this step's held blocks and the tokens in them to the sums, and their ratio to the histogram.

    Only a request's last block can be partly filled, and that one is never shared: the empty places are
    the sum over the running requests, however many of them share a block.
    """
    state, requests = engine.state, engine.requests
    held = engine.pool.blocks.shape[0] - 1 - engine.pool.counts[FREE]
    filled = held * limits.block_size
    for index in range(state[RUNNING_COUNT]):
        request = engine.seats[index, RUNNING_AT]
        size = requests[request, BLOCK]
        filled -= (requests[request, HELD] * size - requests[request, COMPUTED]) * limits.block_size // size
    state[HELD_BLOCKS] += held
    state[FILLED_TOKENS] += filled
    state[HISTOGRAM + filled * (UTILIZATION_BINS - 1) // (held * limits.block_size)] += 1


@inlined
def plan(engine: Engine, limits: Limits) -> int:
    """Plan one step, put it in flight and return its tokens (0: nothing could run)."""
    state, requests, seats = engine.state, engine.requests, engine.seats
    step = (state[OLDEST] + state[IN_FLIGHT]) & 1
    state[FLIGHT_SIZE + step] = 0
    state[FLIGHT_TOKENS + step] = 0
    state[ENDED] = 0
    # The cap keeps a long prompt from starving others: a request that is alone has none.
    cap = limits.long_prefill if state[RUNNING_COUNT] + state[WAITING_COUNT] > 1 else 0
    budget, preempted = serve_running(engine, limits, cap)
    if not preempted:
        serve_waiting(engine, limits, cap, budget)
    state[IN_FLIGHT] += 1
    column = FLIGHT + FLIGHT_COLUMNS * step
    for index in range(state[FLIGHT_SIZE + step]):
        request = seats[index, column + REQUEST]
        requests[request, COMPUTED] += seats[index, column + COUNT]
        sampled = int(requests[request, COMPUTED] >= requests[request, TOKENS] + requests[request, PENDING])
        seats[index, column + SAMPLED] = sampled
        if limits.asynchronous:
            requests[request, PENDING] += sampled
    tokens = state[FLIGHT_TOKENS + step]
    if tokens > 0:
        state[SCHEDULED_TOKENS] += tokens
        measure(engine, limits)
    return int(tokens)


@inner
def finish(engine: Engine, limits: Limits, request: int) -> None:
    """End ``request``, which runs or, if it was preempted with its last token in flight, waits."""
    requests, seats, state = engine.requests, engine.seats, engine.state
    if requests[request, STATUS] == RUNNING:
        if limits.commit_at_finish:
            # The last token was sampled but never computed: it has no KV.
            key_full_blocks(engine, request, requests[request, TOKENS] - 1)
        kept = requests[request, HELD]
        if limits.drop_second_lane and requests[request, LANE] == 1:
            # What it found in the cache was others' before it came.
            kept = requests[request, HIT] // requests[request, BLOCK]
        release(engine, request, kept)
        index = 0
        while seats[index, RUNNING_AT] != request:
            index += 1
        for later in range(index + 1, state[RUNNING_COUNT]):
            seats[later - 1, RUNNING_AT] = seats[later, RUNNING_AT]
        state[RUNNING_COUNT] -= 1
    else:
        state[WAITING_COUNT] -= 1
    state[ENDED] = 1
    requests[request, STATUS] = FINISHED
    requests[request, FINISHED_AT] = state[STEP]
    requests[request, FINISH_PLACE] = state[FINISHED_COUNT]
    state[FINISHED_COUNT] += 1


@inlined
def deliver(engine: Engine, limits: Limits) -> int:
    """Hand out the tokens of the oldest step in flight, end what is complete, return how many it computed."""
    requests, seats, state = engine.requests, engine.seats, engine.state
    step = state[OLDEST]
    state[OLDEST] = 1 - step
    state[IN_FLIGHT] -= 1
    column = FLIGHT + FLIGHT_COLUMNS * step
    for index in range(state[FLIGHT_SIZE + step]):
        request = seats[index, column + REQUEST]
        if seats[index, column + SAMPLED] == 0 or requests[request, STATUS] == FINISHED:
            continue  # no token, or of a request that was ended from outside
        requests[request, TOKENS] += 1
        if limits.asynchronous and requests[request, STATUS] == RUNNING:
            requests[request, PENDING] -= 1
            store(engine, limits, request, requests[request, COMPUTED] - requests[request, PENDING])
        if requests[request, TOKENS] >= requests[request, TOTAL]:
            finish(engine, limits, request)
    return int(state[FLIGHT_TOKENS + step])


@inner
def _run(engine: Engine, limits: Limits, order: NDArray[np.int32], arrival: NDArray[np.int64]) -> None:
    """Run the requests of ``order``, which lists them in order of arrival, to their end."""
    state = engine.state
    upcoming = 0
    while True:
        idle = state[RUNNING_COUNT] + state[WAITING_COUNT] + state[IN_FLIGHT] == 0
        if idle and upcoming == order.size:
            return
        if idle:
            state[NOW] = max(state[NOW], arrival[order[upcoming]])
        while (
            upcoming < order.size
            and arrival[order[upcoming]] <= state[NOW]
            and (idle or not limits.sequential)
        ):
            queued(engine, order[upcoming])
            upcoming += 1
            idle = False
        tokens = 0
        if state[RUNNING_COUNT] + state[WAITING_COUNT] + state[ENDED] > 0:
            tokens = plan(engine, limits)
        # With one step in flight the next one is planned before its tokens arrive. The clock advances by the first
        # step of a busy period before the second is planned, then by each step as its tokens arrive.
        if not (limits.asynchronous and tokens > 0 and state[IN_FLIGHT] == 1):
            computed = deliver(engine, limits)
        else:
            computed = tokens
        if tokens > 0:
            state[STEP] += 1
            state[NOW] += limits.step_us + computed * limits.token_ns // 1000
        else:
            state[NOW] += limits.empty_step_us


def _kept_by(sources: str) -> Callable[[Engine, Limits, NDArray[np.int32], NDArray[np.int64]], None]:
    """Return the compiled loop, whose machine code on disk belongs to these ``sources``.

    Numba renews what it keeps on disk when this module changes; what a kernel closes over is part of the key, so
    that a change of the modules that it calls renews it too.
    """

    @kernel
    def run(engine: Engine, limits: Limits, order: NDArray[np.int32], arrival: NDArray[np.int64]) -> None:
        if len(sources) > 0:
            _run(engine, limits, order, arrival)

    return run


run = _kept_by(sources_digest("lanes", "planning", "pool", "queues", "state", "steps"))
"""Run the requests ``order`` to their end: places in the log, in order of ``arrival`` (µs by place)."""
