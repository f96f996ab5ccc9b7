"""Waiting lanes: vLLM has one; a scheduler that parts hot requests from cold ones keeps the cold in a second.

A lane may have limits of its own: seats, blocks, and the tokens that a step computes of one request. Without limits,
and unless the first lane goes first, two lanes admit in the order of one queue: the head of lower rank comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.cache.inner import inlined, inner
from kvtools.cache.queues import pop, push, remove
from kvtools.cache.state import (
    LANE,
    LANE_CAP,
    LANE_RUNNING,
    LANE_SEATS,
    QUEUE_SIZE,
    RUNNING_AT,
    RUNNING_COUNT,
    URGENCY,
    WAITING_COUNT,
)

if TYPE_CHECKING:
    from kvtools.cache.state import Engine, Limits

NO_LANE = -1


@inner
def queued(engine: Engine, request: int) -> None:
    """Let ``request`` wait in its lane."""
    state, lane = engine.state, engine.requests[request, LANE]
    push(engine.queue, lane, state[QUEUE_SIZE + lane], engine.rank, request)
    state[QUEUE_SIZE + lane] += 1
    state[WAITING_COUNT] += 1


@inner
def unqueued(engine: Engine, request: int) -> None:
    """Take the waiting ``request`` out of its lane."""
    state, lane = engine.state, engine.requests[request, LANE]
    remove(engine.queue, lane, state[QUEUE_SIZE + lane], engine.rank, request)
    state[QUEUE_SIZE + lane] -= 1
    state[WAITING_COUNT] -= 1


@inner
def leave_head(engine: Engine, lane: int) -> None:
    """Take the head of ``lane`` out of it: it was admitted, or had ended."""
    state = engine.state
    pop(engine.queue, lane, state[QUEUE_SIZE + lane], engine.rank)
    state[QUEUE_SIZE + lane] -= 1


@inlined
def has_seat(engine: Engine, lane: int) -> bool:
    """Tell whether a request waits in ``lane`` that its limit of seats lets run."""
    state = engine.state
    return bool(state[QUEUE_SIZE + lane] > 0 and state[LANE_RUNNING + lane] < state[LANE_SEATS + lane])


@inlined
def next_lane(engine: Engine, limits: Limits, closed: int) -> int:
    """Return the lane whose head is admitted next, ``NO_LANE`` where neither may be; ``closed`` is passed over."""
    first = closed != 0 and has_seat(engine, 0)
    if engine.queue.shape[0] == 1:
        return 0 if first else NO_LANE
    second = closed != 1 and has_seat(engine, 1)
    if first and second and not limits.first_lane_first:
        return 0 if engine.rank[engine.queue[0, 0]] < engine.rank[engine.queue[1, 0]] else 1
    return 0 if first else 1 if second else NO_LANE


@inlined
def lane_cap(engine: Engine, request: int, cap: int) -> int:
    """Return the tokens of ``request`` that a step may compute (0: no cap), the smaller of ``cap`` and its lane's."""
    own = engine.state[LANE_CAP + engine.requests[request, LANE]]
    return int(own if cap == 0 or 0 < own < cap else cap)


@inner
def victim(engine: Engine, limits: Limits, lane: int) -> int:
    """Return where the request to preempt runs: the last, or by priority the first of the least urgent.

    With ``lane``: the last one of it. ``spare_first_lane`` asks for the one of lane 1, where one runs, that came last:
    that is whom vLLM's priority takes among equals, and a promoted request may have been let in long after it came.
    """
    seats, requests = engine.seats, engine.requests
    last = engine.state[RUNNING_COUNT] - 1
    if lane == NO_LANE and limits.spare_first_lane and engine.state[LANE_RUNNING + 1] > 0:
        lane = 1
    chosen = last
    if lane != NO_LANE:
        while requests[seats[chosen, RUNNING_AT], LANE] != lane:
            chosen -= 1
    if limits.spare_first_lane:
        for index in range(chosen - 1, -1, -1):
            later = engine.rank[seats[index, RUNNING_AT]] > engine.rank[seats[chosen, RUNNING_AT]]
            if later and (lane == NO_LANE or requests[seats[index, RUNNING_AT], LANE] == lane):
                chosen = index
    elif limits.by_priority:
        for index in range(last, -1, -1):
            if requests[seats[index, RUNNING_AT], URGENCY] >= requests[seats[chosen, RUNNING_AT], URGENCY]:
                chosen = index
    return int(chosen)
