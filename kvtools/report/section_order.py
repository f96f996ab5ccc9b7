"""The order of sections as it stands in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.diagnosis.section_order import advised_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.diagnosis.section_order import OrderStep
    from kvtools.diagnosis.section_order import SectionOrder as FoundOrder


class SectionOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order of the sections that reuses most, and the one that is advised: each move of it gains 0.1 point.

    ``counted_by``: ``replay`` (rates as ``cache.hit_rate``), or ``components`` (whole components, not vLLM's blocks:
    to compare orders with each other only). ``sampled`` of ``requests`` that can be ordered were searched.
    """

    current: list[str]
    best: list[str]
    advised: list[str]
    hit_rate_current: float | None
    hit_rate_best: float | None
    hit_rate_advised: float | None
    moves: list[str]
    counted_by: str
    requests: int
    sampled: int
    orders_tried: int
    exhaustive: bool
    keep_order: list[list[str]]


def section_order_figures(
    found: FoundOrder, steps: Sequence[OrderStep], *, counted_by: str, requests: int, sampled: int
) -> SectionOrder:
    """Return the outcome of a search as figures; ``steps`` with the rates to tell, the current order first."""
    advised = advised_step(steps)
    return SectionOrder(
        current=list(steps[0].order),
        best=list(steps[-1].order),
        advised=list(advised.order),
        hit_rate_current=steps[0].hit_rate,
        hit_rate_best=steps[-1].hit_rate,
        hit_rate_advised=advised.hit_rate,
        moves=[move.sentence for move in advised.moves],
        counted_by=counted_by,
        requests=requests,
        sampled=sampled,
        orders_tried=found.tried,
        exhaustive=found.exhaustive,
        keep_order=[list(group) for group in found.keep_order],
    )
