"""Variable share: tokens covered by no shingle that at least half of the requests of their route carry.

Whether a shingle is frequent is known only at the end, so token ids have to be kept: of every request while
all fit into ``BUDGET_TOKENS``, else of a half, a quarter, … of the requests, chosen by a hash of where they
stand in the log. The choice depends on the set of requests alone, not on order or partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel
from kvtools.similarity.shingles import distinct_shingles, shingle_at
from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

BUDGET_TOKENS = 1 << 24
"""64 MiB of ids; a log of 20,000 prompts of 800 tokens fits."""


STRETCH_REQUESTS = 1 << 10
"""Requests whose shingles are counted at once."""


@dataclass(slots=True)
class _Part:
    groups: list[int]
    hashes: NDArray[np.uint64]
    tokens: Ragged


@dataclass(slots=True)
class TokenSample:
    """The token ids of one request in ``2**level``; level 0 is all of them."""

    level: int = 0
    parts: list[_Part] = field(default_factory=list)
    held_tokens: int = 0

    def add(self, tokens: Ragged, groups: Sequence[int], hashes: NDArray[np.uint64]) -> None:
        """Offer the rows of ``tokens`` (int32 ids).

        ``groups`` are their routes (digests, 0: none), ``hashes`` decide who stays.
        """
        self._keep(_Part(list(groups), hashes, tokens), copy=True)
        self._shrink()

    @property
    def requests(self) -> int:
        """How many requests the sample holds."""
        return sum(len(part.groups) for part in self.parts)

    def merge(self, other: TokenSample) -> None:
        """Take over what ``other`` holds."""
        self.level = max(self.level, other.level)
        parts, self.parts, self.held_tokens = self.parts + other.parts, [], 0
        for part in parts:
            self._keep(part)
        self._shrink()

    def _keep(self, part: _Part, *, copy: bool = False) -> None:
        chosen = np.flatnonzero((part.hashes & np.uint64((1 << self.level) - 1)) == 0)
        if len(chosen) < len(part.hashes) or copy:
            part = _Part([part.groups[i] for i in chosen], part.hashes[chosen], part.tokens.take(chosen))
        if len(chosen):
            self.parts.append(part)
            self.held_tokens += len(part.tokens.values)

    def _shrink(self) -> None:
        while self.held_tokens > BUDGET_TOKENS:
            self.level += 1
            parts, self.parts, self.held_tokens = self.parts, [], 0
            for part in parts:
                self._keep(part)

    def variable_tokens(self) -> dict[int, tuple[int, int]]:
        """Return for each route the variable tokens and all tokens of its requests in the sample."""
        places: dict[int, list[tuple[int, int]]] = {}
        for number, part in enumerate(self.parts):
            for row, group in enumerate(part.groups):
                places.setdefault(group, []).append((number, row))
        return {group: _variable(self._gathered(rows)) for group, rows in places.items()}

    def _gathered(self, places: list[tuple[int, int]]) -> Ragged:
        rows = [self.parts[number].tokens.row(row) for number, row in places]
        return Ragged(np.concatenate(rows), offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))


def _variable(tokens: Ragged) -> tuple[int, int]:
    """Return variable and all tokens of one route's requests."""
    candidates = np.unique(np.concatenate([_frequent(part) for part in _stretches(tokens)]))
    carried = _carriers(tokens.values, tokens.offsets, candidates, _table(candidates))
    frequent = candidates[2 * carried >= len(tokens)]
    covered = int(_covered(tokens.values, tokens.offsets, frequent, _table(frequent)))
    return len(tokens.values) - covered, len(tokens.values)


def _stretches(tokens: Ragged) -> list[Ragged]:
    starts = range(0, len(tokens), STRETCH_REQUESTS)
    return [Ragged(tokens.values, tokens.offsets[start : start + STRETCH_REQUESTS + 1]) for start in starts]


def _frequent(tokens: Ragged) -> NDArray[np.uint64]:
    """Return the shingles that at least half of these requests carry.

    What half of all requests carry, half of the requests of at least one stretch carry: so the stretches'
    frequent shingles are all the candidates there are, and no table of all shingles is needed.
    """
    shingles = distinct_shingles(tokens).values
    counts = _counts(shingles)
    frequent: NDArray[np.uint64] = shingles[2 * counts >= len(tokens)]
    return frequent


@kernel
def _slot(table: NDArray[np.int32], shingles: NDArray[np.uint64], shingle: np.uint64) -> np.uint64:
    """Return the slot of the table that holds the number of a shingle, or the free one where it would stand."""
    mask = np.uint64(len(table) - 1)
    slot = shingle & mask
    while table[slot] >= 0 and shingles[table[slot]] != shingle:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _table(shingles: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return a hash table of the numbers of ``shingles``; of equal ones, the first."""
    room = 16
    while room < 2 * len(shingles):
        room *= 2
    table = np.full(room, -1, dtype=np.int32)
    for number in range(len(shingles)):
        slot = _slot(table, shingles, shingles[number])
        if table[slot] < 0:
            table[slot] = number
    return table


@kernel
def _counts(shingles: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how often each shingle comes, at its first place; 0 at the others."""
    table = _table(shingles)
    counts = np.zeros(len(shingles), dtype=np.int64)
    for shingle in shingles:
        counts[table[_slot(table, shingles, shingle)]] += 1
    return counts


@kernel
def _carriers(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    candidates: NDArray[np.uint64],
    table: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Return how many requests carry each candidate."""
    carried = np.zeros(len(candidates), dtype=np.int64)
    counted = np.full(len(candidates), -1, dtype=np.int64)
    for row in range(len(offsets) - 1):
        for place in range(offsets[row], offsets[row + 1] - 4):
            found = table[_slot(table, candidates, shingle_at(tokens, place))]
            if found >= 0 and counted[found] != row:
                counted[found] = row
                carried[found] += 1
    return carried


@kernel
def _covered(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    frequent: NDArray[np.uint64],
    table: NDArray[np.int32],
) -> int:
    covered = 0
    for row in range(len(offsets) - 1):
        reach = offsets[row]  # the first token that no frequent shingle so far covers
        for place in range(offsets[row], offsets[row + 1] - 4):
            if table[_slot(table, frequent, shingle_at(tokens, place))] >= 0:
                covered += place + 5 - max(reach, place)
                reach = place + 5
    return covered
