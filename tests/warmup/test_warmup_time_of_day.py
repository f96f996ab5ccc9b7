"""Blocks weighted by the time of day, on weights worked out by hand and on traffic that changes at noon."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from worked import BLOCK, history

from kvtools.cache import Interner
from kvtools.errors import InputError
from kvtools.flow.warmup_log import WarmupLog
from kvtools.model import CacheSpec
from kvtools.warmup.rehearsal import FREQUENCY, TIME_OF_DAY, WAYS, Way, made_by, rehearse
from kvtools.warmup.sizing import Budget
from kvtools.warmup.time_of_day import DAY_US, day_weights
from kvtools.warmup.tree import History, tree_of

HOUR_US = DAY_US // 24


def _shifts(days: int) -> History:
    """A request every hour, at h:30: one for n before noon, for d after, each with a tail of its own."""
    tails = [chr(0x4E00 + n) for n in range(24 * days)]
    log = history([("n" if n % 24 < 12 else "d") + tail for n, tail in enumerate(tails)])
    return replace(log, arrival_us=np.arange(24 * days, dtype=np.int64) * HOUR_US + HOUR_US // 2)


def test_weights_by_hand() -> None:
    log = _shifts(3)
    # Behind 60 requests it is 11:30 of the third day: the next 6 requests are at 12:30-17:30, all for d. Of the 60, the
    # 12 of two days came then, 0.2 of them; d has 24 lookups, 12 of them then, and n has 36, none of them.
    weights = day_weights(tree_of(log, 60), 6)
    assert weights is not None
    n, d = int(log.blocks(0)[0]), int(log.blocks(12)[0])
    assert weights[d] == pytest.approx((12 + 4 * 0.2) / (24 + 4) / 0.2)
    assert weights[n] == pytest.approx((0 + 4 * 0.2) / (36 + 4) / 0.2)


def test_where_no_time_of_day_stands_out_nothing_is_weighted() -> None:
    log = _shifts(3)
    assert day_weights(tree_of(log, 60), 24) is None  # a whole day ahead
    assert day_weights(tree_of(log, 11), 2) is None  # 11:30 and 12:30 were never seen
    assert day_weights(tree_of(log, 1), 2) is None
    assert day_weights(tree_of(replace(log, arrival_us=None), 60), 6) is None


@pytest.mark.parametrize(("hour", "head"), [(11, "d"), (17, "d"), (23, "n"), (5, "n")])
def test_at_the_end_of_a_shift_the_next_one_is_warmed(hour: int, head: str) -> None:
    log = _shifts(6)
    stop = 24 * 5 + hour + 1
    first = {"n": int(log.blocks(0)[0]), "d": int(log.blocks(12)[0])}
    (by_time,) = made_by(TIME_OF_DAY, tree_of(log, stop), 6, Budget(1), None).ordered
    assert log.blocks(by_time.request, 1).tolist() == [first[head]]
    (by_recency,) = made_by(Way(), tree_of(log, stop), 6, Budget(1), None).ordered
    assert log.blocks(by_recency.request, 1).tolist() == [first["d" if hour >= 12 else "n"]]


@pytest.mark.parametrize("blocks", [None, 20])
def test_it_is_tried_where_the_log_has_its_clock(blocks: int | None) -> None:
    log, spec = _shifts(8), CacheSpec(BLOCK, blocks)
    found = rehearse(log, 24 * 8, 6, Budget(1), spec)
    assert found.ways[-1] == TIME_OF_DAY
    assert found.limited == (blocks is not None)
    without = rehearse(replace(log, arrival_us=None), 24 * 8, 6, Budget(1), spec)
    assert without.ways == (WAYS if blocks else (WAYS[0], FREQUENCY))
    assert np.array_equal(without.saved, found.saved[:, :-1])


def test_a_restart_at_the_end_of_a_shift_is_where_it_saves() -> None:
    # 27 days: 648 requests, restarts at 259.2 + 16.06 k. Those at a multiple of 12 are at the end of a shift, where the
    # next 6 requests have the other head: only the way by time saves its block, 16 tokens, at each of them.
    log = _shifts(27)
    found = rehearse(log, 648, 6, Budget(1), CacheSpec(BLOCK, 20))
    moments = np.linspace(648 * 0.4, 648 * 0.97, 24).astype(int)
    ends = moments % 12 == 0
    assert ends.sum() == 3
    assert found.saved[:, 0].tolist() == np.where(ends, 0, BLOCK).tolist()
    assert found.saved[:, -1].tolist() == [BLOCK] * 24
    # 48 more, with a standard error of 24 restarts: 16 * sqrt(24 * (3/24) * (21/24) * 24/23) = 26.5.
    assert found.best == TIME_OF_DAY


def test_a_log_of_a_day_or_without_a_clock_says_what_is_missing() -> None:
    log = _shifts(1)
    assert log.arrival_us is not None
    whole = WarmupLog(
        log, Interner(), log.arrival_us, [None] * 24, np.zeros((2, 24), np.int64), np.zeros(24, np.bool_)
    )
    with pytest.raises(InputError, match=r"the log spans 23\.0 h"):
        whole.with_clock()
    with pytest.raises(InputError, match="does not say when"):
        replace(whole, arrival_us=log.arrival_us * 0 - 1).with_clock()
