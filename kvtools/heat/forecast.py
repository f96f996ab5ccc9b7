"""When the next burst of cold requests comes: by time of the hour, day or week, and by what has just happened.

Time is cut into windows. A window bursts when it holds more cold requests than chance gives a steady stream: more than
mean + 2 standard deviations of a Poisson count, and at least 2. A forecast is a probability per window; it is judged
by its Brier score (mean squared difference between probability and outcome; Brier, Monthly Weather Review, 1950) on
the last 30 % of the time, which it has not seen, against what needs no forecast: "same as last period" and "as often
as before".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOLDOUT_SHARE = 0.3
PERIODS_S = {"hour": (3_600, 60), "day": (86_400, 96), "week": (604_800, 168)}
"""Periods in seconds, and the number of equal parts in which each is looked at."""

MAX_WINDOWS = 8_000_000
_LEAST_BURST = 2
_PRIOR_WINDOWS = 4.0
"""Weight of the overall share, in windows, where few windows of a part of the period were seen."""

_BLOCKS = 10
_T_BLOCKS = 2.262
"""A gain counts when its mean over 10 blocks is this many standard errors above 0 (Student's t, 9 df, 97.5 %)."""

_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """The next burst of cold requests, and whether the forecast is worth more than none.

    ``next_from_us``, ``next_until_us``: the most likely windows of the coming period (µs, on the log's clock), each of
    which bursts with ``probability`` (0..1), by the time within ``period`` alone. ``brier``: of such forecasts on
    held-out time; ``brier_baseline``: the lower one of "same as last period" and "as often as before";
    ``beats_baseline``: whether it is clearly lower, ``None`` where the log is too short to know. ``now_probability``,
    ``now_brier``, ``now_beats_baseline``: the same of the one window behind the log, knowing the last two windows too.
    ``burst_requests``: cold requests that make a window a burst. ``reason`` says it in words.
    """

    reason: str
    period: str | None = None
    burst_requests: int | None = None
    next_from_us: int | None = None
    next_until_us: int | None = None
    probability: float | None = None
    brier: float | None = None
    brier_baseline: float | None = None
    beats_baseline: bool | None = None
    now_probability: float | None = None
    now_brier: float | None = None
    now_beats_baseline: bool | None = None


def forecast(
    arrival_us: NDArray[np.int64],
    cold: NDArray[np.bool_],
    window_s: float = 15.0,
    utc_offset_min: int = 0,
) -> Forecast:
    """Return the forecast of a log: arrivals of all requests (µs) and which of them are cold, in any order.

    Days and weeks begin at midnight of the zone ``utc_offset_min``, weeks on Monday.

    Raises:
        ValueError: a window is not longer than 0 and at most 15 minutes.
    """
    if not 0 < window_s <= 900:
        raise ValueError(f"a window of {window_s:g} s: give more than 0 and at most 900")
    window_us = round(window_s * _US)
    if not cold.any():
        return Forecast("no forecast: the log has no cold requests")
    first, last = int(arrival_us.min()), int(arrival_us.max())
    begin, end = -(-first // window_us), last // window_us  # whole windows only
    shortest = min(seconds for seconds, _ in PERIODS_S.values())
    needed_h = 2 * shortest / (1 - HOLDOUT_SHARE) / 3600
    if (end - begin) * (1 - HOLDOUT_SHARE) * window_us < 2 * shortest * _US:
        return Forecast(
            f"cannot know: the log spans {(last - first) / _US / 3600:.1f} h, and {needed_h:.1f} h are needed, "
            "two periods (hours) to learn from and the last 30 % to judge by"
        )
    if end - begin > MAX_WINDOWS:
        return Forecast("no forecast: the log spans years, so that its windows are too many to look at")
    place = arrival_us[cold] // window_us - begin
    inside = (place >= 0) & (place < end - begin)
    counts = np.bincount(place[inside], minlength=end - begin)
    starts_us = (np.arange(begin, end) * window_us).astype(np.int64)
    return _judged(counts, starts_us, window_us, utc_offset_min)


@dataclass(frozen=True, slots=True, eq=False)
class _Clock:
    """One way to look at time: the part of its period in which a window begins, and the period it belongs to."""

    name: str
    seconds: int
    part: NDArray[np.int64]
    lap: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, starts_us: NDArray[np.int64], utc_offset_min: int) -> _Clock:
        seconds, parts = PERIODS_S[name]
        # 1 Jan 1970 was a Thursday: weeks begin on Monday.
        local = starts_us + (utc_offset_min * 60 + 3 * 86_400) * _US
        lap, within = np.divmod(local, seconds * _US)
        return cls(name, seconds, within * parts // (seconds * _US), lap - lap.min())

    @property
    def parts(self) -> int:
        return PERIODS_S[self.name][1]


def _judged(
    counts: NDArray[np.int64], starts_us: NDArray[np.int64], window_us: int, utc_offset_min: int
) -> Forecast:
    train = int(len(counts) * (1 - HOLDOUT_SHARE))
    enough = _enough(float(counts[:train].mean()))
    burst = counts >= enough
    if not burst[:train].any():
        return Forecast(
            f"no forecast: no window had {enough} cold requests, as a burst has", burst_requests=enough
        )
    clocks = [
        _Clock.of(name, starts_us, utc_offset_min)
        for name, (seconds, _) in PERIODS_S.items()
        if train * window_us >= 2 * seconds * _US
    ]
    clock = min(clocks, key=lambda one: _left_out_brier(one, burst[:train]))
    part, state = clock.part, _recent_state(counts, enough)
    by_time, by_both = _learnt(clock, part[:train], state[:train], burst[:train])
    later, outcome = slice(train, None), burst[train:]
    held_out, now = by_time[part[later]], by_both[state[later], part[later]]
    baseline = _baseline(burst, train, clock.seconds * _US // window_us)
    beats = _beats(held_out, baseline, outcome)
    judged = Forecast(
        reason=_reason(clock.name, beats=beats),
        period=clock.name,
        burst_requests=enough,
        brier=_brier(held_out, outcome),
        brier_baseline=_brier(baseline, outcome),
        beats_baseline=beats,
        now_brier=_brier(now, outcome),
        now_beats_baseline=_beats(now, baseline, outcome),
    )
    # What is told of the time to come is learnt from all of the log.
    by_time, by_both = _learnt(clock, part, state, burst)
    coming = starts_us[-1] + window_us * np.arange(1, clock.seconds * _US // window_us + 1)
    parts = _Clock.of(clock.name, coming, utc_offset_min).part
    now_state = int(_recent_state(np.append(counts, 0), enough)[-1])
    told = _likeliest(by_time[parts], coming, window_us)
    return replace(judged, **told, now_probability=float(by_both[now_state, parts[0]]))


def _enough(mean: float) -> int:
    """Return the cold requests that make a window a burst, where windows hold ``mean`` of them."""
    return max(_LEAST_BURST, math.floor(mean + 2 * math.sqrt(mean)) + 1)


def _likeliest(ahead: NDArray[np.float64], coming: NDArray[np.int64], window_us: int) -> dict[str, Any]:
    """Return the first of the likeliest windows to come, with those behind it that are as likely."""
    best = int(ahead.argmax())
    run = int(np.argmin(np.append(ahead[best:] == ahead[best], False)))
    begin = int(coming[best])
    return {
        "next_from_us": begin,
        "next_until_us": begin + run * window_us,
        "probability": float(ahead[best]),
    }


def _reason(period: str, *, beats: bool) -> str:
    if beats:
        return f"by time of the {period}, better than same as last {period} on the last 30 % of the time"
    return (
        f"by time of the {period}, but not better than same as last {period}, or as often as before, "
        "on the last 30 % of the time: do not rely on it"
    )


def _shares(part: NDArray[np.int64], burst: NDArray[np.bool_], parts: int) -> NDArray[np.float64]:
    """Return the share of bursts in each part of the period, drawn towards the overall share where little was seen."""
    seen, bursts = np.bincount(part, minlength=parts), np.bincount(part, weights=burst, minlength=parts)
    shares: NDArray[np.float64] = (bursts + _PRIOR_WINDOWS * burst.mean()) / (seen + _PRIOR_WINDOWS)
    return shares


def _learnt(
    clock: _Clock, part: NDArray[np.int64], state: NDArray[np.int64], burst: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the shares of bursts by part, and by state and part: these drawn towards the share of the state."""
    parts = clock.parts
    of_state = _shares(state, burst, _STATES)
    cell = state * parts + part
    seen = np.bincount(cell, minlength=_STATES * parts).reshape(_STATES, parts)
    bursts = np.bincount(cell, weights=burst, minlength=_STATES * parts).reshape(_STATES, parts)
    by_both = (bursts + _PRIOR_WINDOWS * of_state[:, None]) / (seen + _PRIOR_WINDOWS)
    return _shares(part, burst, parts), by_both


_STATES = 4


def _recent_state(counts: NDArray[np.int64], enough: int) -> NDArray[np.int64]:
    """Return 0-3 per window: 1 where the window before it burst, 2 where the one before that did, or both."""
    burst = (counts >= enough).astype(np.int64)
    before = np.concatenate(([0], burst[:-1]))
    state: NDArray[np.int64] = before + 2 * np.concatenate(([0], before[:-1]))
    return state


def _left_out_brier(clock: _Clock, burst: NDArray[np.bool_]) -> float:
    """Return the Brier score of each period's windows by the shares of all other periods."""
    part, lap = clock.part[: len(burst)], clock.lap[: len(burst)]
    cell = lap * clock.parts + part
    seen, bursts = np.bincount(part), np.bincount(part, weights=burst)
    own_seen, own_bursts = np.bincount(cell), np.bincount(cell, weights=burst)
    rest = bursts[part] - own_bursts[cell] + _PRIOR_WINDOWS * burst.mean()
    return _brier(rest / (seen[part] - own_seen[cell] + _PRIOR_WINDOWS), burst)


def _baseline(burst: NDArray[np.bool_], train: int, period: int) -> NDArray[np.float64]:
    """Return the better one of "same as last period" (0 or 1) and "as often as before", on held-out time."""
    same = burst[train - period : len(burst) - period].astype(np.float64)
    often = np.full(len(burst) - train, burst[:train].mean())
    return min(same, often, key=lambda one: _brier(one, burst[train:]))


def _brier(probability: NDArray[np.float64], burst: NDArray[np.bool_]) -> float:
    return float(np.square(probability - burst).mean())


def _beats(probability: NDArray[np.float64], baseline: NDArray[np.float64], burst: NDArray[np.bool_]) -> bool:
    """Tell whether a forecast is better by more than chance, over blocks of time as windows depend on each other."""
    gain = np.square(baseline - burst) - np.square(probability - burst)
    blocks = np.array([float(block.mean()) for block in np.array_split(gain, _BLOCKS)])
    return bool(blocks.mean() > _T_BLOCKS * blocks.std(ddof=1) / math.sqrt(_BLOCKS))
