"""vLLM's scheduler step over flat arrays: what runs, what is admitted, what is preempted, what ends.

The rules are those of vLLM 0.32 (``vllm/v1/core/sched/scheduler.py``, ``async_scheduler.py`` and
``vllm/v1/core/kv_cache_manager.py``) for one full-attention group without speculation or connectors:

- A step first serves the running requests in order, then admits waiting ones unless it preempted.
- Blocks are keyed when they are scheduled, before they are computed: a request admitted later in the same
  step already hits them.
- A request that lacks blocks preempts the last running one (``fcfs``) or the least urgent one
  (``priority``) until it fits or is preempted itself. A preempted request keeps its output, loses its
  blocks and waits in front.
- Asynchronous scheduling plans step t+1 before the tokens of step t arrive; a token in flight is *pending*.

A preempted request's token in flight always arrives before the next step is planned, because at most two
steps are in flight. vLLM's rule that such a request may not be admitted yet therefore never applies here.
``max_model_len`` needs no rule either: a request that could reach it is refused before it gets here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvtools.cache.pool import FREE, Pool, free, lookup, register, take, touch
from kvtools.cache.queues import pop, push
from kvtools.jit import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

(TOTAL, SKIP_LOOKUP, URGENCY, BASE, TOKENS, COMPUTED, PENDING, HELD, STORED, SLOT) = range(10)
(STATUS, PREEMPTIONS, HIT, ADMITTED, FINISHED_AT, FINISH_PLACE, REQUEST_COLUMNS) = range(10, 17)
"""Columns of ``Engine.requests``, one row per request.

Given: prompt and output tokens; 1 if it reads no cache; place in (priority, arrival), equal if those are;
where its keys begin. Changing: tokens known; tokens scheduled; tokens in flight; blocks held; blocks keyed;
its block table; its status; preemptions. Results: hit tokens at first admission; the step of it;
the step of its end; its place in the order of ends.
"""

WAITING, RUNNING, FINISHED = range(3)
"""Values of ``requests[:, STATUS]``."""

RUNNING_AT, UNUSED_SLOT, FLIGHT = range(3)
REQUEST, COUNT, SAMPLED, FLIGHT_COLUMNS = range(4)
SEAT_COLUMNS = FLIGHT + 2 * FLIGHT_COLUMNS
"""Columns of ``Engine.seats``: the running requests in order; a stack of unused block tables; and for each of
the two steps in flight its requests in order, their tokens, and 1 if the step samples a token for them."""

(RUNNING_COUNT, WAITING_COUNT, QUEUE_SIZE, LOWEST_RANK, NOW, STEP, IN_FLIGHT, OLDEST, ENDED) = range(9)
(FINISHED_COUNT, SCHEDULED_TOKENS, RESUMED_QUERIED, RESUMED_HIT, FILLED_TOKENS, HELD_BLOCKS) = range(9, 15)
FLIGHT_SIZE, FLIGHT_TOKENS, HISTOGRAM = 15, 17, 19
UTILIZATION_BINS = 1001
STATE_ENTRIES = HISTOGRAM + UTILIZATION_BINS
"""Entries of ``Engine.state``. The last ones count the steps by the utilisation of their blocks in permille."""


class Limits(NamedTuple):
    """The settings of a run; ``watermark`` in blocks, the durations in integers of the caller's clock."""

    block_size: int
    token_budget: int
    long_prefill: int
    max_running: int
    watermark: int
    chunked: bool
    reserve_full: bool
    by_priority: bool
    asynchronous: bool
    sequential: bool
    step_us: int
    token_ns: int
    empty_step_us: int


class Engine(NamedTuple):
    """The state of a run; the functions of this module change it in place.

    ``requests`` is [n, 16], ``seats`` [running requests at most, 8], ``queue`` and ``rank`` [n], ``state`` flat.
    """

    pool: Pool
    requests: NDArray[np.int64]
    seats: NDArray[np.int64]
    queue: NDArray[np.int32]
    rank: NDArray[np.int32]
    state: NDArray[np.int64]


@kernel
def store(engine: Engine, limits: Limits, request: int, tokens: int) -> None:
    """Key the blocks of ``request`` that its first ``tokens`` tokens fill."""
    requests = engine.requests
    stored = requests[request, STORED]
    if tokens >= (stored + 1) * limits.block_size:
        full = tokens // limits.block_size
        register(engine.pool, requests[request, SLOT], requests[request, BASE], stored, full)
        requests[request, STORED] = full


@kernel
def release(engine: Engine, request: int) -> None:
    """Free the blocks of a running ``request`` and its block table."""
    requests, state = engine.requests, engine.state
    slot = requests[request, SLOT]
    free(engine.pool, slot, requests[request, HELD])
    requests[request, HELD] = 0
    requests[request, STORED] = 0
    # Every running request has one table, and this one is about to leave: the stack grows by one.
    engine.seats[engine.seats.shape[0] - state[RUNNING_COUNT], UNUSED_SLOT] = slot


