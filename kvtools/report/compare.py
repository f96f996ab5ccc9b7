"""Predicted against observed, as it stands in a report. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.model import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.replay.compare import Comparison

DIFFERENCES_SHOWN = 5


class DifferentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose hits differ, with the reason where it is known."""

    id: str
    predicted_hit_tokens: int
    observed_hit_tokens: int
    reason: str


class Compare(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted against observed over the requests that both counted."""

    predicted: str
    observed: str
    equal_requests: int
    different_requests: int
    predicted_hit_tokens: int
    observed_hit_tokens: int
    predicted_hit_rate: float | None
    observed_hit_rate: float | None
    reasons: dict[str, int]
    differences: list[DifferentRequest]


def compare_figures(comparison: Comparison, names: tuple[str, str], ids: Sequence[str]) -> Compare:
    """Return predicted against observed as it stands in the report; ``names`` of the two sides, ``ids`` of requests."""
    queried = comparison.observed_queried_tokens
    return Compare(
        predicted=names[0],
        observed=names[1],
        equal_requests=comparison.equal_requests,
        different_requests=comparison.different_requests,
        predicted_hit_tokens=comparison.predicted_hit_tokens,
        observed_hit_tokens=comparison.observed_hit_tokens,
        predicted_hit_rate=share(comparison.predicted_hit_tokens, queried),
        observed_hit_rate=share(comparison.observed_hit_tokens, queried),
        reasons=comparison.reasons(),
        differences=[
            DifferentRequest(
                id=ids[difference.index],
                predicted_hit_tokens=difference.predicted_hit_tokens,
                observed_hit_tokens=difference.observed_hit_tokens,
                reason=difference.reason,
            )
            for difference in comparison.differences
        ],
    )


def headline(compare: Compare) -> str:
    """Say in one sentence whether prediction and observation agree."""
    total = compare.equal_requests + compare.different_requests
    return (
        f"Predicted {100 * (compare.predicted_hit_rate or 0):.2f} %, {compare.observed} counted "
        f"{100 * (compare.observed_hit_rate or 0):.2f} %: equal in {compare.equal_requests:,} of {total:,} requests."
    )


def differences(compare: Compare) -> list[str]:
    """Return the lines that say where they differ and why, none where they agree."""
    if not compare.different_requests:
        return []
    lines = ["Where they differ"]
    lines += [f"  {count:,} requests: {reason}" for reason, count in compare.reasons.items()]
    lines += [
        f"    {one.id}: predicted {one.predicted_hit_tokens:,}, counted {one.observed_hit_tokens:,} tokens"
        for one in compare.differences[:DIFFERENCES_SHOWN]
    ]
    if compare.different_requests > DIFFERENCES_SHOWN:
        lines.append(
            f"    and {compare.different_requests - DIFFERENCES_SHOWN:,} more (--format json lists all)"
        )
    return lines
