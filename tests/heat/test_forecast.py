"""The forecast of cold bursts, on streams in which it is known when they come."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from kvtools.heat.forecast import forecast

SECOND = 1_000_000
HOUR = 3_600 * SECOND
MONDAY = 1_784_505_600 * SECOND  # 20 Jul 2026 00:00 UTC


def stream(
    bursts_us: list[int], hours: float, *, per_window: int = 10, start: int = MONDAY
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Hot requests every 30 s, and at each of ``bursts_us`` ten cold ones within 10 s; the end is a hot one."""
    hot = np.arange(start, start + int(hours * HOUR) + 1, 30 * SECOND)
    cold = np.concatenate([start + at + np.arange(per_window) * SECOND for at in bursts_us])
    return np.concatenate((hot, cold)), np.repeat([False, True], [len(hot), len(cold)])


def hourly(kept: Iterable[bool], minute: int = 20) -> list[int]:
    """A burst of four windows (15 s each) in the named minute of each hour that is ``kept``."""
    return [
        hour * HOUR + minute * 60 * SECOND + window * 15 * SECOND
        for hour, there in enumerate(kept)
        if there
        for window in range(4)
    ]


def test_a_planted_hourly_burst_is_found_and_beats_the_last_hour() -> None:
    kept = np.random.default_rng(5).random(100) < 0.7
    arrival, cold = stream(hourly(kept), 100)
    found = forecast(arrival, cold)
    assert found.period == "hour"
    begins = MONDAY + 100 * HOUR + 20 * 60 * SECOND
    assert (found.next_from_us, found.next_until_us) == (begins, begins + 60 * SECOND)
    # 100 hours have 4 windows each in minute 20: bursts are all there is, drawn to their share of all windows.
    overall = 4 * kept.sum() / (100 * 240)
    assert found.probability == pytest.approx((4 * kept.sum() + 4 * overall) / (400 + 4))
    # The last 30 % are the hours from 70 on; same as last hour errs by 1 in 4 windows where an hour is not as the last.
    same = 4 * (kept[70:] != kept[69:99]).sum() / (30 * 240)
    often = 4 * kept[:70].sum() / (70 * 240)
    bursts = 4 * kept[70:].sum()
    constant = (bursts * (1 - often) ** 2 + (30 * 240 - bursts) * often**2) / (30 * 240)
    assert found.brier_baseline == pytest.approx(min(same, constant))
    told = (4 * kept[:70].sum() + 4 * often) / (280 + 4)
    elsewhere = (4 * often) / (280 + 4)
    quiet = 30 * 4 - bursts
    expected = bursts * (1 - told) ** 2 + quiet * told**2 + 30 * 236 * elsewhere**2
    assert found.brier == pytest.approx(expected / (30 * 240))
    assert found.beats_baseline is True
    assert found.reason.startswith("by time of the hour, better than same as last hour")


def test_what_has_just_happened_says_more_than_the_hour_does() -> None:
    """In a burst the next window bursts too: from its second window on, the forecast for now knows."""
    kept = np.random.default_rng(5).random(100) < 0.7
    found = forecast(*stream(hourly(kept), 100))
    assert found.now_brier is not None
    assert found.brier is not None
    assert found.now_brier < found.brier
    assert found.now_beats_baseline is True


def test_a_burst_that_never_fails_is_no_better_than_same_as_last_hour() -> None:
    found = forecast(*stream(hourly([True] * 30), 30))
    assert found.brier_baseline == 0
    assert found.beats_baseline is False
    assert "do not rely on it" in found.reason


@pytest.mark.parametrize("seed", range(5))
def test_a_poisson_stream_has_nothing_to_foretell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrival = MONDAY + np.cumsum(rng.exponential(15, 12_000) * SECOND).astype(np.int64)  # 50 h
    found = forecast(arrival, rng.random(12_000) < 0.8)
    assert found.burst_requests == 3  # mean 0.8 a window: above 0.8 + 2 * 0.89 = 2.59
    assert found.beats_baseline is False
    assert found.now_beats_baseline is False
    assert "not better than same as last hour, or as often as before" in found.reason


def test_nights_are_told_by_the_clock_of_the_zone() -> None:
    """A report job at 02:00 local (UTC+8) on seven days out of ten, for ten minutes."""
    kept = np.flatnonzero(np.random.default_rng(5).random(60) < 0.7).tolist()
    at = [day * 24 * HOUR + 18 * HOUR + window * 15 * SECOND for day in kept for window in range(40)]
    found = forecast(*stream(at, 60 * 24), utc_offset_min=480)
    assert found.period == "day"
    begins = MONDAY + 60 * 24 * HOUR + 18 * HOUR
    # Days are looked at by quarters of an hour.
    assert (found.next_from_us, found.next_until_us) == (begins, begins + 900 * SECOND)
    assert found.beats_baseline is True


def test_a_week_is_told_from_a_day() -> None:
    """Mondays at 09:00, for an hour, over eight weeks; the fourth Monday is a holiday."""
    at = [
        week * 168 * HOUR + 9 * HOUR + window * 15 * SECOND
        for week in range(10)
        if week != 3
        for window in range(240)
    ]
    arrival, cold = stream(at, 10 * 168, per_window=3)
    found = forecast(arrival, cold)
    assert found.period == "week"
    assert found.next_from_us == MONDAY + (10 * 168 + 9) * HOUR


@pytest.mark.parametrize("hours", [0.5, 1.9, 2.8])
def test_a_log_shorter_than_two_periods_cannot_know(hours: float) -> None:
    found = forecast(*stream([10 * 60 * SECOND], hours))
    assert found.beats_baseline is None
    assert found.probability is None
    assert found.reason == (
        f"cannot know: the log spans {hours:.1f} h, and 2.9 h are needed, two periods (hours) to learn from "
        "and the last 30 % to judge by"
    )


def test_without_bursts_there_is_nothing_to_say() -> None:
    arrival, cold = stream([60 * SECOND], 10, per_window=1)
    assert (
        forecast(arrival, np.zeros(len(arrival), dtype=bool)).reason
        == "no forecast: the log has no cold requests"
    )
    assert forecast(arrival, cold).reason == "no forecast: no window had 2 cold requests, as a burst has"


def test_equal_times_and_a_stray_clock_end_in_a_sentence() -> None:
    cold = np.array([True, True, False])
    assert forecast(np.full(3, MONDAY), cold).reason.startswith("cannot know: the log spans 0.0 h")
    assert "spans years" in forecast(np.array([0, MONDAY, MONDAY + 5]), cold).reason
    with pytest.raises(ValueError, match="at most 900"):
        forecast(np.full(3, MONDAY), cold, window_s=0)


def test_order_makes_no_difference() -> None:
    arrival, cold = stream(hourly(np.random.default_rng(5).random(30) < 0.7), 30)
    order = np.random.default_rng(1).permutation(len(arrival))
    assert forecast(arrival[order], cold[order]) == forecast(arrival, cold)


def test_it_takes_numpy_alone() -> None:
    program = (
        "import sys, kvtools.heat.forecast\n"
        "print(sorted({'pandas', 'sklearn', 'scipy'} & {name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
