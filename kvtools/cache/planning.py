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

from typing import TYPE_CHECKING

from kvtools.cache.inner import inlined, inner
from kvtools.cache.lanes import NO_LANE, lane_cap, leave_head, next_lane, queued, victim
from kvtools.cache.pool import FREE, TIER_SIZE, copies, copy, free, lookup, register, take, touch
from kvtools.cache.state import (
    ADMITTED,
    BASE,
    BLOCK,
    COMPUTED,
    COUNT,
    FLIGHT,
    FLIGHT_COLUMNS,
    FLIGHT_SIZE,
    FLIGHT_TOKENS,
    HELD,
    HIT,
    IN_FLIGHT,
    LANE,
    LANE_HELD,
    LANE_ROOM,
    LANE_RUNNING,
    LOWEST_RANK,
    OLDEST,
    PENDING,
    PREEMPTED_COUNT,
    PREEMPTIONS,
    RELOADED,
    REQUEST,
    RESUMED_HIT,
    RESUMED_QUERIED,
    RUNNING,
    RUNNING_AT,
    RUNNING_COUNT,
    SKIP_LOOKUP,
    SLOT,
    STATUS,
    STEP,
    STORED,
    TIER_HIT,
    TOKENS,
    TOTAL,
    UNUSED_SLOT,
    WAITING,
    WAITING_COUNT,
)

if TYPE_CHECKING:
    from kvtools.cache.state import Engine, Limits


@inlined
def key_full_blocks(engine: Engine, request: int, tokens: int) -> None:
    """Key the blocks of ``request`` that its first ``tokens`` tokens fill."""
    requests, size = engine.requests, engine.requests[request, BLOCK]
    stored = requests[request, STORED]
    if tokens >= (stored + 1) * size:
        full = tokens // size
        register(engine.pool, requests[request, SLOT], requests[request, BASE], stored, full)
        if engine.pool.counts[TIER_SIZE] > 0:
            copy(engine.pool, requests[request, BASE], stored, full)
        requests[request, STORED] = full


@inlined
def store(engine: Engine, limits: Limits, request: int, tokens: int) -> None:
    """Key the blocks of ``request`` that its first ``tokens`` tokens fill, unless that waits for its end."""
    if not limits.commit_at_finish:
        key_full_blocks(engine, request, tokens)


@inner
def release(engine: Engine, request: int, kept: int) -> None:
    """Free the blocks of a running ``request`` and its block table; only its first ``kept`` blocks stay cached."""
    requests, state = engine.requests, engine.state
    slot, held = requests[request, SLOT], requests[request, HELD]
    free(engine.pool, slot, held, kept)
    state[LANE_RUNNING + requests[request, LANE]] -= 1
    state[LANE_HELD + requests[request, LANE]] -= held
    requests[request, HELD] = 0
    requests[request, STORED] = 0
    # Every running request has one table, and this one is about to leave: the stack grows by one.
    engine.seats[engine.seats.shape[0] - state[RUNNING_COUNT], UNUSED_SLOT] = slot


@inlined
def place(engine: Engine, limits: Limits, request: int, count: int) -> None:
    """Schedule ``count`` tokens of ``request`` in the step being planned; the blocks for them are free."""
    requests, state, seats = engine.requests, engine.state, engine.seats
    reach = requests[request, COMPUTED] + count
    held, size = requests[request, HELD], requests[request, BLOCK]
    if reach > held * size:
        need = (reach + size - 1) // size
        take(engine.pool, requests[request, SLOT], held, need)
        requests[request, HELD] = need
        state[LANE_HELD + requests[request, LANE]] += need - held
    store(engine, limits, request, min(reach, requests[request, TOKENS]))
    step = (state[OLDEST] + state[IN_FLIGHT]) & 1
    index = state[FLIGHT_SIZE + step]
    seats[index, FLIGHT + FLIGHT_COLUMNS * step + REQUEST] = request
    seats[index, FLIGHT + FLIGHT_COLUMNS * step + COUNT] = count
    state[FLIGHT_SIZE + step] += 1
    state[FLIGHT_TOKENS + step] += count


@inner
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


@inner
def preempt(engine: Engine, limits: Limits, index: int) -> None:
    """Move the running request at ``index`` back to the queue; its keyed blocks stay cached until taken."""
    requests, seats, state = engine.requests, engine.seats, engine.state
    request = seats[index, RUNNING_AT]
    release(engine, request, requests[request, HELD])
    for later in range(index + 1, state[RUNNING_COUNT]):
        seats[later - 1, RUNNING_AT] = seats[later, RUNNING_AT]
    state[RUNNING_COUNT] -= 1
    requests[request, STATUS] = WAITING
    requests[request, COMPUTED] = 0
    requests[request, PENDING] = 0
    requests[request, PREEMPTIONS] += 1
    state[PREEMPTED_COUNT] += 1
    if not (limits.by_priority or limits.spare_first_lane):
        state[LOWEST_RANK] -= 1
        engine.rank[request] = state[LOWEST_RANK]
    queued(engine, request)


