"""The limits that a log sets for its own alerts. How each is found stands in docs/monitoring.md."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from kvtools.report.heat import COLD_SHARE_LIMIT
from kvtools.report.numbers import percent

if TYPE_CHECKING:
    from kvtools.report.model import Report

WINDOW_REQUESTS = 20
"""Windows of the log with fewer requests say little."""

LEAST_WINDOWS = 8
LEAST_SPREAD = 0.02
MAD_TO_SIGMA = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""

SHARE_OF_RATE = 0.8
"""Without enough windows: the lower edge as a share of the rate."""

LEAST_RATE = 0.05
"""Below it a log promises too little for a missing hit to mean anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The log's hit rate and the lower edge of its band (0..1), its cold share's limit, each with where it comes from.

    ``None`` where the log does not tell. ``promised``: what its prompts reach by replay, whatever its server did with
    them (the server's word where there is nothing to replay). ``conversations``: whether hits were told apart by them.
    """

    hit_rate: float | None
    hit_rate_low: float | None
    hit_rate_source: str
    promised: float | None
    cold_share: float | None
    cold_share_limit: float | None
    hot_p99_ms: float | None
    conversations: bool


def calibration_of(report: Report) -> Calibration:
    """Return the limits of a report."""
    rate, low, source = _band(report)
    replayed = None if report.cache is None else report.cache.hit_rate
    cold = None if report.heat is None else report.heat.cold_share
    hot = next((one.latency for one in report.classes if one.name == "hot"), None)
    return Calibration(
        hit_rate=rate,
        hit_rate_low=low,
        hit_rate_source=source,
        promised=rate if replayed is None else replayed,
        cold_share=cold,
        cold_share_limit=None if cold is None else _cold_limit(cold),
        hot_p99_ms=None if hot is None else hot.p99_ms,
        conversations=report.sessions is not None and report.sessions.within_share is not None,
    )


def _cold_limit(cold: float) -> float:
    """Return article B's limit, or where the log lies above it, a quarter more than the log, at most half way to 1."""
    return COLD_SHARE_LIMIT if cold < COLD_SHARE_LIMIT else round(min(1.25 * cold, (1 + cold) / 2), 4)


def _band(report: Report) -> tuple[float | None, float | None, str]:
    """Return hit rate, lower edge, and where they come from."""
    if report.cache is None or report.cache.hit_rate is None:
        reported = report.traffic.reported
        if reported is None or reported.hit_rate is None:
            return None, None, "the log tells no hit rate"
        return _checked(
            reported.hit_rate, SHARE_OF_RATE * reported.hit_rate, "what the log's server reported; 0.8 of it"
        )
    rate, source = report.cache.hit_rate, "the replay of the log"
    windows = [
        window.hit_rate
        for window in report.over_time
        if window.hit_rate is not None and window.requests >= WINDOW_REQUESTS
    ]
    if len(windows) < LEAST_WINDOWS:
        low, how = SHARE_OF_RATE * rate, "0.8 of it"
    else:
        middle = median(windows)
        deviation = median(abs(window - middle) for window in windows)
        low = middle - max(LEAST_SPREAD, 3 * MAD_TO_SIGMA * deviation)
        how = f"median of {len(windows)} windows less three times their spread"
    seen = report.observed
    if seen is not None and seen.observed_hit_rate is not None and seen.predicted_hit_rate is not None:
        # The band keeps its width; where it lies is the server's own word.
        rate, low = seen.observed_hit_rate, low + seen.observed_hit_rate - seen.predicted_hit_rate
        source = "what the log's server reported"
    return _checked(rate, low, f"{source}; {how}")


def _checked(rate: float, low: float, source: str) -> tuple[float, float | None, str]:
    if rate < LEAST_RATE:
        return rate, None, f"the log's own hit rate is {percent(rate)}: nothing to fall from"
    if low <= 0:
        return rate, None, f"the log's own windows reach down to 0 ({source})"
    return rate, round(low, 4), source
