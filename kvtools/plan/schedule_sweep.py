"""Where throughput falls off as the share of cold requests grows, and which KV usage and latency that goes with.

An article on hot and cold paths gives 15 % cold, 85 % memory and 200 ms (SEEDS: article B). Here the three are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.plan.schedule_figures import ALL, HOT, span_us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.cache import Workload
    from kvtools.plan.schedule import Schedule
    from kvtools.plan.schedule_figures import ClassFigures
    from kvtools.plan.schedule_state import Clock

BEHIND = 0.05
"""An engine falls behind when it is still at work for more than this share of the log's time after the last arrival
(besides what the longest request takes alone), or when it loses more than this share of the requests."""

INTERRUPTED = 0.01
"""Interruptions above this share of the requests mark the memory line (article B alerts at 1 %)."""


@dataclass(frozen=True, slots=True)
class Point:
    """One share of cold requests under one policy. ``behind``: the engine did not keep up with what was asked of it."""

    cold_share: float
    policy: str
    requests: int
    offered_tokens_s: float
    behind: bool
    figures: list[ClassFigures]

    def of(self, name: str) -> ClassFigures | None:
        """Return the figures of a class, ``None`` where it is empty."""
        return next((one for one in self.figures if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Lines:
    """Where a policy's lines lie for this traffic; ``None``: not reached within the sweep.

    ``throughput_cold_share``: the first share at which the engine falls behind. ``latency_ms``: the P99 TTFT of hot
    requests at the last share before that. ``memory_usage``: the highest KV usage (0..1, not exceeded 95 % of the time)
    before interruptions pass 1 % of the requests. ``limit_cold_share``: the first share at which hot requests break
    their limits.
    """

    policy: str
    throughput_cold_share: float | None
    memory_usage: float | None
    latency_ms: float | None
    limit_cold_share: float | None


def point(
    done: Schedule, figures: list[ClassFigures], work: Workload, clock: Clock, cold_share: float
) -> Point:
    """Return what a mix did under a policy."""
    runs = ~done.too_large
    arrival = work.arrival_us[runs]
    span = max(int(np.ptp(arrival)) if len(arrival) else 0, 1)
    tokens = (work.prompt_tokens + work.output_tokens)[runs]
    alone = work.output_tokens * clock.step_us + work.prompt_tokens * clock.token_ns // 1000
    drain = span_us(done) - span
    lost = next(one.lost_share for one in figures if one.name == ALL)
    return Point(
        cold_share=cold_share,
        policy=done.policy.name,
        requests=len(done.arrival_us),
        offered_tokens_s=float(tokens.sum()) * 1e6 / span,
        behind=bool(drain > BEHIND * span + int(alone[runs].max(initial=0)) or lost > BEHIND),
        figures=figures,
    )


def lines(points: Sequence[Point], hot_limits_ms: tuple[float, float]) -> Lines:
    """Return the lines of one policy's points, in order of their shares; limits are P50 and P99 of hot TTFT in ms."""
    behind = next((place for place, one in enumerate(points) if one.behind), None)
    return Lines(
        policy=points[0].policy,
        throughput_cold_share=None if behind is None else points[behind].cold_share,
        memory_usage=_memory(points),
        latency_ms=_p99(points[behind - 1]) if behind else None,
        limit_cold_share=next(
            (one.cold_share for one in points if within(one.of(HOT), hot_limits_ms) is False), None
        ),
    )


def _memory(points: Sequence[Point]) -> float | None:
    highest: float | None = None
    for one in points:
        whole = one.of(ALL)
        if whole is None or whole.usage is None:
            return None
        if whole.interrupted > INTERRUPTED * whole.requests:
            return highest
        highest = max(highest or 0.0, whole.usage.p95)
    return None


def _p99(one: Point) -> float | None:
    hot = one.of(HOT)
    return None if hot is None else hot.ttft_ms.p99


def within(figures: ClassFigures | None, limits_ms: tuple[float, float]) -> bool | None:
    """Tell whether a class keeps its limits on P50 and P99 of TTFT; ``None`` where it has no times."""
    if figures is None or figures.ttft_ms.p50 is None or figures.ttft_ms.p99 is None:
        return None
    return figures.ttft_ms.p50 <= limits_ms[0] and figures.ttft_ms.p99 <= limits_ms[1]


def shares(low: float, high: float, step: float) -> NDArray[np.float64]:
    """Return the shares from ``low`` to ``high``, both among them."""
    count = max(round((high - low) / step), 1)
    return np.linspace(low, high, count + 1)
