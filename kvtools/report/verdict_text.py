"""The verdict and the misses on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.model import share
from kvtools.report.numbers import percent
from kvtools.report.words import phrase, say, told

if TYPE_CHECKING:
    from kvtools.report.verdict import MissFigures, VerdictFigures


def verdict_lines(verdict: VerdictFigures) -> list[str]:
    """Return the sentence, then what to do, indented; nothing where there is nothing to say."""
    if verdict.kind == "healthy":
        return []
    return [told(verdict.sentence), *(f"  {told(line)}" for line in verdict.advice)]


def misses_line(misses: MissFigures) -> str | None:
    """Return the misses by cause, the largest first, ``None`` where nothing was missed."""
    parts = [
        (misses.cold or 0, phrase("first seen")),
        (misses.diverged or 0, phrase("behind another prefix")),
        (misses.evicted, phrase("evicted")),
        (misses.other, phrase("not known why")),
    ]
    total = sum(tokens for tokens, _ in parts)
    if not total:
        return None
    named = [
        f"{percent(share(tokens, total))} {say(name)}"
        for tokens, name in sorted(parts, key=lambda part: -part[0])
        if tokens
    ]
    level = misses.sampling_level
    measured = " " + say("(measured on every {count}th shingle)", count=f"{1 << level:,}") if level else ""
    return say("{count} tokens: {causes}", count=f"{total:,}", causes=" · ".join(named)) + measured
