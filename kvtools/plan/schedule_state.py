"""What the schedule simulation keeps besides the engine's state: clock, settings of a policy, fate of each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HOT_LANE, COLD_LANE = 0, 1

(ARRIVED_US, ENTERED_US, FIRST_US, END_US, OUTCOME, TRIES, PROMOTED, SHORTENED) = range(8)
PROMPT, MOVED, FATE_COLUMNS = 8, 9, 10
"""Columns of ``Run.fate``, one row per request: first arrival; the arrival that was let in (-1: none); first token
(-1: none); end (-1: not yet); outcome; how often it was sent; 1 if a timeout made it hot; 1 if its answer was cut;
prompt tokens; 1 if a CPU served it."""

PENDING, FINISHED, REFUSED, KILLED = range(4)
"""Values of ``fate[:, OUTCOME]``. ``REFUSED``: never let in, its client gave up. ``KILLED``: let in, then ended."""

(NEXT_CHECK, EMERGENCY, ENTERED, RETRY_SIZE, TIMER_HEAD, TIMER_SIZE, ENDED_SEEN, PREEMPTED_SEEN) = range(8)
(SLOW_FIRST, PREEMPTED, PRESENT_US, BUSY_US, TRIPS, CHECKS, USED_MOST, REFUSALS, CPU_FREE) = range(8, 17)
(RELOADS_SEEN, USAGE) = range(17, 19)
USAGE_BINS = 1001
DIAL_ENTRIES = USAGE + USAGE_BINS
"""Entries of ``Run.dials``: when the guards look next; 1 in an emergency; requests let in; those that come again; the
timer list's ends; ends and preemptions at the last look; 1 if a hot first token was slow since then; preemptions by
policy; µs x requests present; µs with a step running; looks that tripped; all looks; most blocks held; 503s sent; when
the CPU is free; blocks brought back before this step. The last ones sum the µs by KV usage in permille.
"""


class Clock(NamedTuple):
    """How long a step takes: ``step_us`` and ``token_ns`` a computed token, ``context_ns`` a token of context read.

    ``overlap``: reading and computing go on at once and the longer one counts (a roofline); else they add up.
    ``reload_ns``: a block that the second tier brings back. From ``fails_us`` to ``mended_us`` of the log's clock only
    ``left`` (permille) of the speed is there, and policies that know cold requests send those that arrive to a CPU,
    which serves one after the other: ``cpu_token_ns`` a prompt token, ``cpu_step_us`` an output token.
    """

    step_us: int
    token_ns: int
    context_ns: int
    overlap: bool
    reload_ns: int = 0
    fails_us: int = 0
    mended_us: int = 0
    left: int = 1000
    cpu_token_ns: int = 0
    cpu_step_us: int = 0


class Guards(NamedTuple):
    """What a policy does besides admitting in order; 0 is off, shares in permille, times in µs.

    ``timeout_us``: a cold request that waits so long becomes hot (or is ended: ``timeout_ends``). ``make_way``: running
    cold requests are preempted for waiting hot ones. ``check_us``: how often breaker and dynamic look.
    """

    retries: int = 0
    timeout_us: int = 0
    timeout_ends: bool = False
    make_way: bool = False
    breaker: bool = False
    dynamic: bool = False
    check_us: int = 0
    memory: int = 0
    interrupted: int = 0
    slow_us: int = 0
    cold_share: int = 0
    release: int = 0
    cold_output: int = 0
    cold_step_tokens: int = 0
    least_step_tokens: int = 0


class Run(NamedTuple):
    """The arrays of a run: ``fate`` [n, 10]; ``delay_us`` [n, tries] until each further try; ``due`` [n] when it comes.

    ``retry`` [1, n] is a heap of requests by ``due``; ``timer`` [n] lists cold requests in the order they came in.
    """

    fate: NDArray[np.int64]
    delay_us: NDArray[np.int64]
    due: NDArray[np.int64]
    retry: NDArray[np.int32]
    timer: NDArray[np.int32]
    dials: NDArray[np.int64]
