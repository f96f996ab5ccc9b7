"""The state of the simulated engine in flat arrays: requests, seats, steps in flight, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvtools.cache.pool import Pool

(TOTAL, SKIP_LOOKUP, URGENCY, BASE, TOKENS, COMPUTED, PENDING, HELD, STORED, SLOT) = range(10)
(STATUS, PREEMPTIONS, HIT, ADMITTED, FINISHED_AT, FINISH_PLACE, LANE, BLOCK, TIER_HIT) = range(10, 19)
REQUEST_COLUMNS = 19
"""Columns of ``Engine.requests``, one row per request.

Given: prompt and output tokens; 1 if it reads no cache; place in (priority, arrival), equal if those are;
where its keys begin. Changing: tokens known; tokens scheduled; tokens in flight; blocks held; blocks keyed;
its block table; its status; preemptions. Results: hit tokens at first admission; the step of it;
the step of its end; its place in the order of ends. Given: the lane that it waits in;
the tokens that a block holds of it. Result: tokens that a second tier brought back at the first admission.
"""

WAITING, RUNNING, FINISHED = range(3)
"""Values of ``requests[:, STATUS]``."""

RUNNING_AT, UNUSED_SLOT, FLIGHT = range(3)
REQUEST, COUNT, SAMPLED, FLIGHT_COLUMNS = range(4)
SEAT_COLUMNS = FLIGHT + 2 * FLIGHT_COLUMNS
"""Columns of ``Engine.seats``: the running requests in order; a stack of unused block tables; and for each of
the two steps in flight its requests in order, their tokens, and 1 if the step samples a token for them."""

LANES = 2
"""Waiting queues. vLLM has one, lane 0; a scheduler that parts hot from cold keeps cold requests in lane 1."""

(RUNNING_COUNT, WAITING_COUNT, LOWEST_RANK, NOW, STEP, IN_FLIGHT, OLDEST, ENDED) = range(8)
(FINISHED_COUNT, SCHEDULED_TOKENS, RESUMED_QUERIED, RESUMED_HIT, FILLED_TOKENS, HELD_BLOCKS) = range(8, 14)
PREEMPTED_COUNT, RELOADED, FLIGHT_SIZE, FLIGHT_TOKENS = 14, 15, 16, 18
(QUEUE_SIZE, LANE_RUNNING, LANE_SEATS, LANE_HELD, LANE_ROOM, LANE_CAP, HISTOGRAM) = range(20, 33, LANES)
UTILIZATION_BINS = 1001
STATE_ENTRIES = HISTOGRAM + UTILIZATION_BINS
NO_LIMIT = 1 << 40
"""Entries of ``Engine.state``. ``RELOADED``: blocks that the second tier brought back so far. Those of two entries have
one for each step in flight (``FLIGHT_``) or for each lane: requests in its queue, those of it that run and that may at
most, blocks that those hold and may hold at most (a shared block counts for every holder), and the tokens that a step
may compute of one of them (0: no cap of its own). The last ones count the steps by the utilisation of their blocks in
permille.
"""


class Limits(NamedTuple):
    """The settings of a run; ``watermark`` in blocks, the durations in integers of the caller's clock.

    ``first_lane_first``: lane 0 is served before lane 1, whoever came first. ``spare_first_lane``: where blocks are
    short, requests of lane 1 are preempted before any other. ``drop_second_lane``: what a request of lane 1 leaves is
    not kept in the cache. vLLM's own scheduler has none of the three.
    """

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
    commit_at_finish: bool
    step_us: int
    token_ns: int
    empty_step_us: int
    first_lane_first: bool = False
    spare_first_lane: bool = False
    drop_second_lane: bool = False


class Engine(NamedTuple):
    """The state of a run; the functions of this module change it in place.

    ``requests`` is [n, 19], ``seats`` [running requests at most, 9], ``queue`` [2, n] (1 where one lane is used),
    ``rank`` [n], ``state`` flat.
    """

    pool: Pool
    requests: NDArray[np.int64]
    seats: NDArray[np.int64]
    queue: NDArray[np.int32]
    rank: NDArray[np.int32]
    state: NDArray[np.int64]
