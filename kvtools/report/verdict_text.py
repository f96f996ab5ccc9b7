"""The verdict and the misses on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.model import share
from kvtools.report.numbers import percent

if TYPE_CHECKING:
    from kvtools.report.verdict import MissFigures, VerdictFigures


def verdict_lines(verdict: VerdictFigures) -> list[str]:
    """Return the sentence, then what to do, indented; nothing where there is nothing to say."""
    if verdict.kind == "healthy":
        return []
    return [verdict.sentence, *(f"  {line}" for line in verdict.advice)]


def misses_line(misses: MissFigures) -> str | None:
    """Return the misses by cause, the largest first, ``None`` where nothing was missed."""
    parts = [
        (misses.cold or 0, "first seen"),
        (misses.diverged or 0, "behind another prefix"),
        (misses.evicted, "evicted"),
        (misses.other, "not known why"),
    ]
    total = sum(tokens for tokens, _ in parts)
    if not total:
        return None
    named = [
        f"{percent(share(tokens, total))} {name}"
        for tokens, name in sorted(parts, key=lambda part: -part[0])
        if tokens
    ]
    level = misses.sampling_level
    measured = f" (measured on every {1 << level:,}th shingle)" if level else ""
    return f"{total:,} tokens: {' · '.join(named)}{measured}"
