"""What the scheduler simulator is given: the requests as blocks, and the time that a step takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvtools.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvtools.model import CacheSpec, SchedulerSpec


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The requests of a run in the order of the log; n requests.

    ``prompt_tokens``, ``output_tokens`` (at least 1), ``arrival_us`` (read only with ``arrivals="log"``),
    ``priority`` (lower is served first) and ``skip_lookup`` (the request reads no cache but fills it, as with
    ``prompt_logprobs``) have one entry per request.

    ``block_ids[offsets[r] : offsets[r + 1]]`` are the keys of the full blocks of request r's prompt and
    output as dense ids from 0, equal if and only if the chained keys are equal. At least
    ``(prompt_tokens + output_tokens - 1) // block_size`` of them: the last token's own KV is never computed.
    """

    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    block_ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    arrival_us: NDArray[np.int64]
    priority: NDArray[np.int64]
    skip_lookup: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """In what two classes of requests differ, and what stands behind the pool: nothing of it is vLLM's own.

    ``second_lane`` [n]: who waits in the second lane (``None``: there is one). ``block_tokens`` [n]: how many tokens of
    a request a block holds (``None``: ``CacheSpec.block_size``); ``block_ids`` then list blocks of that size.
    ``tier_blocks`` of a second tier, which copies every block (0: none).
    """

    second_lane: NDArray[np.bool_] | None = None
    block_tokens: NDArray[np.int64] | None = None
    tier_blocks: int = 0


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long an engine step takes: ``step_us`` plus ``token_ns`` for each token that it computes.

    A linear model, rounded down to whole microseconds, so that a run is a matter of integers. A planning
    round in which nothing could run lasts ``empty_step_us``. ``StepTime(1, 0, 1)`` counts in rounds.
    """

    step_us: int
    token_ns: int = 0
    empty_step_us: int = 0

    def __post_init__(self) -> None:
        if min(self.step_us, self.token_ns, self.empty_step_us) < 0:
            raise UsageError("a step takes at least 0 µs: give a step time without negative parts.")


def without_needless_blocks(work: Workload, cache: CacheSpec, scheduler: SchedulerSpec) -> CacheSpec:
    """Return ``cache`` without a limit where it could hold every block of ``work`` and all that is held at once.

    Such a cache never evicts, and a pool of all its blocks would only take memory.
    """
    if cache.capacity_blocks is None:
        return cache
    need = -(-(work.prompt_tokens + work.output_tokens - 1) // cache.block_size)
    seats = 1 if scheduler.arrivals == "sequential" else min(scheduler.max_num_seqs, max(len(need), 1))
    distinct = int(work.block_ids.max(initial=-1)) + 1
    ample = distinct + seats * int(need.max(initial=1))
    return replace(cache, capacity_blocks=None) if cache.capacity_blocks >= ample else cache
