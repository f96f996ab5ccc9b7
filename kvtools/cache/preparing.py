"""What the scheduler simulator starts from: settings checked, requests in their order, an engine that is empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import state as at
from kvtools.cache.pool import Rules, new_pool
from kvtools.cache.state import Engine, Limits
from kvtools.cache.workload import StepTime
from kvtools.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.cache.workload import Split, Workload
    from kvtools.model import CacheSpec, SchedulerSpec


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A run before its first step: what ``steps.run`` takes, or another loop over the same steps.

    ``refused`` [n] can never run; ``order`` lists the others in order of ``arrival_us`` [n].
    """

    engine: Engine
    limits: Limits
    order: NDArray[np.int32]
    arrival_us: NDArray[np.int64]
    refused: NDArray[np.bool_]


def prepare(
    work: Workload,
    cache: CacheSpec,
    scheduler: SchedulerSpec,
    step_time: StepTime | None = None,
    split: Split | None = None,
) -> Prepared:
    """Return what ``simulate`` runs; ``split`` says in what two classes of requests differ (``None``: in nothing).

    Raises:
        UsageError, ValueError: as ``simulate``.
    """
    _check_settings(cache, scheduler, step_time)
    block_tokens = np.full(len(work.prompt_tokens), cache.block_size, np.int64)
    if split is not None and split.block_tokens is not None:
        block_tokens = split.block_tokens
    need = -(-(work.prompt_tokens + work.output_tokens - 1) // block_tokens)
    refused = _refused(work, need, cache, scheduler)
    _check(work, refused, block_tokens)
    order, arrival, rank, urgency = _order(work, ~refused, scheduler)
    seats = 1 if scheduler.arrivals == "sequential" else max(min(scheduler.max_num_seqs, order.size), 1)
    tier = 0 if split is None else split.tier_blocks
    rules = Rules(cache.free_partial_blocks == "last", tier_blocks=tier)
    engine = _engine(work, need[order], seats, cache.capacity_blocks, rules)
    engine.requests[:, at.BLOCK] = block_tokens
    engine.rank[:] = rank
    engine.requests[:, at.URGENCY] = urgency
    if split is not None and split.second_lane is not None:
        engine.requests[:, at.LANE] = split.second_lane
        engine = engine._replace(queue=np.empty((at.LANES, len(need)), np.int32))
    return Prepared(engine, _limits(cache, scheduler, step_time), order, arrival, refused)


def _check_settings(cache: CacheSpec, scheduler: SchedulerSpec, step_time: StepTime | None) -> None:
    """Raise UsageError for settings that no engine runs with."""
    if cache.rules != "vllm":
        raise UsageError(
            f"the scheduler simulator counts by vLLM's rules, not {cache.rules!r}: use rules 'vllm'."
        )
    if min(scheduler.max_num_seqs, scheduler.max_num_batched_tokens) < 1:
        raise UsageError("max_num_seqs and max_num_batched_tokens are at least 1: give larger ones.")
    if scheduler.long_prefill_token_threshold < 0 or scheduler.watermark_share < 0:
        raise UsageError("long_prefill_token_threshold and watermark_share are at least 0: give larger ones.")
    if scheduler.arrivals == "log" and step_time is None:
        raise UsageError("arrivals by the log's clock need the duration of a step: give a step time.")


def _refused(
    work: Workload, need: NDArray[np.int64], cache: CacheSpec, scheduler: SchedulerSpec
) -> NDArray[np.bool_]:
    """Return which requests could never run, shape [n]."""
    total = work.prompt_tokens + work.output_tokens
    refused = work.prompt_tokens < 1
    if scheduler.max_model_len is not None:
        refused |= total > scheduler.max_model_len
    if not scheduler.enable_chunked_prefill:
        refused |= total > scheduler.max_num_batched_tokens
    if cache.capacity_blocks is not None:
        refused |= need > cache.capacity_blocks
    return refused


def _check(work: Workload, refused: NDArray[np.bool_], block_tokens: NDArray[np.int64]) -> None:
    """Raise ValueError where the arrays of ``work`` contradict each other: compiled code would not notice."""
    n = work.prompt_tokens.size
    columns = (work.output_tokens, work.arrival_us, work.priority, work.skip_lookup)
    if any(column.shape != (n,) for column in columns) or work.offsets.shape != (n + 1,):
        raise ValueError(f"every column must have one entry for each of the {n} requests, offsets one more")
    if n and (work.output_tokens.min() < 1 or work.prompt_tokens.min() < 0):
        raise ValueError("a request has at least 0 prompt tokens and 1 output token")
    lengths = np.diff(work.offsets)
    full = np.where(refused, 0, (work.prompt_tokens + work.output_tokens - 1) // block_tokens)
    if work.offsets[0] < 0 or work.offsets[-1] > work.block_ids.size or (lengths < full).any():
        raise ValueError("block_ids must list the full blocks of every request, at its offset")
    if work.block_ids.size and (work.block_ids.min() < 0 or work.block_ids.max() >= np.iinfo(np.int32).max):
        raise ValueError("block ids must be dense, from 0")


def _order(
    work: Workload, accepted: NDArray[np.bool_], scheduler: SchedulerSpec
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return the requests in order of arrival, their arrivals, their rank in the queue, and their urgency.

    Equal arrivals go by place in the log. vLLM breaks ties of priority and arrival by request id, which a log
    cannot know; there too the place in the log decides.
    """
    n = work.prompt_tokens.size
    place = np.arange(n)
    by_log = scheduler.arrivals == "log"
    arrival = work.arrival_us.astype(np.int64) if by_log else np.zeros(n, np.int64)
    order = np.argsort(arrival, kind="stable")
    age = arrival if by_log else place
    by_priority = np.lexsort((place, age, work.priority))
    urgency = np.zeros(n, np.int32)
    priority, age = work.priority[by_priority], age[by_priority]
    urgency[by_priority[1:]] = np.cumsum((np.diff(priority) != 0) | (np.diff(age) != 0))
    rank = np.empty(n, np.int32)
    rank[by_priority if scheduler.policy == "priority" else order] = place
    return order[accepted[order]].astype(np.int32), arrival, rank, urgency


def _engine(
    work: Workload, need: NDArray[np.int64], seats: int, capacity: int | None, rules: Rules
) -> Engine:
    """Return the state before the first step; ``need`` is in blocks, one entry per accepted request."""
    n = work.prompt_tokens.size
    keys = work.block_ids.astype(np.int32)
    if capacity is None:
        # One block for every key, and as much as can be held at once: nothing keyed is ever taken again.
        held_at_once = np.sort(need)[max(need.size - seats, 0) :].sum()
        capacity = int(keys.max(initial=0)) + 1 + int(held_at_once)
        rules = rules._replace(forget_copies=True)
    requests = np.zeros((n, at.REQUEST_COLUMNS), np.int64)
    requests[:, at.TOTAL] = work.prompt_tokens + work.output_tokens
    requests[:, at.SKIP_LOOKUP] = work.skip_lookup
    requests[:, at.BASE] = work.offsets[:-1]
    requests[:, at.TOKENS] = work.prompt_tokens
    requests[:, at.ADMITTED] = requests[:, at.FINISHED_AT] = requests[:, at.FINISH_PLACE] = -1
    places = np.zeros((seats, at.SEAT_COLUMNS), np.int64)
    places[:, at.UNUSED_SLOT] = np.arange(seats)
    state = np.zeros(at.STATE_ENTRIES, np.int64)
    state[[at.LANE_SEATS, at.LANE_SEATS + 1, at.LANE_ROOM, at.LANE_ROOM + 1]] = at.NO_LIMIT
    return Engine(
        pool=new_pool(capacity, (seats, int(need.max(initial=1))), keys, rules),
        requests=requests,
        seats=places,
        queue=np.empty((1, n), np.int32),
        rank=np.zeros(n, np.int32),
        state=state,
    )


def _limits(cache: CacheSpec, scheduler: SchedulerSpec, step_time: StepTime | None) -> Limits:
    """Return the settings in the engine's units."""
    time = step_time or StepTime(0)
    # vLLM takes the share of all blocks, its null block included.
    blocks = 0 if cache.capacity_blocks is None else cache.capacity_blocks + 1
    return Limits(
        block_size=cache.block_size,
        token_budget=scheduler.max_num_batched_tokens,
        long_prefill=scheduler.long_prefill_token_threshold,
        max_running=scheduler.max_num_seqs,
        watermark=int(scheduler.watermark_share * blocks),
        chunked=scheduler.enable_chunked_prefill,
        reserve_full=scheduler.reserve_full_isl,
        by_priority=scheduler.policy == "priority",
        asynchronous=scheduler.async_scheduling,
        sequential=scheduler.arrivals == "sequential",
        commit_at_finish=cache.commit == "finished",
        step_us=time.step_us,
        token_ns=time.token_ns,
        empty_step_us=time.empty_step_us,
    )
