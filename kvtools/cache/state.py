"""The state of the simulated engine in flat arrays: requests, seats, steps in flight, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvtools.cache.pool import Pool

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
    commit_at_finish: bool
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
