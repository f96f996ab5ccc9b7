"""Jaccard of consecutive requests, as a fold: any partition of the log gives the same figure.

Each fraction is rounded down to a multiple of 2**-40 and summed as an integer, so that the order of the
additions cannot show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kvtools.similarity.shingles import common

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kvtools.table import Ragged

UNIT = 1 << 40


class Group(NamedTuple):
    """Whose consecutive requests are compared: all of a namespace (``route`` is ``None``), or one route of it.

    Both are digests of names.
    """

    route: int | None
    namespace: int


@dataclass(slots=True)
class JaccardSum:
    """A sum of fractions in units of 2**-40, and how many they are."""

    units: int = 0
    pairs: int = 0

    def add(self, both: int, either: int) -> None:
        """Add ``both / either``; a pair of two empty sets says nothing and is left out."""
        if either:
            self.units += both * UNIT // either
            self.pairs += 1

    def include(self, other: JaccardSum) -> None:
        """Add all fractions of ``other``."""
        self.units += other.units
        self.pairs += other.pairs

    @property
    def mean(self) -> float | None:
        """The mean fraction (0..1), ``None`` without a pair."""
        return self.units / (UNIT * self.pairs) if self.pairs else None


@dataclass(slots=True)
class Run:
    """The requests of one group in log order: the sets of the first and the last, and the sum between them."""

    first: NDArray[np.uint64]
    last: NDArray[np.uint64]
    total: JaccardSum = field(default_factory=JaccardSum)

    def append(self, shingles: NDArray[np.uint64]) -> None:
        """Compare the next request with the last, and make it the last."""
        both = int(common(self.last, shingles))
        self.total.add(both, len(self.last) + len(shingles) - both)
        self.last = shingles


@dataclass(slots=True)
class ConsecutiveText:
    """Jaccard of text over consecutive requests of each group."""

    runs: dict[Group, Run] = field(default_factory=dict)

    def add(self, sets: Ragged, groups: Sequence[Group]) -> None:
        """Append the rows of ``sets`` (``distinct_shingles``), row ``i`` to the group ``groups[i]``."""
        for index, group in enumerate(groups):
            shingles = sets.row(index)
            run = self.runs.get(group)
            if run is None:
                self.runs[group] = Run(shingles.copy(), shingles)
            else:
                run.append(shingles)

    def settle(self) -> None:
        """Copy the sets that later chunks are compared with, so that the chunk's own buffer can go."""
        for run in self.runs.values():
            if run.last.base is not None:
                run.last = run.last.copy()

    def merge(self, later: ConsecutiveText) -> None:
        """Append all requests of ``later``, which follow these in the log."""
        for group, run in later.runs.items():
            mine = self.runs.get(group)
            if mine is None:
                self.runs[group] = run
            else:
                mine.append(run.first)
                mine.total.include(run.total)
                mine.last = run.last
