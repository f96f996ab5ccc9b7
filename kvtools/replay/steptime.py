"""How long an engine step takes: stated, or fitted from the log's own times.

The model is linear: a step costs a fixed time (what one decode step takes) and a time per token that it computes
(the inverse of the prefill speed). It is stated beside every figure that depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import StepTime
from kvtools.errors import UsageError
from kvtools.replay.log import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.replay.log import ReplayLog

DEFAULT_PREFILL_TOKENS_PER_S = 20_000.0
DEFAULT_DECODE_STEP_MS = 15.0
"""A mid-size model on one data-centre GPU, to begin with; any figure that hangs on them should set its own."""

_FEWEST_TIMED = 20
_FASTEST = 1e9
_SLOWEST_MS = 3.6e6


@dataclass(frozen=True, slots=True)
class Speed:
    """``prefill_tokens_per_s`` computed tokens per second, ``decode_step_ms`` per step; where they are from.

    ``error_share`` is the median of |predicted - logged| / logged over the logged times to first token (0..1),
    ``None`` where nothing was fitted.
    """

    prefill_tokens_per_s: float
    decode_step_ms: float
    origin: str
    error_share: float | None = None

    def __post_init__(self) -> None:
        if not (0 < self.prefill_tokens_per_s <= _FASTEST and 0 < self.decode_step_ms <= _SLOWEST_MS):
            raise UsageError(
                f"--prefill-tokens-per-s is above 0 (and at most {_FASTEST:,.0f}), "
                f"--decode-step-ms above 0 (and at most {_SLOWEST_MS:,.0f})."
            )

    def describe(self) -> str:
        """Say it in one line."""
        error = (
            ""
            if self.error_share is None
            else f", off by {100 * self.error_share:.0f} % of TTFT in the median"
        )
        return f"{self.prefill_tokens_per_s:,.0f} tokens/s, {self.decode_step_ms:.1f} ms a step ({self.origin}{error})"

    def step_time(self) -> StepTime:
        """Return the speed as the simulator takes it."""
        step_us = max(1, round(1000 * self.decode_step_ms))
        return StepTime(step_us, round(1e9 / self.prefill_tokens_per_s), empty_step_us=step_us)


def speed_of(
    log: ReplayLog, computed_tokens: NDArray[np.int64], prefill: float | None, decode_ms: float | None
) -> Speed:
    """Return the speed: as stated, else fitted from the log's TTFT and latency, else the default.

    ``computed_tokens``: prompt tokens of each request that were not in the cache (they are what TTFT pays for).
    """
    if prefill is not None and decode_ms is not None:
        return Speed(prefill, decode_ms, "as stated")
    fitted = _fit(log, computed_tokens)
    if fitted is None:
        return Speed(
            DEFAULT_PREFILL_TOKENS_PER_S if prefill is None else prefill,
            DEFAULT_DECODE_STEP_MS if decode_ms is None else decode_ms,
            "assumed",
        )
    origin = "fitted from the log" if prefill is decode_ms is None else "stated and fitted"
    return Speed(
        fitted.prefill_tokens_per_s if prefill is None else prefill,
        fitted.decode_step_ms if decode_ms is None else decode_ms,
        origin,
        fitted.error_share,
    )


def _fit(log: ReplayLog, computed_tokens: NDArray[np.int64]) -> Speed | None:
    """Fit by medians: a queue in front of the engine makes some times long, and must not make it look slow."""
    timed = (log.ttft_us > 0) & (computed_tokens > 0)
    decoded = (
        timed & (log.latency_us > log.ttft_us) & (log.output_tokens > 1) & (log.output_tokens != UNKNOWN)
    )
    if int(timed.sum()) < _FEWEST_TIMED or int(decoded.sum()) < _FEWEST_TIMED:
        return None
    per_token = (log.latency_us - log.ttft_us)[decoded] / (log.output_tokens[decoded] - 1)
    step_us = float(np.median(per_token))
    ttft, tokens = log.ttft_us[timed], computed_tokens[timed]
    token_us = float(np.median(np.maximum(ttft - step_us, 1.0) / tokens))
    error = float(np.median(np.abs(step_us + token_us * tokens - ttft) / ttft))
    return Speed(1e6 / token_us, step_us / 1000, "fitted from the log", error)