@kernel
def place(engine: Engine, limits: Limits, request: int, count: int) -> None:
    """Schedule ``count`` tokens of ``request`` in the step being planned; the blocks for them are free."""
    requests, state, seats = engine.requests, engine.state, engine.seats
    reach = requests[request, COMPUTED] + count
    held = requests[request, HELD]
    if reach > held * limits.block_size:
        need = (reach + limits.block_size - 1) // limits.block_size
        take(engine.pool, requests[request, SLOT], held, need)
        requests[request, HELD] = need
    store(engine, limits, request, min(reach, requests[request, TOKENS]))
    step = (state[OLDEST] + state[IN_FLIGHT]) & 1
    index = state[FLIGHT_SIZE + step]
    seats[index, FLIGHT + FLIGHT_COLUMNS * step + REQUEST] = request
    seats[index, FLIGHT + FLIGHT_COLUMNS * step + COUNT] = count
    state[FLIGHT_SIZE + step] += 1
    state[FLIGHT_TOKENS + step] += count


@kernel
def withdraw(engine: Engine, request: int) -> int:
    """Take ``request`` out of the step being planned and return the tokens it had in it (0 if none)."""
    state, seats = engine.state, engine.seats
    step = (state[OLDEST] + state[IN_FLIGHT]) & 1
    column = FLIGHT + FLIGHT_COLUMNS * step
    size = state[FLIGHT_SIZE + step]
    index = 0
    while index < size and seats[index, column + REQUEST] != request:
        index += 1
    if index == size:
        return 0
    count = seats[index, column + COUNT]
    for later in range(index + 1, size):
        seats[later - 1, column + REQUEST] = seats[later, column + REQUEST]
        seats[later - 1, column + COUNT] = seats[later, column + COUNT]
    state[FLIGHT_SIZE + step] -= 1
    state[FLIGHT_TOKENS + step] -= count
    return int(count)


@kernel
def preempt(engine: Engine, limits: Limits, index: int) -> None:
    """Move the running request at ``index`` back to the queue; its keyed blocks stay cached until taken."""
    requests, seats, state = engine.requests, engine.seats, engine.state
    request = seats[index, RUNNING_AT]
    release(engine, request)
    for later in range(index + 1, state[RUNNING_COUNT]):
        seats[later - 1, RUNNING_AT] = seats[later, RUNNING_AT]
    state[RUNNING_COUNT] -= 1
    requests[request, STATUS] = WAITING
    requests[request, COMPUTED] = 0
    requests[request, PENDING] = 0
    requests[request, PREEMPTIONS] += 1
    if not limits.by_priority:
        state[LOWEST_RANK] -= 1
        engine.rank[request] = state[LOWEST_RANK]
    push(engine.queue, state[QUEUE_SIZE], engine.rank, request)
    state[QUEUE_SIZE] += 1
    state[WAITING_COUNT] += 1


@kernel
def victim(engine: Engine, limits: Limits) -> int:
    """Return where the request to preempt runs: the last, or by priority the first of the least urgent."""
    seats, requests = engine.seats, engine.requests
    last = engine.state[RUNNING_COUNT] - 1
    chosen = last
    if limits.by_priority:
        for index in range(last, -1, -1):
            if requests[seats[index, RUNNING_AT], URGENCY] >= requests[seats[chosen, RUNNING_AT], URGENCY]:
                chosen = index
    return int(chosen)


@kernel
def serve_running(engine: Engine, limits: Limits, cap: int) -> tuple[int, bool]:
    """Schedule the running requests; return the budget left in tokens, and whether any was preempted."""
    requests, seats, state = engine.requests, engine.seats, engine.state
    budget, preempted, index = limits.token_budget, False, 0
    while index < state[RUNNING_COUNT] and budget > 0:
        request = seats[index, RUNNING_AT]
        computed, pending = requests[request, COMPUTED], requests[request, PENDING]
        index += 1
        if pending > 0 and computed + 2 - pending >= requests[request, TOTAL]:
            continue  # its last token is already in flight
        count = requests[request, TOKENS] + pending - computed
        if 0 < cap < count:
            count = cap
        count = min(count, budget)
        while computed + count > (requests[request, HELD] + engine.pool.counts[FREE]) * limits.block_size:
            chosen = victim(engine, limits)
            evicted = seats[chosen, RUNNING_AT]
            if limits.by_priority:
                budget += withdraw(engine, evicted)
            preempt(engine, limits, chosen)
            preempted = True
            if chosen < index:
                index -= 1
            if evicted == request:
                return budget, preempted
        place(engine, limits, request, count)
        budget -= count
    return budget, preempted


