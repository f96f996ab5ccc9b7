"""From the figures of the schedule simulation to the rows of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.plan.schedule_clock import describe
from kvtools.plan.schedule_figures import ALL, COLD, HOT, Percentiles
from kvtools.plan.schedule_sweep import within
from kvtools.report.plan_schedule import (
    ClassSchedule,
    KvUsage,
    StepClock,
    SweepPoint,
    Times,
    TurningPoints,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvtools.plan.schedule_clock import StepModel
    from kvtools.plan.schedule_figures import ClassFigures, Usage
    from kvtools.plan.schedule_sweep import Lines, Point
    from kvtools.plan.schedule_verdict import Verdict as Judged


def _times(found: Percentiles) -> Times:
    return Times(p50=found.p50, p90=found.p90, p99=found.p99)


def _usage(found: Usage | None) -> KvUsage | None:
    if found is None:
        return None
    return KvUsage(p5=found.p5, p50=found.p50, p95=found.p95, max=found.most, swing=found.swing)


def class_row(one: ClassFigures, limits_ms: Mapping[str, tuple[float, float]]) -> ClassSchedule:
    """Return a class under a policy as it stands in the report."""
    return ClassSchedule(
        policy=one.policy,
        name=one.name,
        requests=one.requests,
        finished=one.finished,
        ttft_ms=_times(one.ttft_ms),
        latency_ms=_times(one.latency_ms),
        throughput_tokens_s=one.throughput_tokens_s,
        requests_s=one.requests_s,
        hit_rate=one.hit_rate,
        refused=one.refused,
        interrupted=one.interrupted,
        killed=one.killed,
        shortened=one.shortened,
        promoted=one.promoted,
        too_large=one.too_large,
        moved=one.moved,
        tier_hit_tokens=one.tier_hit_tokens,
        within_limits=None if one.name == ALL else within(one, limits_ms[one.name]),
        kv_usage=_usage(one.usage),
    )


def sweep_row(scenario: str | None, one: Point) -> SweepPoint:
    """Return a mix under a policy as it stands in the report."""
    hot, cold, whole = one.of(HOT), one.of(COLD), one.of(ALL)
    nothing = Percentiles(None, None, None)
    assert whole is not None, "all requests are a class of every schedule"  # noqa: S101
    return SweepPoint(
        scenario=scenario,
        cold_share=one.cold_share,
        policy=one.policy,
        requests=one.requests,
        offered_tokens_s=one.offered_tokens_s,
        throughput_tokens_s=whole.throughput_tokens_s,
        requests_s=whole.requests_s,
        behind=one.behind,
        hot_ttft_ms=_times(nothing if hot is None else hot.ttft_ms),
        cold_ttft_ms=_times(nothing if cold is None else cold.ttft_ms),
        cold_latency_ms=_times(nothing if cold is None else cold.latency_ms),
        hit_rate=whole.hit_rate,
        refused=whole.refused,
        interrupted=whole.interrupted,
        killed=whole.killed,
        kv_usage=_usage(whole.usage),
    )


def turning_row(one: Lines) -> TurningPoints:
    """Return a policy's lines as they stand in the report."""
    return TurningPoints(
        policy=one.policy,
        throughput_cold_share=one.throughput_cold_share,
        memory_usage=one.memory_usage,
        latency_ms=one.latency_ms,
        limit_cold_share=one.limit_cold_share,
    )


def clock_row(model: StepModel) -> StepClock:
    """Return the clock as it stands in the report."""
    error = model.error
    return StepClock(
        step_ms=model.clock.step_us / 1000,
        token_us=model.clock.token_ns / 1000,
        context_ns=model.clock.context_ns,
        origin=model.origin,
        described=describe(model),
        judged_requests=0 if error is None else error.requests,
        ttft_p50_error=None if error is None else error.ttft_p50,
        ttft_p99_error=None if error is None else error.ttft_p99,
        latency_p50_error=None if error is None else error.latency_p50,
        latency_p99_error=None if error is None else error.latency_p99,
    )


def verdict_row(found: Judged) -> Verdict:
    """Return the answer as it stands in the report."""
    return Verdict(helps=found.helps, policy=found.policy, sentence=found.sentence)
