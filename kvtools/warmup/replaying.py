"""Replays of a stretch of log after a warm-up set was sent, and the naive set to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts, replay_prompts, unlimited_hits
from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.model import CacheSpec
    from kvtools.warmup.choose import Chosen
    from kvtools.warmup.tree import History


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """One warm-up request: its prompt tokens, and its full blocks by the history's ids (others: larger ids)."""

    tokens: int
    blocks: NDArray[np.int32]


def as_sent(history: History, prefixes: Sequence[Chosen], block_size: int) -> list[Sent]:
    """Return prefixes as requests of just their blocks, in their order."""
    return [
        Sent(prefix.depth * block_size, history.blocks(prefix.request, prefix.depth)) for prefix in prefixes
    ]


def sending_order(prefixes: Sequence[Chosen]) -> list[Chosen]:
    """Return the prefixes as they are to be sent: the most valuable last, by what a block saves.

    The cache pushes out first what was sent first.
    """
    return sorted(prefixes, key=lambda one: (one.value / one.blocks, one.request))


def most_frequent(history: History, stop: int, queries: int, blocks: int | None) -> list[int]:
    """Return the naive choice: the most frequent whole prompts, ties to the most recent, by their latest request.

    They are taken in that order as long as all their distinct blocks fit into ``blocks``.
    """
    whole, owner, times = np.unique(history.whole[:stop], return_inverse=True, return_counts=True)
    latest = np.zeros(len(whole), dtype=np.int64)
    latest[owner] = np.arange(stop)
    chosen: list[int] = []
    covered: set[int] = set()
    for place in np.lexsort((-latest, -times))[:queries].tolist():
        request = int(latest[place])
        covered.update(history.blocks(request).tolist())
        if blocks is not None and len(covered) > blocks:
            break
        chosen.append(request)
    return chosen


def naive_set(history: History, requests: Sequence[int]) -> list[Sent]:
    """Return whole prompts as requests, in sending order: the first of ``requests`` last."""
    return [Sent(int(history.tokens[one]), history.blocks(one)) for one in reversed(requests)]


def replayed(
    history: History, stretch: tuple[int, int], sent: Sequence[Sent], spec: CacheSpec
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the hit tokens of the requests sent first, and of the requests ``stretch`` behind them.

    One at a time through the cache of ``spec``, which starts empty; a request for n answers does n lookups.
    """
    each = _lookups(history, stretch)
    rows = _rows(history, stretch, each)
    ids = np.concatenate([*(one.blocks for one in sent), rows.values])
    lengths = np.array([len(one.blocks) for one in sent], dtype=np.int64)
    offsets = offsets_of(np.concatenate((lengths, rows.lengths())))
    tokens = np.array([one.tokens for one in sent], dtype=np.int64)
    tokens = np.concatenate((tokens, history.tokens[each]))
    skip = np.concatenate((np.zeros(len(sent), dtype=np.bool_), history.skip_lookup[each]))
    prompts = Prompts(tokens, Interner().intern(ids.astype(np.uint64)), offsets, skip)
    hits = unlimited_hits(prompts, spec)
    if spec.capacity_blocks is not None:
        hits = replay_prompts(prompts, spec, hits).hit_tokens
    of_each = np.bincount(each - stretch[0], weights=hits[len(sent) :], minlength=stretch[1] - stretch[0])
    return hits[: len(sent)], of_each.astype(np.int64)


def _lookups(history: History, stretch: tuple[int, int]) -> NDArray[np.int64]:
    """Return the requests of a stretch, each as often as it does a lookup: once per answer asked for."""
    each = np.arange(*stretch, dtype=np.int64)
    return each if history.samples is None else np.repeat(each, history.samples[stretch[0] : stretch[1]])


def _rows(history: History, stretch: tuple[int, int], each: NDArray[np.int64]) -> Ragged:
    begin, end = stretch
    if history.samples is not None:
        return Ragged(history.ids, history.offsets).take(each)
    offsets = history.offsets[begin : end + 1]
    return Ragged(history.ids[offsets[0] : offsets[-1]], offsets - offsets[0])


def computed_tokens(sent: Sequence[Sent], hits: NDArray[np.int64]) -> int:
    """Prompt tokens that sending the set computes: all but what earlier requests of the set had left in the cache."""
    return sum(one.tokens for one in sent) - int(hits.sum())
