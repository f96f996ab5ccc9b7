"""The report of ``plan sizing``. Figures: docs/metrics.md."""

from __future__ import annotations

import msgspec

from kvtools.report.model import Coverage, Hits, Input, Settings
from kvtools.report.plan_routing import PlanCache

GIB = 1 << 30


class KvBlock(msgspec.Struct, frozen=True, kw_only=True):
    """What a model's KV takes: ``attention`` is its kind."""

    attention: str
    bytes_per_token: int
    bytes_per_block: int

    def gib(self, blocks: int) -> float:
        """Return the KV memory in GiB that a cache of so many usable blocks takes, vLLM's null block included."""
        return (blocks + 1) * self.bytes_per_block / GIB


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest cache with that share (0..1) of the ceiling's hits, and what the best order hits in it."""

    share_of_ceiling: float
    capacity_blocks: int
    gib: float | None
    hit_tokens: int
    hit_rate: float | None
    optimal_hit_tokens: int
    optimal_hit_rate: float | None


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """The cache of the size that was given. ``gap``: optimal minus actual hit rate (0..1)."""

    capacity_blocks: int
    gib: float | None
    hit_tokens: int
    hit_rate: float | None
    optimal_hit_tokens: int
    optimal_hit_rate: float | None
    gap: float | None
    refused_requests: int


class WorkingWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the log: distinct blocks touched, those new in it, and at its end those seen that come again."""

    from_us: int | None
    until_us: int | None
    requests: int
    touched_blocks: int
    new_blocks: int
    live_blocks: int


class Working(msgspec.Struct, frozen=True, kw_only=True):
    """The working set over time. ``peak_live_blocks``: what every possible hit takes, with the best order."""

    peak_live_blocks: int
    peak_live_gib: float | None
    windows: list[WorkingWindow]


class Offload(msgspec.Struct, frozen=True, kw_only=True):
    """A second tier: hits of either if it copies the first tier's blocks, and if it takes only those given up there."""

    blocks: int
    gib: float | None
    copies_hit_tokens: int
    copies_hit_rate: float | None
    victims_hit_tokens: int
    victims_hit_rate: float | None


class ArticleFormula(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of thumb: what it gives (``low`` … ``high``), what the log says, and why they differ."""

    name: str
    rule: str
    low: float | None
    high: float | None
    measured: float | None
    unit: str
    why: str


class SizingReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools plan sizing`` found out. ``kv``: ``None`` without a model's config."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    requests: int
    prompt_tokens: int
    cache: PlanCache
    kv: KvBlock | None
    ceiling: Hits
    unique_blocks: int
    largest_prompt_blocks: int
    mean_prompt_blocks: float
    current: Current | None
    sizing: list[Sizing]
    working_set: Working
    offload: list[Offload]
    formulas: list[ArticleFormula]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
