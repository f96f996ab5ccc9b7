from __future__ import annotations

import numpy as np
import pytest

from kvtools.errors import UsageError
from kvtools.replay.log import ReplayLog
from kvtools.replay.steptime import DEFAULT_DECODE_STEP_MS, Speed, speed_of
from kvtools.table import Ragged


def _log(ttft_us: list[int], latency_us: list[int], outputs: list[int]) -> ReplayLog:
    count = len(ttft_us)
    zero, none = (
        np.zeros(count, dtype=np.int64),
        Ragged(np.empty(0, np.uint64), np.zeros(count + 1, np.int64)),
    )
    digests = np.zeros(count, dtype=np.uint64)
    return ReplayLog(
        [""] * count, zero, zero, np.array(outputs), zero, np.array(ttft_us), np.array(latency_us),
        zero, zero.astype(bool), digests, digests, none,
    )  # fmt: skip


def test_a_fit_finds_the_speed_that_made_the_times() -> None:
    # 10 ms a step, 100 us a computed token (10,000 tokens/s); every fifth request waited 5 s in a queue.
    tokens = np.arange(100, 2_100, 50)
    ttft = [10_000 + 100 * n + (5_000_000 if i % 5 == 0 else 0) for i, n in enumerate(tokens.tolist())]
    speed = speed_of(_log(ttft, [t + 10_000 * 19 for t in ttft], [20] * len(ttft)), tokens, None, None)
    assert speed.decode_step_ms == pytest.approx(10.0)
    assert speed.prefill_tokens_per_s == pytest.approx(10_000, rel=0.01)
    assert speed.error_share == pytest.approx(0.0, abs=0.01)
    assert speed.origin == "fitted from the log"
    time = speed.step_time()
    assert (time.step_us, time.token_ns) == (10_000, pytest.approx(100_000, rel=0.01))


def test_stated_wins_and_without_times_it_is_assumed() -> None:
    log = _log([-1] * 30, [-1] * 30, [20] * 30)
    assert speed_of(log, np.full(30, 100), 5_000.0, 8.0) == Speed(5_000.0, 8.0, "as stated")
    assumed = speed_of(log, np.full(30, 100), 5_000.0, None)
    assert (assumed.prefill_tokens_per_s, assumed.decode_step_ms) == (5_000.0, DEFAULT_DECODE_STEP_MS)
    assert assumed.origin == "assumed"
    for prefill, decode in ((0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0), (1.0, float("inf"))):
        with pytest.raises(UsageError, match="is above 0"):
            speed_of(log, np.full(30, 100), prefill, decode)
    with pytest.raises(UsageError, match="is above 0"):
        speed_of(log, np.full(30, 100), 0.0, None)
