"""What the engine counted against what a log predicts, and why the two differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.model import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.monitor.windows import Stop, Window

SAME_RATE = 0.02
"""Rates that lie as close agree: the counters also hold what came just before and after the log."""

SAME_VOLUME = 0.05
"""Prompt tokens of the log and queried tokens of the engine differ by this much at most where traffic is the same."""

REACHES = 0.05
"""A log that reaches less by replay says nothing of an engine that hits nothing."""

Kind: TypeAlias = Literal[
    "no_traffic", "not_counted", "engine_side_zero", "hits_stopped", "other_time", "other_traffic", "cache_flushed",
    "preempted", "several_engines", "cache_too_small", "warm_start", "external_cache", "unexplained", "agrees",
    "measured",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """What the counters say, in tokens. ``caching``: the server's own setting, ``None`` where it does not say.

    ``prompt_tokens`` of all prompts that were computed, ``None`` where no page counts them.
    """

    queried: int
    hit: int
    external_hit: int
    preemptions: int
    prompt_tokens: int | None
    finished: int | None
    engines: int
    resets_s: Sequence[float]
    dips: Sequence[Window]
    stopped: Stop | None
    stopped_engines: int
    caching: bool | None

    @property
    def hit_rate(self) -> float | None:
        """Local and external hits over queries."""
        return share(self.hit + self.external_hit, self.queried)

    @property
    def busy(self) -> bool:
        """Whether prompts were computed in this time."""
        return bool(self.queried or self.prompt_tokens or self.finished)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What the log predicts, in tokens; of the part that lies within the scrapes where it has a clock.

    ``capacity_blocks`` of the replayed cache (``None``: unlimited). ``in_time``: whether log and scrapes overlap,
    ``None`` where the log has no clock to tell.
    """

    queried: int
    hit: int
    requests: int
    capacity_blocks: int | None
    in_time: bool | None
    start_state: str = "cold"

    @property
    def hit_rate(self) -> float | None:
        """Predicted hits over prompt tokens."""
        return share(self.hit, self.queried)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The first kind that holds, the others that do, and the figures that each of them stands on."""

    kind: Kind
    also: tuple[Kind, ...]
    evidence: tuple[str, ...]


def agreement(measured: Measured, predicted: Predicted | None = None) -> Agreement:
    """Return why the counters are what they are; with a log, where they differ from it."""
    found = _alone(measured)
    if predicted is not None and predicted.queried:
        found += _against(measured, predicted, {kind for kind, _ in found})
    if not found:
        found = [("measured" if predicted is None else "agrees", _rates(measured, predicted))]
    kinds = [kind for kind, _ in found]
    return Agreement(kinds[0], tuple(kinds[1:]), tuple(text for _, text in found if text))


def _alone(m: Measured) -> list[tuple[Kind, str]]:
    """Return what the counters show by themselves."""
    if not m.busy:
        return [("no_traffic", "no counter of prompts, queries or finished requests grew")]
    if not m.queried:
        setting = "" if m.caching is None else f"; the server says enable_prefix_caching={m.caching}"
        grew = (
            f"{m.prompt_tokens:,} prompt tokens"
            if m.prompt_tokens
            else f"{m.finished or 0:,} finished requests"
        )
        return [("not_counted", f"{grew}, but no prefix-cache query{setting}")]
    if m.stopped:
        return [("hits_stopped", f"{m.stopped.queried:,} tokens queried since the last hit")]
    if m.stopped_engines:
        return [("hits_stopped", f"on {m.stopped_engines} of {m.engines} engines; the others still hit")]
    return []


def _against(m: Measured, p: Predicted, alone: set[Kind]) -> list[tuple[Kind, str]]:
    other_volume = abs(m.queried - p.queried) > SAME_VOLUME * p.queried
    if p.in_time is False and other_volume:  # a log of another day that was sent again has the same volume
        return [("other_time", "the log's requests lie outside the time of the scrapes")]
    if alone & {"no_traffic", "not_counted"}:
        return []
    found: list[tuple[Kind, str]] = []
    rate, said = m.hit_rate or 0.0, p.hit_rate or 0.0
    if not m.hit + m.external_hit and said >= REACHES:
        found.append(("engine_side_zero", f"{_rates(m, p)}: no prompt can explain a zero"))
    if other_volume:
        found.append(
            (
                "other_traffic",
                f"the engines were asked for {m.queried:,} tokens, the log's prompts have {p.queried:,}",
            )
        )
    if abs(rate - said) <= SAME_RATE or found:
        return found
    found = _higher(m, p) if rate > said else _lower(m, p)
    return found or ([] if alone else [("unexplained", _rates(m, p))])


def _lower(m: Measured, p: Predicted) -> list[tuple[Kind, str]]:
    found: list[tuple[Kind, str]] = []
    if m.resets_s or m.dips:
        found.append(
            (
                "cache_flushed",
                f"{len(m.resets_s)} restarts, {len(m.dips)} windows below half of the usual rate; {_rates(m, p)}",
            )
        )
    if m.preemptions:
        found.append(
            (
                "preempted",
                f"{m.preemptions:,} preemptions: the KV cache was full, and blocks that could be hit were taken",
            )
        )
    if m.engines > 1:
        found.append(
            (
                "several_engines",
                f"{m.engines} engines, each with a cache of its own; the log was replayed in one",
            )
        )
    if p.capacity_blocks is None and not m.stopped:
        found.append(
            ("cache_too_small", "the log was replayed in an unlimited cache; the engine's has a limit")
        )
    return found


def _higher(m: Measured, p: Predicted) -> list[tuple[Kind, str]]:
    if m.external_hit and m.queried and m.hit / m.queried <= (p.hit_rate or 0.0) + SAME_RATE:
        return [
            (
                "external_cache",
                f"{m.external_hit:,} tokens came from a KV connector, which the replay has not",
            )
        ]
    if p.start_state == "cold":
        return [
            ("warm_start", f"{_rates(m, p)}: the replay began with an empty cache, the engine need not have")
        ]
    return []


def _rates(m: Measured, p: Predicted | None) -> str:
    own = "n/a" if m.hit_rate is None else f"{100 * m.hit_rate:.1f} %"
    if p is None:
        return f"{own} of {m.queried:,} queried tokens hit"
    said = "n/a" if p.hit_rate is None else f"{100 * p.hit_rate:.1f} %"
    return f"the engine hit {own}, the log predicts {said}"
