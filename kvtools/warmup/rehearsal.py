"""Ways to choose a set, tried on the past: each makes sets for restarts inside the log, and the traffic then tells.

A restart is rehearsed at many moments of the part that the set is built from: each way sees the requests before the
moment, and its set is judged on those behind it, until these have asked for as many distinct blocks as the cache has
(then warm and cold caches hold the same; without a limit, until the horizon ends). The first way is taken unless one
saved more by at least the standard error of the difference (Breiman et al., Classification and Regression Trees, 1984,
the 1 SE rule): a block or two at one restart is chance. Of several such, the one is taken that saved most more with a
standard error taken off, not the one that was luckiest (Jin, Yang and Wang, Is Pessimism Provably Efficient for Offline
RL?, ICML 2021). Nothing of a later part is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from kvtools.cache import Interner
from kvtools.warmup.replaying import as_sent, most_frequent, replayed, sending_order
from kvtools.warmup.sizing import SPREAD, Budget, as_prefixes, plan, room_of
from kvtools.warmup.tree import BlockTree, History

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.model import CacheSpec
    from kvtools.warmup.choose import Chosen
    from kvtools.warmup.sizing import Plan

ChosenBy: TypeAlias = Literal["expected saving", "time of day", "frequency", "nothing"]

WINDOW_BLOCKS = 250_000
"""Rehearsals look at the latest requests with so many blocks: enough restarts, in seconds."""

MOMENTS, MOMENTS_UNLIMITED = 24, 3
_FIRST, _LAST, _LAST_UNLIMITED = 0.4, 0.97, 0.7
_FEWEST_REQUESTS = 20


@dataclass(frozen=True, slots=True)
class Way:
    """A way to choose: by ``expected saving`` until ``look_ahead`` caches have been asked for, or by ``frequency``.

    ``spread``: by the mean over look-aheads up to that one. ``time of day``: by expected saving, blocks weighted by the
    time of day that the look-ahead covers.
    """

    by: ChosenBy = "expected saving"
    look_ahead: float = 1.0
    spread: bool = False

    @property
    def look_aheads(self) -> tuple[float, ...]:
        """The look-aheads, in caches, over which a block's probability is averaged."""
        return tuple(share * self.look_ahead for share in SPREAD) if self.spread else (self.look_ahead,)


FREQUENCY = Way("frequency")
TIME_OF_DAY = Way("time of day")
WAYS = (Way(), *(Way(look_ahead=share) for share in (0.125, 0.25, 0.5, 2.0)), Way(spread=True), FREQUENCY)
"""The ways that are tried in a cache with a limit; without one a saving counts until the horizon ends."""


@dataclass(frozen=True, slots=True)
class Made:
    """The set of one way: its prefixes in sending order, and the plan that they, or their values, are from."""

    ordered: tuple[Chosen, ...]
    plan: Plan


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """What each way saved: ``saved[restart, way]`` in tokens; no restarts where the log is too short for any.

    ``limited``: the cache has a limit, so that look-aheads differ.
    """

    ways: tuple[Way, ...]
    saved: NDArray[np.int64]
    limited: bool

    @property
    def best(self) -> Way | None:
        """The way to take, the first one where none was tried; ``None`` where each did worse than a cold start."""
        if not len(self.saved):
            return self.ways[0]
        totals = self.saved.sum(axis=0)
        more = self.saved - self.saved[:, :1]
        errors = more.std(axis=0, ddof=1) * np.sqrt(len(self.saved))
        # Half a token: one block at one restart is exactly its own standard error.
        surely = np.maximum(more.sum(axis=0) - errors - 0.5, 0.0)
        best = int(surely.argmax())  # the first way, where none is sure to save more
        return self.ways[best] if totals[best] >= 0 else None


def made_by(way: Way, tree: BlockTree, horizon: int, budget: Budget, capacity_blocks: int | None) -> Made:
    """Return the set that ``way`` makes for the requests behind ``tree``."""
    by_time = way.by == TIME_OF_DAY.by
    found = plan(tree, horizon, budget, capacity_blocks, way.look_aheads, by_time=by_time)
    if way.by != "frequency":
        return Made(tuple(sending_order(found.choice.prefixes)), found)
    room = room_of(budget, capacity_blocks)
    whole = most_frequent(tree.history, tree.requests, budget.queries, room)
    return Made(tuple(reversed(as_prefixes(tree, found.likely, whole))), found)


def rehearse(history: History, stop: int, horizon: int, budget: Budget, spec: CacheSpec) -> Rehearsal:
    """Return how each way did at restarts within the first ``stop`` requests; by time where it has a clock."""
    past = _latest(history, stop)
    count, capacity = len(past), spec.capacity_blocks
    limited = capacity is not None and capacity < past.distinct(count)
    ways = WAYS if limited else (WAYS[0], FREQUENCY)
    if history.arrival_us is not None:
        ways = (*ways, TIME_OF_DAY)
    if count < _FEWEST_REQUESTS:
        return Rehearsal(ways, np.empty((0, len(ways)), dtype=np.int64), limited)
    last, many = (_LAST, MOMENTS) if limited else (_LAST_UNLIMITED, MOMENTS_UNLIMITED)
    moments = np.unique(np.linspace(count * _FIRST, count * last, many).astype(np.int64)).tolist()
    first_sights = _earlier(past)
    tree = BlockTree.empty(past, count)
    saved = np.zeros((len(moments), len(ways)), dtype=np.int64)
    for place, moment in enumerate(moments):
        tree.grow_to(moment)
        end = min(moment + horizon, _until_full(past, first_sights, moment, capacity))
        ahead = min(horizon, count - moment) if limited else end - moment
        cold = int(replayed(past, (moment, end), [], spec)[1].sum())
        for column, way in enumerate(ways):
            sent = as_sent(past, made_by(way, tree, ahead, budget, capacity).ordered, spec.block_size)
            saved[place, column] = int(replayed(past, (moment, end), sent, spec)[1].sum()) - cold
    return Rehearsal(ways, saved, limited)


def _latest(history: History, stop: int) -> History:
    """Return the latest requests before ``stop``, those with ``WINDOW_BLOCKS`` blocks, as a history of their own."""
    end = int(history.offsets[stop])
    first = int(np.searchsorted(history.offsets[: stop + 1], end - WINDOW_BLOCKS))
    own = slice(first, stop)
    begin = int(history.offsets[first])
    ids = Interner().intern(history.ids[begin:end].astype(np.uint64))
    return History(
        ids, history.offsets[first : stop + 1] - begin, history.lookups[own], history.tokens[own],
        history.whole[own], history.skip_lookup[own],
        None if history.samples is None else history.samples[own],
        None if history.arrival_us is None else history.arrival_us[own],
    )  # fmt: skip


def _earlier(history: History) -> NDArray[np.int64]:
    """Return for each block of each request the place where it was seen before, -1: nowhere."""
    order = np.argsort(history.ids, kind="stable")
    before = np.full(len(order), -1, dtype=np.int64)
    ordered = history.ids[order]
    again = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    before[order[again]] = order[again - 1]
    return before


def _until_full(history: History, earlier: NDArray[np.int64], moment: int, capacity: int | None) -> int:
    """Return the end of the requests from ``moment`` on that first have ``capacity`` distinct blocks."""
    if capacity is None:
        return len(history)
    begin = int(history.offsets[moment])
    distinct = np.cumsum(earlier[begin:] < begin)
    place = begin + int(np.searchsorted(distinct, capacity))
    return min(len(history), int(np.searchsorted(history.offsets, place, side="right")))