@inlined
def lacks(engine: Engine, request: int, reach: int) -> int:
    """Say what a running ``request`` lacks to hold ``reach`` tokens: 0 nothing, 1 blocks, 2 its lane's room."""
    state, held, size = engine.state, engine.requests[request, HELD], engine.requests[request, BLOCK]
    if reach > (held + engine.pool.counts[FREE]) * size:
        return 1
    lane = engine.requests[request, LANE]
    if reach > (held + state[LANE_ROOM + lane] - state[LANE_HELD + lane]) * size:
        return 2
    return 0


@inner
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
        most = lane_cap(engine, request, cap)
        if 0 < most < count:
            count = most
        count = min(count, budget)
        lack = lacks(engine, request, computed + count)
        while lack > 0:
            chosen = victim(engine, limits, requests[request, LANE] if lack == 2 else NO_LANE)
            evicted = seats[chosen, RUNNING_AT]
            if limits.by_priority or limits.spare_first_lane or lack == 2:
                budget += withdraw(engine, evicted)
            preempt(engine, limits, chosen)
            preempted = True
            if chosen < index:
                index -= 1
            if evicted == request:
                return budget, preempted
            lack = lacks(engine, request, computed + count)
        place(engine, limits, request, count)
        budget -= count
    return budget, preempted


@inlined
def hold(engine: Engine, request: int, slot: int, found: int, again: int) -> None:
    """Let ``request`` run with the ``found`` cached blocks in table ``slot``, and ``again`` more of the second tier."""
    requests, state = engine.requests, engine.state
    touch(engine.pool, slot, found)
    requests[request, SLOT] = slot
    requests[request, STATUS] = RUNNING
    requests[request, COMPUTED] = (found + again) * requests[request, BLOCK]
    state[RELOADED] += again
    requests[request, HELD] = found
    requests[request, STORED] = found
    state[LANE_RUNNING + requests[request, LANE]] += 1
    state[LANE_HELD + requests[request, LANE]] += found


@inner
def admit(engine: Engine, limits: Limits, request: int, cap: int, budget: int) -> int:
    """Admit a waiting ``request`` and return the tokens scheduled; 0 if it has to wait, and nothing changed.

    -1 if it waits for its own lane's room alone.
    """
    requests, state, pool, size = engine.requests, engine.state, engine.pool, engine.requests[request, BLOCK]
    slot = engine.seats[engine.seats.shape[0] - 1 - state[RUNNING_COUNT], UNUSED_SLOT]
    tokens, lane = requests[request, TOKENS], requests[request, LANE]
    found, idle, again = 0, 0, 0
    if requests[request, SKIP_LOOKUP] == 0:
        found, idle = lookup(pool, slot, requests[request, BASE], (tokens - 1) // size)
        again = copies(pool, requests[request, BASE] + found, (tokens - 1) // size - found)
    count = tokens - (found + again) * size
    most = lane_cap(engine, request, cap)
    if 0 < most < count:
        count = most
    if count > budget and not limits.chunked:
        return 0
    count = min(count, budget)
    room = pool.counts[FREE] - idle + found
    if state[RUNNING_COUNT] > 0:
        room -= limits.watermark
    reach = tokens if limits.reserve_full else (found + again) * size + count
    if reach > room * size:
        return 0
    if reach > (state[LANE_ROOM + lane] - state[LANE_HELD + lane]) * size:
        return -1
    hold(engine, request, slot, found, again)
    place(engine, limits, request, count)
    if requests[request, PREEMPTIONS] == 0:
        requests[request, HIT] = found * size
        requests[request, TIER_HIT] = again * size
        requests[request, ADMITTED] = state[STEP]
    elif requests[request, SKIP_LOOKUP] == 0:
        state[RESUMED_QUERIED] += tokens
        state[RESUMED_HIT] += found * size
    return int(count)


@inlined
def serve_waiting(engine: Engine, limits: Limits, cap: int, budget: int) -> None:
    """Admit waiting requests in order until one does not fit; a lane whose own room is spent is passed over."""
    state, closed = engine.state, NO_LANE
    while budget > 0 and state[WAITING_COUNT] > 0 and state[RUNNING_COUNT] < limits.max_running:
        lane = next_lane(engine, limits, closed)
        if lane == NO_LANE:
            break
        request = engine.queue[lane, 0]
        if engine.requests[request, STATUS] == WAITING:
            count = admit(engine, limits, request, cap, budget)
            if count == -1 and closed == NO_LANE:
                closed = lane
                continue
            if count <= 0:
                break
            budget -= count
            engine.seats[state[RUNNING_COUNT], RUNNING_AT] = request
            state[RUNNING_COUNT] += 1
            state[WAITING_COUNT] -= 1
        # Otherwise it ended while it waited, by a token that was in flight when it was preempted.
        leave_head(engine, lane)
