"""A log whose prompts are lists of sections, and its exact replay at any order of these sections.

The counting rule, which is *not* vLLM's block rule: a component (one system part, one passage, one message) is a hit
if the whole sequence of components from the start of the prompt up to and including it was seen in an earlier
request of the same namespace; it then counts with its full length. The hit rate is the lengths of all hits over the
lengths of all components, over all requests, in a cache without limit. No block has to be full, no last token is
kept back, and what a template prints between components does not count. vLLM hits less where a block straddles the
place at which two prompts part, and more where two different components begin alike; a full cache hits less again.
So these rates compare orders of one log with each other, and with no other rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel
from kvtools.model import share
from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SectionedLog:
    """Prompts as sections, each a list of components.

    ``sections``: the labels of the sections, in the order in which the prompts hold them. ``components``: per request
    the ids of its components; equal ids are equal content. ``section_of``: for each component the place of its
    section in ``sections``, not falling within a request. ``lengths``: of each component, in ``unit``.
    ``namespaces``: per request a number; requests of different numbers never share.
    """

    sections: tuple[str, ...]
    components: Ragged
    section_of: NDArray[np.int64]
    lengths: NDArray[np.int64]
    namespaces: NDArray[np.int64]
    unit: str = "tokens"

    def __post_init__(self) -> None:
        count = len(self.components.values)
        if not len(self.section_of) == len(self.lengths) == count:
            raise ValueError("section_of and lengths have one entry per component")
        if len(self.namespaces) != len(self.components):
            raise ValueError("namespaces has one entry per request")
        if len(set(self.sections)) != len(self.sections):
            raise ValueError("two sections have the same label")
        place = np.repeat(np.arange(len(self.components)), self.components.lengths())
        if count and (np.diff(place * len(self.sections) + self.section_of) < 0).any():
            raise ValueError("a request's components do not stand in the order of the sections")

    @property
    def total_length(self) -> int:
        """Lengths of all components of all requests, in ``unit``."""
        return int(self.lengths.sum())

    @property
    def shares_content(self) -> bool:
        """Whether some id stands in more than one section."""
        pairs = np.unique(np.stack((self.components.values, self.section_of)), axis=1)
        return bool((np.diff(pairs[0]) == 0).any())

    def hits(self, order: Sequence[int]) -> NDArray[np.int64]:
        """Return what each request hits, in ``unit``, with the sections in ``order`` (places in ``sections``)."""
        rank = np.empty(len(self.sections), dtype=np.int64)
        rank[list(order)] = np.arange(len(self.sections))
        request = np.repeat(np.arange(len(self.components)), self.components.lengths())
        moved = np.argsort(request * len(self.sections) + rank[self.section_of], kind="stable")
        _, seen = chain(self.components.values[moved], self.components.offsets, self.namespaces)
        hit = np.concatenate(([0], np.cumsum(np.where(seen, self.lengths[moved], 0))))
        per_request: NDArray[np.int64] = np.diff(hit[self.components.offsets])
        return per_request

    def hit_rate(self, order: Sequence[int]) -> float | None:
        """Return the share of all lengths that are hits (0..1), ``None`` where there is nothing to hit."""
        return share(int(self.hits(order).sum()), self.total_length)


def sectioned(
    sections: Sequence[str],
    requests: Iterable[Sequence[Sequence[int]]],
    length_of: Mapping[int, int],
    namespaces: Sequence[int] | None = None,
    unit: str = "tokens",
) -> SectionedLog:
    """Build a log from plain lists: per request one list of component ids for each of ``sections``.

    ``length_of`` gives the length of each id in ``unit``; without ``namespaces`` all requests share.

    Raises:
        KeyError: an id has no length.
        ValueError: a request has not one list per section.
    """
    ids: list[int] = []
    section_of: list[int] = []
    counts: list[int] = []
    for request in requests:
        before = len(ids)
        for place, (_, held) in enumerate(zip(sections, request, strict=True)):
            ids.extend(held)
            section_of.extend([place] * len(held))
        counts.append(len(ids) - before)
    return SectionedLog(
        tuple(sections),
        Ragged(np.array(ids, dtype=np.int64), offsets_of(np.array(counts, dtype=np.int64))),
        np.array(section_of, dtype=np.int64),
        np.array([length_of[one] for one in ids], dtype=np.int64),
        np.array(namespaces if namespaces is not None else [0] * len(counts), dtype=np.int64),
        unit,
    )


def chain(
    ids: NDArray[np.int64], offsets: NDArray[np.int64], roots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return for each id a dense number of it *and all before it in its row*, and whether that was seen before.

    Row ``i`` is ``ids[offsets[i]:offsets[i + 1]]`` and begins at ``roots[i]``: rows of different roots share nothing.
    """
    slots = 1 << max(4, (2 * len(ids)).bit_length())
    nodes, seen = _chain(ids, offsets, roots, slots)
    return nodes, seen


@kernel
def _chain(
    ids: NDArray[np.int64], offsets: NDArray[np.int64], roots: NDArray[np.int64], slots: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    # An exact table of (number so far, id): a collision of hashes is walked past, never taken for equal.
    parents = np.full(slots, np.int64(-1), dtype=np.int64)
    children = np.empty(slots, dtype=np.int64)
    depths = np.empty(slots, dtype=np.int64)
    numbers = np.empty(slots, dtype=np.int64)
    nodes = np.empty(len(ids), dtype=np.int64)
    seen = np.zeros(len(ids), dtype=np.bool_)
    fresh = np.int64(0)
    for row in range(len(offsets) - 1):
        parent = roots[row]
        for place in range(offsets[row], offsets[row + 1]):
            first = np.int64(1 if place == offsets[row] else 0)
            mixed = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(ids[place])
            mixed *= np.uint64(0xC2B2AE3D27D4EB4F)
            slot = np.int64(mixed >> np.uint64(20)) & (slots - 1)
            while parents[slot] >= 0 and not (
                parents[slot] == parent and children[slot] == ids[place] and depths[slot] == first
            ):
                slot = (slot + 1) & (slots - 1)
            if parents[slot] >= 0:
                seen[place] = True
            else:
                parents[slot] = parent
                children[slot] = ids[place]
                depths[slot] = first
                numbers[slot] = fresh
                fresh += 1
            nodes[place] = numbers[slot]
            parent = numbers[slot]
    return nodes, seen
