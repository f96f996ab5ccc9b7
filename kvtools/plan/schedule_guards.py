"""What policies do between two steps of the engine: let in, time out, make way, break, adapt. Compiled.

The breaker and the dynamic scheduler are those of an article on hot and cold paths (SEEDS: article B). Its words leave
gaps; each is filled here in one place and named in docs/plan-schedule.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.cache.inner import inner
from kvtools.cache.lanes import queued, unqueued, victim
from kvtools.cache.planning import preempt
from kvtools.cache.pool import FREE, lookup
from kvtools.cache.queues import push
from kvtools.cache.state import (
    ADMITTED,
    BASE,
    BLOCK,
    FINISHED_COUNT,
    LANE,
    LANE_CAP,
    LANE_RUNNING,
    LANE_SEATS,
    NO_LIMIT,
    NOW,
    PREEMPTED_COUNT,
    QUEUE_SIZE,
    RUNNING_AT,
    RUNNING_COUNT,
    SKIP_LOOKUP,
    STATUS,
    TOKENS,
    TOTAL,
    UNUSED_SLOT,
    WAITING,
    WAITING_COUNT,
)
from kvtools.cache.steps import finish
from kvtools.plan.schedule_state import (
    CHECKS,
    COLD_LANE,
    CPU_FREE,
    EMERGENCY,
    END_US,
    ENDED_SEEN,
    ENTERED,
    ENTERED_US,
    FINISHED,
    FIRST_US,
    HOT_LANE,
    KILLED,
    MOVED,
    NEXT_CHECK,
    OUTCOME,
    PREEMPTED,
    PREEMPTED_SEEN,
    PRESENT_US,
    PROMOTED,
    PROMPT,
    REFUSALS,
    REFUSED,
    RETRY_SIZE,
    SHORTENED,
    SLOW_FIRST,
    TIMER_HEAD,
    TIMER_SIZE,
    TRIES,
    TRIPS,
)

if TYPE_CHECKING:
    from kvtools.cache.state import Engine, Limits
    from kvtools.plan.schedule_state import Clock, Guards, Run


@inner
def usage_permille(engine: Engine) -> int:
    """Return the blocks that requests hold over all blocks, in permille, as vLLM's ``kv_cache_usage_perc`` counts."""
    total = engine.pool.blocks.shape[0] - 1
    return int((total - engine.pool.counts[FREE]) * 1000 // total)


@inner
def move_to_cpu(engine: Engine, clock: Clock, run: Run, request: int, now: int) -> None:
    """Let the CPU serve a request that arrives at ``now``, after those that it was given before."""
    fate, answer = run.fate, engine.requests[request, TOTAL] - run.fate[request, PROMPT]
    begin = max(now, run.dials[CPU_FREE])
    first = begin + fate[request, PROMPT] * clock.cpu_token_ns // 1000 + clock.cpu_step_us
    fate[request, ENTERED_US] = now
    fate[request, FIRST_US] = first
    fate[request, END_US] = first + (answer - 1) * clock.cpu_step_us
    fate[request, OUTCOME] = FINISHED
    fate[request, MOVED] = 1
    engine.requests[request, TOKENS] = engine.requests[request, TOTAL]
    run.dials[CPU_FREE] = fate[request, END_US]
    # The loop's integral of the requests present does not see this one.
    run.dials[PRESENT_US] += fate[request, END_US] - max(now, engine.state[NOW])


@inner
def let_in(
    engine: Engine, limits: Limits, clock: Clock, guards: Guards, run: Run, request: int, now: int
) -> None:
    """Take a request that arrives at ``now`` into its lane, or answer 503: its client comes again or gives up."""
    fate, dials, requests = run.fate, run.dials, engine.requests
    cold = requests[request, LANE] == COLD_LANE
    fate[request, TRIES] += 1
    if cold and clock.cpu_step_us > 0 and clock.fails_us <= now < clock.mended_us:
        move_to_cpu(engine, clock, run, request, now)
        return
    if cold and guards.breaker and usage_permille(engine) > guards.memory:
        dials[REFUSALS] += 1
        if fate[request, TRIES] > guards.retries:
            fate[request, OUTCOME] = REFUSED
            fate[request, END_US] = engine.state[NOW]
            return
        run.due[request] = now + run.delay_us[request, fate[request, TRIES] - 1]
        push(run.retry, 0, dials[RETRY_SIZE], run.due, request)
        dials[RETRY_SIZE] += 1
        return
    fate[request, ENTERED_US] = now
    if not limits.by_priority:
        # A client that comes again stands behind those that came before it did.
        engine.rank[request] = dials[ENTERED]
    dials[ENTERED] += 1
    if cold and dials[EMERGENCY] > 0 and guards.cold_output > 0:
        most = fate[request, PROMPT] + guards.cold_output
        if requests[request, TOTAL] > most:
            requests[request, TOTAL] = most
            fate[request, SHORTENED] = 1
    if cold and guards.timeout_us > 0:
        run.timer[dials[TIMER_SIZE]] = request
        dials[TIMER_SIZE] += 1
    queued(engine, request)


@inner
def end(engine: Engine, limits: Limits, run: Run, request: int) -> None:
    """End a waiting or running request before it is complete."""
    if engine.requests[request, STATUS] == WAITING:
        unqueued(engine, request)
        engine.state[WAITING_COUNT] += 1  # ``finish`` takes it off once more
    finish(engine, limits, request)
    run.fate[request, OUTCOME] = KILLED
    run.fate[request, END_US] = engine.state[NOW]


@inner
def time_out(engine: Engine, limits: Limits, guards: Guards, run: Run) -> None:
    """Make cold requests hot that have waited too long and never ran, or end them."""
    dials, requests, now = run.dials, engine.requests, engine.state[NOW]
    while dials[TIMER_HEAD] < dials[TIMER_SIZE]:
        request = run.timer[dials[TIMER_HEAD]]
        if run.fate[request, ENTERED_US] + guards.timeout_us > now:
            return
        dials[TIMER_HEAD] += 1
        if requests[request, STATUS] != WAITING or requests[request, ADMITTED] >= 0:
            continue
        if guards.timeout_ends:
            end(engine, limits, run, request)
        else:
            unqueued(engine, request)
            requests[request, LANE] = HOT_LANE
            run.fate[request, PROMOTED] = 1
            queued(engine, request)


@inner
def head_fits(engine: Engine, limits: Limits, request: int) -> bool:
    """Tell whether the blocks for all tokens of a waiting ``request`` are free; there is a seat for it."""
    requests, pool, size = engine.requests, engine.pool, engine.requests[request, BLOCK]
    slot = engine.seats[engine.seats.shape[0] - 1 - engine.state[RUNNING_COUNT], UNUSED_SLOT]
    tokens, found, idle = requests[request, TOKENS], 0, 0
    if requests[request, SKIP_LOOKUP] == 0:
        found, idle = lookup(pool, slot, requests[request, BASE], (tokens - 1) // size)
    room = pool.counts[FREE] - idle + found
    if engine.state[RUNNING_COUNT] > 0:
        room -= limits.watermark
    return bool(tokens <= room * size)


@inner
def preempt_cold(engine: Engine, limits: Limits, run: Run) -> None:
    """Move the last cold request that runs back to its queue; there is one."""
    preempt(engine, limits, victim(engine, limits, COLD_LANE))
    run.dials[PREEMPTED] += 1


@inner
def make_way(engine: Engine, limits: Limits, run: Run) -> None:
    """Preempt running cold requests, the last first, until waiting hot ones have seats and the first has blocks."""
    state = engine.state
    wanted = min(state[QUEUE_SIZE], state[LANE_SEATS] - state[LANE_RUNNING])
    while state[LANE_RUNNING + 1] > 0 and limits.max_running - state[RUNNING_COUNT] < wanted:
        preempt_cold(engine, limits, run)
    if wanted > 0:
        head = engine.queue[HOT_LANE, 0]
        while state[LANE_RUNNING + 1] > 0 and not head_fits(engine, limits, head):
            preempt_cold(engine, limits, run)


@inner
def longest_cold(engine: Engine) -> int:
    """Return the running cold request with the most tokens, -1 where none runs."""
    chosen = -1
    for index in range(engine.state[RUNNING_COUNT]):
        request = engine.seats[index, RUNNING_AT]
        longer = chosen < 0 or engine.requests[request, TOKENS] > engine.requests[chosen, TOKENS]
        if engine.requests[request, LANE] == COLD_LANE and longer:
            chosen = request
    return int(chosen)


@inner
def hot_is_slow(engine: Engine, guards: Guards, run: Run) -> bool:
    """Tell whether a hot first token took too long since the last look, or is about to: the oldest one that waits."""
    if run.dials[SLOW_FIRST] > 0:
        return True
    if engine.state[QUEUE_SIZE] == 0:
        return False
    oldest = engine.queue[HOT_LANE, 0]
    waiting = engine.requests[oldest, ADMITTED] < 0
    return bool(waiting and engine.state[NOW] - run.fate[oldest, ENTERED_US] > guards.slow_us)


@inner
def check_breaker(engine: Engine, limits: Limits, guards: Guards, run: Run) -> None:
    """Stages two and three: interruptions lower the seats of cold requests, slow hot ones kill the longest cold one."""
    dials, state = run.dials, engine.state
    ended = state[FINISHED_COUNT] - dials[ENDED_SEEN]
    lately = state[PREEMPTED_COUNT] - dials[PREEMPTED_SEEN]
    tripped = lately * 1000 > guards.interrupted * (lately + ended)
    if tripped:
        free_squared = limits.max_running * limits.max_running - state[RUNNING_COUNT] * state[RUNNING_COUNT]
        state[LANE_SEATS + 1] = max(1, free_squared // limits.max_running)
    else:
        state[LANE_SEATS + 1] = NO_LIMIT
    slow = hot_is_slow(engine, guards, run)
    if slow:
        longest = longest_cold(engine)
        if longest >= 0:
            end(engine, limits, run, longest)
    dials[EMERGENCY] = int(tripped or slow or usage_permille(engine) > guards.memory)
    dials[ENDED_SEEN] = state[FINISHED_COUNT]
    dials[PREEMPTED_SEEN] = state[PREEMPTED_COUNT]
    dials[SLOW_FIRST] = 0
    dials[NEXT_CHECK] = state[NOW] + guards.check_us


@inner
def check_dynamic(engine: Engine, limits: Limits, guards: Guards, run: Run) -> None:
    """Many cold requests or little memory: smaller cold chunks and answers; and above the last line, cold ones go."""
    dials, state = run.dials, engine.state
    cold = state[LANE_RUNNING + 1] + state[QUEUE_SIZE + 1]
    present = cold + state[LANE_RUNNING] + state[QUEUE_SIZE]
    share = cold * 1000 // present if present > 0 else 0
    emergency = share > guards.cold_share or usage_permille(engine) > guards.memory
    dials[EMERGENCY] = int(emergency)
    cap = state[LANE_CAP + 1]
    if emergency:
        cap = guards.cold_step_tokens if cap == 0 else cap
        state[LANE_CAP + 1] = max(guards.least_step_tokens, cap * 8 // 10)
    elif cap > 0:
        state[LANE_CAP + 1] = cap * 10 // 8 if cap * 10 // 8 < guards.cold_step_tokens else 0
    while state[LANE_RUNNING + 1] > 0 and usage_permille(engine) > guards.release:
        preempt_cold(engine, limits, run)
    # The more cold requests, the more often it looks: from once a second to ten times.
    dials[NEXT_CHECK] = state[NOW] + max(guards.check_us * (1000 - share) // 1000, guards.check_us // 10)


@inner
def guard(engine: Engine, limits: Limits, guards: Guards, run: Run) -> None:
    """Do what the policy does before the next step is planned."""
    dials = run.dials
    if guards.check_us > 0 and engine.state[NOW] >= dials[NEXT_CHECK]:
        if guards.breaker:
            check_breaker(engine, limits, guards, run)
        if guards.dynamic:
            check_dynamic(engine, limits, guards, run)
        dials[CHECKS] += 1
        dials[TRIPS] += dials[EMERGENCY]
    if guards.timeout_us > 0 and (dials[EMERGENCY] > 0 or not guards.dynamic):
        time_out(engine, limits, guards, run)
    if guards.make_way:
        make_way(engine, limits, run)