@kernel
def admit(engine: Engine, limits: Limits, request: int, cap: int, budget: int) -> int:
    """Admit a waiting ``request`` and return the tokens scheduled; 0 if it has to wait, and nothing changed."""
    requests, state, pool, size = engine.requests, engine.state, engine.pool, limits.block_size
    slot = engine.seats[engine.seats.shape[0] - 1 - state[RUNNING_COUNT], UNUSED_SLOT]
    tokens = requests[request, TOKENS]
    found, idle = 0, 0
    if requests[request, SKIP_LOOKUP] == 0:
        found, idle = lookup(pool, slot, requests[request, BASE], (tokens - 1) // size)
    count = tokens - found * size
    if 0 < cap < count:
        count = cap
    if count > budget and not limits.chunked:
        return 0
    count = min(count, budget)
    room = pool.counts[FREE] - idle + found
    if state[RUNNING_COUNT] > 0:
        room -= limits.watermark
    reach = tokens if limits.reserve_full else found * size + count
    if reach > room * size:
        return 0
    touch(pool, slot, found)
    requests[request, SLOT] = slot
    requests[request, STATUS] = RUNNING
    requests[request, COMPUTED] = found * size
    requests[request, HELD] = found
    requests[request, STORED] = found
    place(engine, limits, request, count)
    if requests[request, PREEMPTIONS] == 0:
        requests[request, HIT] = found * size
        requests[request, ADMITTED] = state[STEP]
    elif requests[request, SKIP_LOOKUP] == 0:
        state[RESUMED_QUERIED] += tokens
        state[RESUMED_HIT] += found * size
    return int(count)


@kernel
def serve_waiting(engine: Engine, limits: Limits, cap: int, budget: int) -> None:
    """Admit waiting requests in order until one does not fit."""
    state = engine.state
    while budget > 0 and state[WAITING_COUNT] > 0 and state[RUNNING_COUNT] < limits.max_running:
        request = engine.queue[0]
        if engine.requests[request, STATUS] == WAITING:
            count = admit(engine, limits, request, cap, budget)
            if count == 0:
                break
            budget -= count
            engine.seats[state[RUNNING_COUNT], RUNNING_AT] = request
            state[RUNNING_COUNT] += 1
            state[WAITING_COUNT] -= 1
        # Otherwise it ended while it waited, by a token that was in flight when it was preempted.
        pop(engine.queue, state[QUEUE_SIZE], engine.rank)
        state[QUEUE_SIZE] -= 1


@kernel
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
        filled -= requests[request, HELD] * limits.block_size - requests[request, COMPUTED]
    state[HELD_BLOCKS] += held
    state[FILLED_TOKENS] += filled
    state[HISTOGRAM + filled * (UTILIZATION_BINS - 1) // (held * limits.block_size)] += 1


@kernel
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


@kernel
def finish(engine: Engine, request: int) -> None:
    """End ``request``, which runs or, if it was preempted with its last token in flight, waits."""
    requests, seats, state = engine.requests, engine.seats, engine.state
    if requests[request, STATUS] == RUNNING:
        release(engine, request)
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


@kernel
def deliver(engine: Engine, limits: Limits) -> int:
    """Hand out the tokens of the oldest step in flight, end what is complete, return how many it computed."""
    requests, seats, state = engine.requests, engine.seats, engine.state
    step = state[OLDEST]
    state[OLDEST] = 1 - step
    state[IN_FLIGHT] -= 1
    column = FLIGHT + FLIGHT_COLUMNS * step
    for index in range(state[FLIGHT_SIZE + step]):
        request = seats[index, column + REQUEST]
        if seats[index, column + SAMPLED] == 0:
            continue
        requests[request, TOKENS] += 1
        if limits.asynchronous and requests[request, STATUS] == RUNNING:
            requests[request, PENDING] -= 1
            store(engine, limits, request, requests[request, COMPUTED] - requests[request, PENDING])
        if requests[request, TOKENS] >= requests[request, TOTAL]:
            finish(engine, request)
    return int(state[FLIGHT_TOKENS + step])


@kernel
def run(engine: Engine, limits: Limits, order: NDArray[np.int32], arrival: NDArray[np.int64]) -> None:
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
            push(engine.queue, state[QUEUE_SIZE], engine.rank, order[upcoming])
            state[QUEUE_SIZE] += 1
            state[WAITING_COUNT] += 1
            upcoming += 1
            idle = False
        tokens = 0
        if state[RUNNING_COUNT] + state[WAITING_COUNT] + state[ENDED] > 0:
            tokens = plan(engine, limits)
        # With one step in flight the next one is planned before its tokens arrive.
        if not (limits.asynchronous and tokens > 0 and state[IN_FLIGHT] == 1):
            computed = deliver(engine, limits)
        else:
            computed = tokens
        if tokens > 0:
            state[STEP] += 1
            state[NOW] += limits.step_us + computed * limits.token_ns // 1000
        else:
            state[NOW] += limits.empty_step_us
