"""The same pieces in another order: passages of a prompt, lines of a text, messages of a history."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kvtools.diagnosis.turn_model import common_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEAST_SHARE = 0.5


def order_moved(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many pieces two lists share in two orders behind their common beginning; 0 where that is no cause.

    Order is the cause where the first piece that differs stands elsewhere in the other list, on both sides, and
    at least half of the rest of the shorter list is shared.
    """
    start = common_prefix(one, other)
    rest, others = [p for p in one[start:] if p.strip()], [p for p in other[start:] if p.strip()]
    shared = Counter(rest) & Counter(others)
    count = shared.total()
    if len(shared) < 2 or count < _LEAST_SHARE * min(len(rest), len(others)):
        return 0
    return count if rest[0] in shared and others[0] in shared and rest[0] != others[0] else 0


def in_order_of(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return ``other`` with the pieces that ``one`` holds too in the order of ``one``, the rest in place."""
    shared = Counter(one) & Counter(other)
    shared = Counter({piece: count for piece, count in shared.items() if piece.strip()})
    left, ordered = shared.copy(), []
    for piece in one:
        if left[piece] > 0:
            left[piece] -= 1
            ordered.append(piece)
    following, mended = iter(ordered), []
    for piece in other:
        if shared[piece] > 0:
            shared[piece] -= 1
            piece = next(following)  # noqa: PLW2901 - the slot keeps its place, its piece changes
        mended.append(piece)
    return mended


def reordered_as(before: str, after: str) -> str:
    """Return ``after`` with the paragraphs or lines that ``before`` holds too in the order of ``before``."""
    for separator in ("\n\n", "\n"):
        one, other = before.split(separator), after.split(separator)
        if order_moved(one, other):
            return separator.join(in_order_of(one, other))
    return after
