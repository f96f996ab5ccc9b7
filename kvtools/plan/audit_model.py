"""What the audit of a configuration works with: the line, the figures of the log, findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.model import share

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from kvtools.cache.curve import HitCurve
    from kvtools.plan.flags import FlagTable
    from kvtools.plan.flags_parse import Parsed

Severity: TypeAlias = Literal["high", "medium", "info", "ok"]

HIGH_SHARE, MEDIUM_SHARE = 0.01, 0.001
"""Hit rate lost (0..1) from which a finding is ``high`` or ``medium``: the bounds of ``findings[].severity``."""


def severity_of(lost_share: float) -> Severity:
    """Return how much a loss of hit rate (0..1) matters."""
    return "high" if lost_share >= HIGH_SHARE else "medium" if lost_share >= MEDIUM_SHARE else "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One finding.

    ``high``: vLLM does not start, requests fail, or a point of hit rate (0.01) is lost; ``medium``: less. ``info`` asks
    for nothing; ``ok`` was looked at and is in order. ``measured`` is the evidence in words, ``value`` and ``unit`` its
    main figure. ``flag`` is vLLM's own name, or what was written where vLLM has no such flag.
    """

    rule: str
    flag: str | None
    severity: Severity
    symptom: str
    measured: str
    cause: str = ""
    advice: str = ""
    value: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A rule that this log or this line gives no ground for, and ``why``."""

    rule: str
    flag: str | None
    why: str


@dataclass(slots=True)
class Findings:
    """What the rules have found so far."""

    found: list[AuditFinding] = field(default_factory=list)
    not_judged: list[NotJudged] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Step:
    """The log with another block size and the same memory."""

    block_size: int
    capacity_blocks: int | None
    hit_tokens: int
    queried_tokens: int

    @property
    def hit_rate(self) -> float:
        """Hit tokens over queried tokens (0..1)."""
        return share(self.hit_tokens, self.queried_tokens) or 0.0


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests between arrival and answer, by the log's own times: the most at once, and 99 % of the time at most.

    ``arrival_us`` to ``end_us`` of each; ``peak_blocks``: KV blocks that they needed at once, none shared.
    """

    peak: int
    p99: int
    times_us: NDArray[np.int64]
    at_once: NDArray[np.int64]
    peak_blocks: int

    def share_above(self, limit: int) -> float:
        """Return the share of the time (0..1) in which more than ``limit`` were in flight."""
        widths = self.times_us[1:] - self.times_us[:-1]
        return share(int(widths[self.at_once[:-1] > limit].sum()), int(widths.sum())) or 0.0


@dataclass(frozen=True, slots=True, eq=False)
class LogFacts:
    """The figures of the log. Arrays have one entry per request; ``UNKNOWN`` (-1) where the log does not say.

    ``hit_tokens`` of ``queried_tokens`` hit in the cache of the line; ``ceiling_tokens`` in an unlimited one; ``curve``
    at every size. ``reported_tokens``: what the server said it hit (``None``: the log does not say).
    ``priorities``: different ones in the log. ``seconds``: how long the log is, 0 without a clock.
    """

    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    block_size: int
    queried_tokens: int
    hit_tokens: int
    ceiling_tokens: int
    refused_requests: int
    curve: HitCurve
    steps: tuple[Step, ...]
    in_flight: InFlight | None
    reported_tokens: int | None
    priorities: int
    seconds: float

    @property
    def hit_rate(self) -> float:
        """Hit rate of the line's cache (0..1)."""
        return share(self.hit_tokens, self.queried_tokens) or 0.0

    @property
    def ceiling_rate(self) -> float:
        """Hit rate of an unlimited cache (0..1)."""
        return share(self.ceiling_tokens, self.queried_tokens) or 0.0

    def rate_at(self, capacity_blocks: int) -> float:
        """Return the hit rate (0..1) of an LRU cache of that size."""
        return share(self.curve.at(capacity_blocks), self.queried_tokens) or 0.0


@dataclass(frozen=True, slots=True)
class Room:
    """KV memory: usable blocks (``None``: not known, for the reason ``basis``), and on what that ``basis`` rests.

    ``at_most``: an upper bound, since activations and CUDA graphs are not known. ``bytes_per_block``: of one GPU.
    """

    capacity_blocks: int | None
    basis: str
    at_most: bool = False
    bytes_per_block: int | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a model's ``config.json`` says: layers and longest sequence; ``None``: not given."""

    layers: int | None = None
    max_position: int | None = None
    rope_scaled: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration under audit: the line as parsed, the flags it was judged by, the model, the KV memory."""

    parsed: Parsed
    environment: Mapping[str, str]
    table: FlagTable
    model: ModelFacts
    room: Room
