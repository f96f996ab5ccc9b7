"""Group texts that were made from one template, whatever values stand in them.

What many texts share is the stable text of their templates: shingles of five words that enough texts carry. Two
texts belong together where these shared parts are alike (Jaccard of at least ``ALIKE``); the words that vary are not
looked at. The groups depend on the set of texts alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.fields.words import Numbering, words_of
from kvtools.jit import kernel
from kvtools.similarity.shingles import intersection, shingle_sets
from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.fields.sample import SectionText

ALIKE = 0.4
"""Jaccard of the shared parts from which two texts are of one group; two settings of one prompt stay apart."""

MAX_LEADERS = 1024
"""Groups of one role that are told apart; rarer texts are not looked at."""


@dataclass(frozen=True, slots=True)
class Group:
    """Texts of one role that share most of their stable text, sorted by digest."""

    role: str
    texts: tuple[SectionText, ...]

    @property
    def requests(self) -> int:
        """In how many requests these texts stand, each text counted where it stands."""
        return sum(text.requests for text in self.texts)


def grouped(texts: Sequence[SectionText]) -> list[Group]:
    """Return the groups of at least two texts, by role and then by the requests they stand in."""
    by_role: dict[str, list[SectionText]] = {}
    for text in sorted(texts, key=lambda t: (t.digest, t.text)):
        by_role.setdefault(text.role, []).append(text)
    groups = []
    for role, members in sorted(by_role.items()):
        labels = _labels([text.text for text in members])
        for label in range(int(labels.max(initial=-1)) + 1):
            chosen = tuple(members[i] for i in np.flatnonzero(labels == label))
            if len(chosen) > 1:
                groups.append(Group(role, chosen))
    return sorted(groups, key=lambda g: (g.role, -g.requests, g.texts[0].digest))


def _labels(texts: list[str]) -> NDArray[np.int64]:
    """Return each text's group, -1 for a text that shares nothing."""
    shared = _shared(shingle_sets(Numbering().rows(words_of(text) for text in texts)), _enough(len(texts)))
    same: dict[bytes, list[int]] = {}
    for index in range(len(texts)):
        row = shared.row(index)
        if len(row):
            same.setdefault(row.tobytes(), []).append(index)
    kinds = sorted(same.values(), key=lambda members: (-len(members), members[0]))
    first = np.array([members[0] for members in kinds], dtype=np.int64)
    leaders = _led(shared.take(first)) if len(first) else np.empty(0, dtype=np.int64)
    labels = np.full(len(texts), -1, dtype=np.int64)
    for members, leader in zip(kinds, leaders.tolist(), strict=True):
        labels[members] = leader
    return labels


def _enough(texts: int) -> int:
    """Texts that must carry a shingle for it to count as shared: 2 in a small log, 1 in 200 in a large one."""
    return max(2, min(32, texts // 200))


def _shared(sets: Ragged, enough: int) -> Ragged:
    values, counts = np.unique(sets.values, return_counts=True)
    kept = np.isin(sets.values, values[counts >= enough])
    before = np.concatenate(([0], np.cumsum(kept)))
    return Ragged(sets.values[kept], offsets_of(np.diff(before[sets.offsets])))


def _led(sets: Ragged) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = _leaders(sets.values, sets.offsets, ALIKE, MAX_LEADERS)
    return labels


@kernel
def _leaders(
    values: NDArray[np.uint64], offsets: NDArray[np.int64], alike: float, most: int
) -> NDArray[np.int64]:
    """Give each set to the first leader that it is alike, else make it a leader (-1 when there are enough)."""
    count = len(offsets) - 1
    labels = np.full(count, -1, dtype=np.int64)
    leaders = np.empty(most, dtype=np.int64)
    led = 0
    for row in range(count):
        mine = values[offsets[row] : offsets[row + 1]]
        for number in range(led):
            other = leaders[number]
            theirs = values[offsets[other] : offsets[other + 1]]
            # A set can be alike only one of nearly its own size.
            if min(len(mine), len(theirs)) < alike * max(len(mine), len(theirs)):
                continue
            both = intersection(mine, theirs)
            if both >= alike * (len(mine) + len(theirs) - both):
                labels[row] = number
                break
        if labels[row] < 0 and led < most:
            leaders[led] = row
            labels[row] = led
            led += 1
    return labels
