"""Lines that change places: examples drawn anew for each request, passages in another order."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_LINES = 256
"""Lines whose order is compared; a section of more is aligned as it stands."""


def shuffled_lines(rows: Sequence[NDArray[np.int32]]) -> set[int]:
    """Return the lines (by number) that stand before another line in one text and behind it in another.

    Only lines that at least two texts have, and none has twice: blank lines and brackets say nothing.
    """
    texts = Counter(line for row in rows for line in set(row.tolist()))
    twice = {line for row in rows for line, count in Counter(row.tolist()).items() if count > 1}
    fixed = {line for line, count in texts.items() if count == len(rows)}
    known = sorted(line for line, count in texts.items() if count > 1 and line not in twice)
    if len(known) > MAX_LINES:
        return set()
    slot_of = {line: slot for slot, line in enumerate(known)}
    before = np.zeros((len(known), len(known)), dtype=np.bool_)
    for row in rows:
        slots = [slot_of[line] for line in row.tolist() if line in slot_of]
        for place, slot in enumerate(slots):
            before[slot, slots[place + 1 :]] = True
    both = before & before.T
    moved = {known[slot] for slot in np.flatnonzero(both.any(axis=1))}
    # A line that all have and that only shuffled lines jump over stays where it is, if it is jumped by few.
    anchors = {
        line for line in moved & fixed if both[slot_of[line]].sum() * 2 < both.sum(axis=1).max(initial=0)
    }
    return moved - anchors


def stretch_of(row: NDArray[np.int32], moving: set[int], pool: set[int]) -> tuple[int, int] | None:
    """Return begin and end of the stretch of ``row`` around its ``moving`` lines, ``None`` where it is not one.

    Lines of the ``pool`` (more than one text has them) beside and between them belong to it: they were drawn with
    them.
    """
    lines = row.tolist()
    places = [place for place, line in enumerate(lines) if line in moving]
    if not places:
        return 0, 0
    begin, end = places[0], places[-1] + 1
    if any(line not in moving and line not in pool for line in lines[begin:end]):
        return None
    while begin and lines[begin - 1] in pool:
        begin -= 1
    while end < len(lines) and lines[end] in pool:
        end += 1
    return begin, end
