"""The report of ``plan schedule``. Figures: docs/metrics.md."""

from __future__ import annotations

import msgspec

from kvtools.report.model import Coverage, Input, Settings
from kvtools.report.plan_routing import PlanCache


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of a time in ms; ``None`` where no request has one."""

    p50: float | None
    p90: float | None
    p99: float | None


class KvUsage(msgspec.Struct, frozen=True, kw_only=True):
    """KV usage over time (0..1): not exceeded for 5, 50 and 95 % of it, the most at once, and p95 - p5."""

    p5: float
    p50: float
    p95: float
    max: float
    swing: float


class ClassSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy does to a class (``hot``, ``cold`` or ``all``). ``within_limits``: ``None`` for ``all``."""

    policy: str
    name: str = msgspec.field(name="class")
    requests: int
    finished: int
    ttft_ms: Times
    latency_ms: Times
    throughput_tokens_s: float
    requests_s: float
    hit_rate: float | None
    refused: int
    interrupted: int
    killed: int
    shortened: int
    promoted: int
    too_large: int
    moved: int
    tier_hit_tokens: int
    within_limits: bool | None
    kv_usage: KvUsage | None


class SweepPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One share of cold requests under one policy; ``scenario`` names it where it is one of the article's mixes."""

    scenario: str | None
    cold_share: float
    policy: str
    requests: int
    offered_tokens_s: float
    throughput_tokens_s: float
    requests_s: float
    behind: bool
    hot_ttft_ms: Times
    cold_ttft_ms: Times
    cold_latency_ms: Times
    hit_rate: float | None
    refused: int
    interrupted: int
    killed: int
    kv_usage: KvUsage | None


class TurningPoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where a policy's lines lie in the sweep; ``None``: not reached in it."""

    policy: str
    throughput_cold_share: float | None
    memory_usage: float | None
    latency_ms: float | None
    limit_cold_share: float | None


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What TTFT a class may have, in ms."""

    name: str = msgspec.field(name="class")
    p50_ms: float
    p99_ms: float


class StepClock(msgspec.Struct, frozen=True, kw_only=True):
    """How long a step takes. ``…_error``: simulated / logged - 1 on ``judged_requests``, ``None``: not fitted."""

    step_ms: float
    token_us: float
    context_ns: int
    origin: str
    described: str
    judged_requests: int
    ttft_p50_error: float | None
    ttft_p99_error: float | None
    latency_p50_error: float | None
    latency_p99_error: float | None


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The best limits of one policy, found on the first part of the log.

    ``score`` and ``fcfs_score`` are those of the later part (less is better, 0 and less keeps every limit);
    ``found_score`` the one it was chosen by. ``rows``: the later part under these limits.
    """

    policy: str
    settings: dict[str, float]
    tries: int
    seed: int
    found_score: float
    score: float
    fcfs_score: float
    rows: list[ClassSchedule]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: ``helps``, the ``policy`` that does best by hot requests, and why."""

    helps: bool
    policy: str | None
    sentence: str


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's settings, by vLLM's own names."""

    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_token_threshold: int


class ScheduleReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools plan schedule`` found out."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    requests: int
    cold_share: float
    span_s: float
    classes_by: str
    cache: PlanCache
    engine: Engine
    clock: StepClock
    limits: list[Limit]
    verdict: Verdict
    schedule: list[ClassSchedule]
    sweep: list[SweepPoint]
    turning_points: list[TurningPoints]
    scenarios: list[SweepPoint]
    search: list[Search]
    notes: list[str]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
