"""The report of ``analyze metrics``: what engines counted over windows of time. Figures: docs/metrics.md."""

from __future__ import annotations

import msgspec


class WindowFigures(msgspec.Struct, frozen=True, kw_only=True):
    """All engines between two times (s since the epoch), in the unit of the counters."""

    from_s: float
    to_s: float
    queried: int
    hit: int
    external_hit: int
    hit_rate: float | None
    total_hit_rate: float | None
    preemptions: int
    resets: int


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """No hit after ``after_s``, of ``queried`` more."""

    after_s: float
    queried: int


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One engine (one set of labels) over the whole range."""

    labels: dict[str, str]
    scrapes: int
    queried: int
    hit: int
    external_hit: int
    hit_rate: float | None
    total_hit_rate: float | None
    resets: int
    missing_scrapes: int
    unusable_scrapes: int
    left_out: int
    stopped: Stopped | None


class KvUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The gauge ``vllm:kv_cache_usage_perc``: blocks that running requests hold over all blocks, at the scrapes.

    It is no measure of what the cache holds. ``zero_then_hit``: scrapes that showed 0 and were followed by hits.
    """

    mean: float
    max: float
    scrapes: int
    zero_then_hit: int


class PredictedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the log predicts for the same time; ``requests`` are those with a prompt. Tokens."""

    queried_tokens: int
    hit_tokens: int
    hit_rate: float | None
    requests: int
    capacity_blocks: int | None
    block_size: int
    in_time: bool | None


class MetricsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why the counters are what they are, or differ from the log: the kind, in a sentence, with its figures."""

    kind: str
    sentence: str
    also: list[str]
    evidence: list[str]
    advice: list[str]


class MetricsReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools analyze metrics`` knows."""

    schema_version: int
    kvtools_version: str
    source: str
    times_from: list[str]
    unit: str | None
    first_s: float
    last_s: float
    step_s: float
    scrapes: int
    unreadable_samples: int
    queried: int
    hit: int
    external_hit: int
    hit_rate: float | None
    total_hit_rate: float | None
    lifetime_hit_rate: float | None
    by_source: dict[str, int]
    prompt_tokens: int | None
    finished_requests: int | None
    preemptions: int
    kv_usage: KvUsage | None
    stopped: Stopped | None
    predicted: PredictedFigures | None
    verdict: MetricsVerdict
    notes: list[str]
    engines: list[EngineFigures]
    windows: list[WindowFigures]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
