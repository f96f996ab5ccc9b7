"""Whether any policy beats first come, first served for this traffic, said in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.plan.schedule_figures import ALL, COLD, HOT
from kvtools.plan.schedule_policies import FCFS
from kvtools.plan.schedule_sweep import within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvtools.plan.schedule_figures import ClassFigures

LEAST_GAIN = 0.05
"""A P99 that falls by less than this part is no gain: the simulation is not that exact."""

LOST = 0.01
"""A policy that loses more of the requests than this, and than first come first served does, is not chosen."""

FEW_COLD = 0.05
"""Below this share of cold requests, their small number is named as the reason."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``policy``: the one with the lowest P99 TTFT of hot requests, where it ``helps``."""

    helps: bool
    policy: str | None
    sentence: str


def verdict_of(
    found: Mapping[str, Sequence[ClassFigures]], limits_ms: Mapping[str, tuple[float, float]]
) -> Verdict:
    """Judge the policies by the P99 TTFT of hot requests; ``found`` holds first come first served too."""
    default = {one.name: one for one in found[FCFS]}
    whole, hot, cold = default[ALL], default.get(HOT), default.get(COLD)
    if hot is None or cold is None:
        only = COLD if hot is None else HOT
        return Verdict(
            helps=False, policy=None, sentence=f"no gain: every request is {only}, there is nothing to split."
        )
    if hot.ttft_ms.p99 is None:
        return Verdict(helps=False, policy=None, sentence="not known: no hot request finished.")
    if len(found) == 1:
        return Verdict(
            helps=False, policy=None, sentence="not compared: only fcfs was run; name others with --policy."
        )
    part = cold.requests / whole.requests
    best = _best(found, limits_ms)
    after = None if best is None else best.ttft_ms.p99
    if best is None or after is None or after > hot.ttft_ms.p99 * (1 - LEAST_GAIN):
        return Verdict(helps=False, policy=None, sentence=f"no gain: {_reason(part, hot, limits_ms[HOT])}")
    costs = {one.name: one for one in found[best.policy]}
    return Verdict(
        helps=True,
        policy=best.policy,
        sentence=(
            f"{best.policy} takes hot P99 TTFT from {ms(hot.ttft_ms.p99)} to {ms(after)}; "
            f"cold P99 latency goes from {ms(cold.latency_ms.p99)} to {ms(costs[COLD].latency_ms.p99)}, "
            f"throughput from {whole.throughput_tokens_s:,.0f} to {costs[ALL].throughput_tokens_s:,.0f} tokens/s"
            f"{_lost(costs[ALL])}."
        ),
    )


def _best(
    found: Mapping[str, Sequence[ClassFigures]], limits_ms: Mapping[str, tuple[float, float]]
) -> ClassFigures | None:
    """Return the hot figures of the policy with the lowest P99 TTFT that is worth its price.

    It loses next to nothing, and where hot requests keep their limits as it is, cold ones still keep theirs.
    """
    default = {one.name: one for one in found[FCFS]}
    content = within(default.get(HOT), limits_ms[HOT]) and within(default.get(COLD), limits_ms[COLD])
    rows = []
    for name, figures in found.items():
        by_class = {one.name: one for one in figures}
        hot = by_class.get(HOT)
        keeps = by_class[ALL].lost_share <= default[ALL].lost_share + LOST
        keeps &= not (content and within(by_class.get(COLD), limits_ms[COLD]) is False)
        if name != FCFS and keeps and hot is not None and hot.ttft_ms.p99 is not None:
            rows.append((hot.ttft_ms.p99, hot))
    return min(rows, key=lambda row: row[0])[1] if rows else None


def _reason(part: float, hot: ClassFigures, limit: tuple[float, float]) -> str:
    p99 = hot.ttft_ms.p99 or 0.0
    now = (
        f"hot P99 TTFT is {ms(p99)} first come, first served, and no policy takes 5 % off it at a fair price"
    )
    if part < FEW_COLD:
        return f"your cold share is {100 * part:.1f} %; {now}."
    if p99 <= limit[1]:
        return f"{now}; it keeps its limit of {ms(limit[1])} as it is."
    return f"{now}: cold requests ({100 * part:.0f} %) are not what makes hot ones wait."


def _lost(whole: ClassFigures) -> str:
    gone = whole.refused + whole.killed
    return f"; {gone:,} requests refused or killed" if gone else ""


def ms(value: float | None) -> str:
    """Return a time in ms as it is read: ms below a second, else s."""
    if value is None:
        return "none"
    return f"{value:,.0f} ms" if value < 1000 else f"{value / 1000:,.1f} s"
