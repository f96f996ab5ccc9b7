"""The exact simulator of vLLM 0.32's scheduler and prefix cache: full attention, one cache group.

It counts what the engine counts, request by request. Not modelled: sliding windows and hybrid models,
speculative decoding, multimodal encoder budgets, LoRA slots, KV connectors, pipeline and data parallelism,
aborted requests, and answers that end before their recorded length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import state as at
from kvtools.cache.pool import EVICTED, copy_free_list
from kvtools.cache.preparing import prepare
from kvtools.cache.steps import run
from kvtools.model import share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.cache.state import Engine
    from kvtools.cache.workload import StepTime, Workload
    from kvtools.model import CacheSpec, SchedulerSpec


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What the engine would have counted; arrays have one entry per request unless said otherwise.

    ``hit_tokens`` is the hit at the first admission (``num_cached_tokens``), ``queried_tokens`` what went into
    ``vllm:prefix_cache_queries``: the prompt, or 0 for requests that are refused or read no cache.
    ``refused`` requests can never run under these settings and are left out. ``preemptions`` per request.
    ``admitted_step`` and ``finished_step`` count engine steps that computed something (-1: refused).
    ``finish_order`` [finished] lists request numbers. Lookups after a preemption count only in
    ``resumed_queried_tokens`` and ``resumed_hit_tokens``, which the engine does not export.

    ``evictions`` counts keys lost to reuse; ``free_order`` [capacity] the block numbers (from 1, 0 being the
    null block) in the order in which they would be taken at the end, empty for a cache without limit.

    Over the ``steps`` steps, ``held_block_steps`` and ``filled_token_steps`` sum the blocks that requests hold
    and the tokens in them, a shared block once; ``utilization_steps`` [1001] counts the steps by
    filled tokens / (held blocks * block size) in permille, rounded down.
    """

    block_size: int
    hit_tokens: NDArray[np.int64]
    queried_tokens: NDArray[np.int64]
    refused: NDArray[np.bool_]
    preemptions: NDArray[np.int64]
    admitted_step: NDArray[np.int64]
    finished_step: NDArray[np.int64]
    finish_order: NDArray[np.int64]
    free_order: NDArray[np.int64]
    evictions: int
    resumed_queried_tokens: int
    resumed_hit_tokens: int
    steps: int
    scheduled_tokens: int
    held_block_steps: int
    filled_token_steps: int
    utilization_steps: NDArray[np.int64]

    @property
    def block_utilization(self) -> float | None:
        """Filled tokens over the places in the held blocks, over all steps (0..1); None without steps."""
        return share(self.filled_token_steps, self.held_block_steps * self.block_size)

    def utilization_quantile(self, quantile: float) -> float | None:
        """Return the utilisation (0..1, whole permille) that ``quantile`` of the steps keep to; None without steps."""
        if self.steps == 0:
            return None
        reached = np.cumsum(self.utilization_steps) >= quantile * self.steps
        return int(np.argmax(reached)) / (at.UTILIZATION_BINS - 1)


def simulate(
    work: Workload,
    cache: CacheSpec,
    scheduler: SchedulerSpec,
    step_time: StepTime | None = None,
) -> Simulation:
    """Run ``work`` through vLLM's scheduler and prefix cache, starting cold, and return what it counts.

    ``step_time`` drives the clock and is required with ``arrivals="log"``. With ``"closed"`` all requests wait
    before the first step, with ``"sequential"`` each arrives when the one before has ended.
    A request is refused, as it would wait for ever or as the server rejects it, if its prompt is empty, if
    prompt and output exceed ``max_model_len`` (or, without chunked prefill, one step's tokens: vLLM then
    demands that a step can hold ``max_model_len``), or if the KV of all its tokens but the last exceeds the pool.

    Raises:
        UsageError: a setting is out of range, ``cache.rules`` is not ``vllm``, or ``step_time`` is missing.
        ValueError: the arrays of ``work`` contradict each other.
    """
    ready = prepare(work, cache, scheduler, step_time)
    run(ready.engine, ready.limits, ready.order, ready.arrival_us)
    return _simulation(work, ready.refused, cache, ready.engine)


def _simulation(work: Workload, refused: NDArray[np.bool_], cache: CacheSpec, engine: Engine) -> Simulation:
    """Read the counts off the engine's last state."""
    state, requests = engine.state, engine.requests
    order = np.argsort(requests[:, at.FINISH_PLACE], kind="stable")
    free_order = np.empty(0 if cache.capacity_blocks is None else cache.capacity_blocks, np.int64)
    copy_free_list(engine.pool.blocks, free_order)
    return Simulation(
        block_size=cache.block_size,
        hit_tokens=requests[:, at.HIT].copy(),
        queried_tokens=np.where(refused | work.skip_lookup, 0, work.prompt_tokens),
        refused=refused,
        preemptions=requests[:, at.PREEMPTIONS].copy(),
        admitted_step=requests[:, at.ADMITTED].copy(),
        finished_step=requests[:, at.FINISHED_AT].copy(),
        finish_order=order[int(refused.sum()) :],
        free_order=free_order,
        evictions=int(engine.pool.counts[EVICTED]),
        resumed_queried_tokens=int(state[at.RESUMED_QUERIED]),
        resumed_hit_tokens=int(state[at.RESUMED_HIT]),
        steps=int(state[at.STEP]),
        scheduled_tokens=int(state[at.SCHEDULED_TOKENS]),
        held_block_steps=int(state[at.HELD_BLOCKS]),
        filled_token_steps=int(state[at.FILLED_TOKENS]),
        utilization_steps=state[at.HISTOGRAM :].copy(),
    )
