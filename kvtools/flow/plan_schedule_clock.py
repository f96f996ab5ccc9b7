"""Which clock ``plan schedule`` runs by: stated, the roofline of a GPU, fitted to the log, or assumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache.memory import kv_size, memory_bytes
from kvtools.errors import UsageError
from kvtools.plan.schedule import schedule
from kvtools.plan.schedule_clock import DECODE_STEP_MS, PREFILL_TOKENS_PER_S, linear, roofline
from kvtools.plan.schedule_fit import Times, fit
from kvtools.plan.schedule_mix import taken
from kvtools.plan.schedule_policies import FCFS, PolicyLimits, policy_of
from kvtools.plan.schedule_state import Clock
from kvtools.replay.steptime import speed_of

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.flow.plan_schedule_log import ScheduleLog
    from kvtools.model import CacheSpec, SchedulerSpec
    from kvtools.plan.schedule_clock import StepModel

FIT_REQUESTS = 5_000
"""A fit looks at no more requests than the first so many: it simulates their first half some 200 times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOptions:
    """``prefill_tokens_per_s`` and ``decode_step_ms`` state the clock; ``gpu`` with ``weights`` asks for a roofline.

    ``weights``: memory of the weights on all ``gpus`` together, such as ``16GiB`` (16-bit); ``model_config`` adds what
    reading the KV costs.
    """

    prefill_tokens_per_s: float | None = None
    decode_step_ms: float | None = None
    gpu: str | None = None
    gpus: int = 1
    weights: str | None = None
    model_config: Path | None = None
    kv_dtype: str = "auto"

    def __post_init__(self) -> None:
        if (self.gpu is None) != (self.weights is None):
            raise UsageError("--gpu and --weights go together: a roofline takes the card and what it reads.")
        if self.gpu is not None and (self.prefill_tokens_per_s or self.decode_step_ms):
            raise UsageError(
                "--gpu is a clock of its own: leave out --prefill-tokens-per-s and --decode-step-ms."
            )
        self.given()

    def given(self) -> StepModel | None:
        """Return the clock that was asked for, ``None`` where the log is to say."""
        if self.gpu is not None and self.weights is not None:
            kv = 0 if self.model_config is None else kv_size(self.model_config, self.kv_dtype).bytes_per_token
            try:
                weights = memory_bytes(self.weights)
            except UsageError:
                raise UsageError(f"--weights {self.weights}: not a size; write 16GiB or 500MB.") from None
            return roofline(self.gpu, self.gpus, weights, kv)
        if self.prefill_tokens_per_s is None and self.decode_step_ms is None:
            return None
        both = self.prefill_tokens_per_s is not None and self.decode_step_ms is not None
        return linear(
            PREFILL_TOKENS_PER_S if self.prefill_tokens_per_s is None else self.prefill_tokens_per_s,
            DECODE_STEP_MS if self.decode_step_ms is None else self.decode_step_ms,
            "as stated" if both else "stated and assumed",
        )


def step_model(
    log: ScheduleLog, spec: CacheSpec, options: ClockOptions, scheduler: SchedulerSpec
) -> StepModel:
    """Return the clock as asked for, else fitted to the log's TTFT and latency, else assumed."""
    given = options.given()
    if given is not None:
        return given
    rows = np.arange(min(len(log.hot), FIT_REQUESTS))
    logged = log.logged.take(rows)

    def simulate(clock: Clock, count: int) -> Times:
        limits, part = PolicyLimits(), rows[:count]
        policy = policy_of(FCFS, limits, scheduler.max_num_seqs)
        done = schedule(taken(log.work, part), log.hot[part], spec, scheduler, clock, policy, limits)
        return Times(done.first_us - done.arrival_us, done.end_us - done.arrival_us)

    time = speed_of(logged, np.maximum(logged.prompt_tokens, 1), None, None).step_time()
    start = Clock(time.step_us, time.token_ns, 0, overlap=False)
    fitted = fit(simulate, Times(logged.ttft_us, logged.latency_us), start)
    return fitted or linear(
        PREFILL_TOKENS_PER_S, DECODE_STEP_MS, "assumed: the log has too few times of its own to fit"
    )
