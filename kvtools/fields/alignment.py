"""Longest common subsequence: what several texts have in common, in order, with gaps of any length."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MAX_CELLS = 1 << 24
"""A table of 16 Mi steps; longer texts are aligned by their equal ends only."""


@kernel
def _subsequence(a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the places in ``a`` of a longest common subsequence (Wagner-Fischer, traced from the front).

    Of several equally long ones the one that matches earliest in ``a`` and in ``b``.
    """
    n, m = len(a), len(b)
    lengths = np.zeros((n + 1, m + 1), dtype=np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            if a[i] == b[j]:
                lengths[i, j] = lengths[i + 1, j + 1] + 1
            else:
                lengths[i, j] = max(lengths[i + 1, j], lengths[i, j + 1])
    places = np.empty(lengths[0, 0], dtype=np.int64)
    i = 0
    j = 0
    filled = 0
    while i < n and j < m and filled < len(places):
        if a[i] == b[j]:
            places[filled] = i
            filled += 1
            i += 1
            j += 1
        elif lengths[i + 1, j] >= lengths[i, j + 1]:
            i += 1
        else:
            j += 1
    return places


@kernel
def _equal_ends(a: NDArray[np.int32], b: NDArray[np.int32]) -> tuple[int, int]:
    most = min(len(a), len(b))
    front = 0
    while front < most and a[front] == b[front]:
        front += 1
    back = 0
    while back < most - front and a[len(a) - 1 - back] == b[len(b) - 1 - back]:
        back += 1
    return front, back


def common_places(a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the places in ``a`` (sorted) of what ``a`` and ``b`` have in common, in order."""
    front, back = _equal_ends(a, b)
    ends = np.arange(front), np.arange(len(a) - back, len(a))
    inner_a, inner_b = a[front : len(a) - back], b[front : len(b) - back]
    if len(inner_a) * len(inner_b) > MAX_CELLS:
        return np.concatenate(ends)
    return np.concatenate((ends[0], _subsequence(inner_a, inner_b) + front, ends[1]))


def common_to_all(rows: Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    """Return the places in ``rows[0]`` of a subsequence that every row has."""
    places = np.arange(len(rows[0]))
    for row in rows[1:]:
        places = places[common_places(rows[0][places], row)]
    return places


def regions(row: NDArray[np.int32], common: NDArray[np.int32]) -> list[tuple[int, int]]:
    """Return where the parts of ``row`` between the members of ``common`` (a subsequence of it) begin and end.

    There is one more region than there are common members; a region can be empty.
    """
    found = common_places(row, common)
    bounds = [-1, *found.tolist(), len(row)]
    return [(before + 1, after) for before, after in pairwise(bounds)]
