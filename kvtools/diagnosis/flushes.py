"""When a server lost its cache: from then on it hits what a cache does that was empty at that moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts
from kvtools.cache.study import replay_prompts, unlimited_hits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.model import CacheSpec

UNKNOWN = -1
AGREES = 0.95
"""Share of the reported requests (0..1) whose hits a flush has to explain, token for token."""
LEAST_REQUESTS = 2
"""Requests that a flush has to explain: a single miss may as well be an eviction."""
WINDOW_REQUESTS = 1_000
"""Requests behind a suspected flush on which it is tried."""
_TRIED = 32
_MOST = 8


@dataclass(frozen=True, slots=True)
class Flush:
    """The first request after a flush (its place in the replay), and the hits that the server missed by it."""

    request: int
    lost_tokens: int


def find_flushes(
    prompts: Prompts, spec: CacheSpec, predicted: NDArray[np.int64], reported: NDArray[np.int64]
) -> list[Flush]:
    """Return where the server's cache was emptied, as far as its reported hits show it.

    ``predicted`` are the hit tokens of each prompt in a cache of ``spec``, ``reported`` those that the server told
    (``UNKNOWN``: it did not); all in replay order. A flush is a request that hits nothing although it was predicted to,
    after others had hit; before it, reports agree with the prediction, and behind it with a cache that was empty
    there (``AGREES``). A server that differs otherwise is not called flushed.
    """
    known = reported != UNKNOWN
    expected = predicted.copy()
    flushes: list[Flush] = []
    start = 0
    while len(flushes) < _MOST:
        found = _next(prompts, spec, expected, reported, start)
        if found is None:
            break
        place, after = found
        lost = int((expected[place:] - after)[known[place:]].sum())
        expected[place:] = after
        flushes.append(Flush(place, lost))
        start = place + 1
    rest = known.copy()
    rest[: flushes[-1].request if flushes else 0] = False
    return flushes if flushes and _share_equal(expected, reported, rest) >= AGREES else []


def _next(
    prompts: Prompts, spec: CacheSpec, expected: NDArray[np.int64], reported: NDArray[np.int64], start: int
) -> tuple[int, NDArray[np.int64]] | None:
    """Return the next place where an empty cache explains the reports behind it better, and its hits."""
    known = reported != UNKNOWN
    hits = np.flatnonzero(known & (reported > 0))
    lost = np.flatnonzero(known & (reported == 0) & (expected > 0))
    lost = lost[(lost >= start) & (lost > (hits[0] if len(hits) else len(reported)))]
    for place in lost[:_TRIED].tolist():
        before = known & (np.arange(len(known)) < place) & (np.arange(len(known)) >= start)
        if before.any() and _share_equal(expected, reported, before) < AGREES:
            return None
        stop = min(place + WINDOW_REQUESTS, len(known))
        after = _emptied(prompts, spec, place, stop)
        told = reported[place:stop]
        as_flushed, as_before = (
            known[place:stop] & (told == after),
            known[place:stop] & (told == expected[place:stop]),
        )
        explained = int((as_flushed & ~as_before).sum())
        if explained >= LEAST_REQUESTS and as_flushed.sum() > as_before.sum():
            return place, _emptied(prompts, spec, place, len(known))
    return None


def _share_equal(expected: NDArray[np.int64], reported: NDArray[np.int64], rows: NDArray[np.bool_]) -> float:
    return float((expected[rows] == reported[rows]).mean()) if rows.any() else 1.0


def _emptied(prompts: Prompts, spec: CacheSpec, place: int, stop: int) -> NDArray[np.int64]:
    """Return the hits of the prompts from ``place`` to ``stop`` in a cache that is empty at first."""
    begin, end = prompts.offsets[place], prompts.offsets[stop]
    rest = Prompts(
        prompts.tokens[place:stop],
        # Dense ids are numbered at first sight: of this stretch.
        Interner().intern(prompts.ids[begin:end].astype(np.uint64)),
        prompts.offsets[place : stop + 1] - begin,
        prompts.skip_lookup[place:stop],
    )
    return replay_prompts(rest, spec, unlimited_hits(rest, spec)).hit_tokens
