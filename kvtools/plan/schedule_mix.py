"""Other mixes of the same traffic: a share of cold requests is made by leaving requests of one class out.

Nothing is invented: all requests of one class stay, of the other whole sessions are drawn (single requests taken out of
a conversation would lose what they reuse), and time is run faster so that as many requests come per second as before.
So bursts are shorter than they were, and a mix far from the log's own rests on few of its requests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.table import Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.cache import Workload

FEWEST = 50
"""A mix of fewer requests says nothing of a 99th percentile."""


def rows_of_mix(
    hot: NDArray[np.bool_], session: NDArray[np.uint64], cold_share: float, seed: int
) -> NDArray[np.int64] | None:
    """Return the requests of a mix with about ``cold_share`` (0..1) cold ones, in order; ``None`` where too few remain.

    ``session``: whose requests stay together (0: on its own).
    """
    hot_count, cold_count = int(hot.sum()), int((~hot).sum())
    if cold_share * hot_count > (1 - cold_share) * cold_count:
        wanted = {True: round(cold_count * (1 - cold_share) / cold_share), False: cold_count}
    else:
        share = cold_share / (1 - cold_share) if cold_share < 1 else np.inf
        wanted = {True: hot_count, False: round(hot_count * share) if hot_count else cold_count}
    keep = np.zeros(len(hot), dtype=np.bool_)
    for is_hot, count in wanted.items():
        rows = np.flatnonzero(hot == is_hot)
        keep[_drawn(rows, session, count, seed)] = True
    return np.flatnonzero(keep) if keep.sum() >= FEWEST else None


def _drawn(rows: NDArray[np.int64], session: NDArray[np.uint64], count: int, seed: int) -> NDArray[np.int64]:
    """Return whole sessions of ``rows``, drawn by ``seed``, until there are ``count`` requests."""
    if count >= len(rows):
        return rows
    named, place = np.unique(session[rows], return_inverse=True)
    alone = session[rows] == 0
    place = np.where(alone, len(named) + np.arange(len(rows)), place)
    draw = np.random.default_rng(seed).random(len(named) + len(rows))
    by_session = np.argsort(draw[place], kind="stable")
    return rows[by_session[:count]]


def mix(work: Workload, rows: NDArray[np.int64]) -> Workload:
    """Return the requests ``rows`` of ``work``, coming as often per second as all of ``work`` do."""
    arrival = work.arrival_us[rows]
    begin = int(arrival.min(initial=np.iinfo(np.int64).max)) if len(rows) else 0
    faster = len(rows) / max(len(work.prompt_tokens), 1)
    return replace(taken(work, rows), arrival_us=begin + np.rint((arrival - begin) * faster).astype(np.int64))


def taken(work: Workload, rows: NDArray[np.int64]) -> Workload:
    """Return the requests ``rows`` of ``work`` at their own times."""
    blocks = Ragged(work.block_ids, work.offsets).take(rows)
    _, dense = np.unique(blocks.values, return_inverse=True)
    return replace(
        work,
        prompt_tokens=work.prompt_tokens[rows],
        output_tokens=work.output_tokens[rows],
        block_ids=dense.astype(np.int64),
        offsets=blocks.offsets,
        arrival_us=work.arrival_us[rows],
        priority=work.priority[rows],
        skip_lookup=work.skip_lookup[rows],
    )
