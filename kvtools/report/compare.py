"""Predicted against observed, as it stands in a report. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.model import share
from kvtools.report.words import say, told

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
    return say(
        "Predicted {predicted} %, {observer} counted {observed} %: equal in {equal} of {total} requests.",
        predicted=f"{100 * (compare.predicted_hit_rate or 0):.2f}",
        observer=told(compare.observed),
        observed=f"{100 * (compare.observed_hit_rate or 0):.2f}",
        equal=f"{compare.equal_requests:,}",
        total=f"{total:,}",
    )


def differences(compare: Compare) -> list[str]:
    """Return the lines that say where they differ and why, none where they agree."""
    if not compare.different_requests:
        return []
    lines = [say("Where they differ")]
    for reason, count in compare.reasons.items():
        lines.append("  " + say("{count} requests: {reason}", count=f"{count:,}", reason=told(reason)))
    lines += [
        f"    {one.id}: "
        + say(
            "predicted {predicted}, counted {observed} tokens",
            predicted=f"{one.predicted_hit_tokens:,}",
            observed=f"{one.observed_hit_tokens:,}",
        )
        for one in compare.differences[:DIFFERENCES_SHOWN]
    ]
    return [*lines, *left_out(compare.different_requests - DIFFERENCES_SHOWN, "    ")]


def left_out(more: int, indent: str = "  ") -> list[str]:
    """Return the line that says how many were not listed, none where all were."""
    if more <= 0:
        return []
    return [indent + say("and {count} more (--format json lists all)", count=f"{more:,}")]
