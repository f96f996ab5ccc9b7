"""The report of a warm-up set: what is sent, what it is expected to save, and how it did. Figures: docs/metrics.md."""

from __future__ import annotations

import msgspec

from kvtools.report.heat_forecast import ForecastFigures
from kvtools.report.model import Coverage, Input, Settings


class WarmupItem(msgspec.Struct, frozen=True, kw_only=True):
    """One prefix, in sending order. ``form``: how its line was made; ``verified`` of ``members`` were compared."""

    id: str
    namespace: str | None
    tokens: int
    sent_tokens: int
    expected_saved_tokens: int
    members: int
    verified: int
    form: str
    survives: bool


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A prefix that the budget allows and the cache has no room for, or that could not be written: ``reason``."""

    namespace: str | None
    tokens: int
    expected_saved_tokens: int
    members: int
    reason: str


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What was allowed; ``None``: no such limit. The ``used_`` figures are of the lines as they are sent."""

    queries: int | None
    tokens: int | None
    blocks: int | None
    capacity_blocks: int | None
    used_queries: int
    used_tokens: int
    used_blocks: int


class Horizon(msgspec.Struct, frozen=True, kw_only=True):
    """How far ahead a block counts, in requests; ``seconds`` where the log has a clock."""

    requests: int
    seconds: float | None


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """A way to choose a set, and what its sets saved at all rehearsed restarts together.

    ``look_ahead``: a block counts until so many times the cache's blocks have been asked for; ``spread``: by the mean
    over look-aheads up to that one.
    """

    by: str
    look_ahead: float | None
    spread: bool
    saved_tokens: int
    taken: bool


class Warmup(msgspec.Struct, frozen=True, kw_only=True):
    """The set. ``bound_share``: its expected value over an upper bound of any set's under the same budget (0..1).

    ``chosen_by`` the way that did best at ``rehearsed_restarts`` within the part that the set is built from.
    """

    chosen_by: str
    rehearsed_restarts: int
    ways: list[Way]
    built_on_requests: int
    block_size: int
    write: str
    items: list[WarmupItem]
    left_out: list[LeftOut]
    left_out_count: int
    budget: Budget
    horizon: Horizon
    expected_saved_tokens: int
    bound_share: float | None


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One replay. ``saved_tokens``: hit tokens more than after a cold start; ``spent_tokens``: computed by warming."""

    hit_rate: float | None
    hit_tokens: int
    saved_tokens: int
    queries: int
    spent_tokens: int


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """After the first ``requests`` requests: hit rates so far, and tokens saved so far."""

    requests: int
    seconds: float | None
    cold_hit_rate: float | None
    topk_hit_rate: float | None
    warm_hit_rate: float | None
    topk_saved_tokens: int
    warm_saved_tokens: int


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The later part of the log replayed three times. ``optimistic``: judged on what the set was built from.

    ``greedy_saved_tokens``: of the computed set, also where ``chosen_by`` is another.
    """

    requests: int
    holdout: float
    optimistic: bool
    cold: Start
    topk: Start
    warm: Start
    greedy_saved_tokens: int
    curve: list[CurvePoint]


class AheadItem(msgspec.Struct, frozen=True, kw_only=True):
    """A line to send before the burst: the same window asked for its prefix in ``asked_periods`` of ``periods``."""

    id: str
    asked_periods: int


class Ahead(msgspec.Struct, frozen=True, kw_only=True):
    """What to send at ``send_at_us`` (µs), a window before the next cold burst; no items, and ``None``: nothing.

    ``later_asked_share`` (0..1): of these items, those that the same windows of the ``later_periods`` in the later part
    of the log asked for; ``None`` where there are none to judge by.
    """

    conclusion: str
    forecast: ForecastFigures
    utc_offset_min: int
    send_at_us: int | None
    periods: int
    items: list[AheadItem]
    later_periods: int
    later_asked_share: float | None


class WarmupReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools warmup`` found out. ``conclusion`` says it in a sentence; ``ahead`` where it was asked for."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    conclusion: str
    warmup: Warmup
    evaluation: Evaluation
    ahead: Ahead | None = None

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"
