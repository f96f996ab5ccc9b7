"""What every order of sections hits, found by refining groups of requests instead of replaying each order.

In a cache without limit a component's hits are those of all requests but the first that begin with the same
sequence, so only *which* requests begin alike matters, not when. Requests that begin alike are a group; one more
section splits each group, and a group of one is done: it hits nothing further and nothing further hits it. Orders
that begin with the same sections share this work, which makes all orders of seven sections a matter of a second.

This holds for logs whose sections share no content. Where an id can stand in several sections, requests that part at
one section (one holds it here, the other in the next) can go on alike behind it, and such orders have to be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.diagnosis.sectioned import chain
from kvtools.jit import kernel
from kvtools.table import offsets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.diagnosis.sectioned import SectionedLog


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Requests that begin alike, in groups of two or more, and what all requests hit so far.

    Group ``i`` is ``rows[starts[i]:starts[i + 1]]``.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    hit_length: int


class Partition:
    """The log cut by section; ``extend`` puts one more section behind those that a group has in common."""

    def __init__(self, log: SectionedLog) -> None:
        requests = len(log.components)
        request = np.repeat(np.arange(requests), log.components.lengths())
        cell = log.section_of * requests + request
        order = np.argsort(cell, kind="stable")
        cells = np.bincount(cell, minlength=len(log.sections) * requests).astype(np.int64)
        self._offsets = offsets_of(cells)
        self._lengths = log.lengths[order]
        # All sections share one numbering: within a step only one section is looked at.
        ids = log.components.values[order]
        self._nodes, _ = chain(ids, self._offsets, np.zeros(len(cells), dtype=np.int64))
        self._requests = requests
        self._marks = np.zeros((3, len(ids) + 1), dtype=np.int64)
        self._stamp = 0
        self._namespaces = log.namespaces

    def start(self) -> Groups:
        """Return the groups before any section: the requests of each namespace."""
        rows = np.argsort(self._namespaces, kind="stable")
        cuts = np.flatnonzero(np.diff(self._namespaces[rows])) + 1
        starts = np.concatenate(([0], cuts, [len(rows)])).astype(np.int64)
        return Groups(rows, starts, 0)

    def extend(self, groups: Groups, section: int) -> Groups:
        """Return the groups and the hits once ``section`` (its place in the log's order) stands next."""
        cells = self._offsets[section * self._requests : (section + 1) * self._requests + 1]
        rows, starts, hit = _split(
            groups.rows, groups.starts, cells, self._nodes, self._lengths, self._marks, self._stamp
        )
        self._stamp += len(groups.starts)
        return Groups(rows, starts, groups.hit_length + int(hit))


@kernel
def _split(
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    cells: NDArray[np.int64],
    nodes: NDArray[np.int64],
    lengths: NDArray[np.int64],
    marks: NDArray[np.int64],
    stamp: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Split each group by one section. ``marks``: by sequence, the group that met it, that ended so, and its part."""
    met, ended, part_of = marks[0], marks[1], marks[2]
    empty = marks.shape[1] - 1  # stands for a section that holds nothing
    sizes = np.zeros(len(rows), dtype=np.int64)
    parts = np.empty(len(rows), dtype=np.int64)
    count = 0
    hit = 0
    for group in range(len(starts) - 1):
        stamp += 1
        for at in range(starts[group], starts[group + 1]):
            whole = empty
            for place in range(cells[rows[at]], cells[rows[at] + 1]):
                whole = nodes[place]
                if met[whole] == stamp:
                    hit += lengths[place]
                met[whole] = stamp
            if ended[whole] != stamp:
                ended[whole] = stamp
                part_of[whole] = count
                count += 1
            parts[at] = part_of[whole]
            sizes[parts[at]] += 1
    kept_starts = np.zeros(count + 1, dtype=np.int64)
    next_place = np.full(count, -1, dtype=np.int64)
    kept = 0
    for part in range(count):
        if sizes[part] > 1:
            next_place[part] = kept_starts[kept]
            kept_starts[kept + 1] = kept_starts[kept] + sizes[part]
            kept += 1
    kept_rows = np.empty(kept_starts[kept], dtype=np.int64)
    for at in range(len(rows)):
        if next_place[parts[at]] >= 0:
            kept_rows[next_place[parts[at]]] = rows[at]
            next_place[parts[at]] += 1
    return kept_rows, kept_starts[: kept + 1].copy(), hit
