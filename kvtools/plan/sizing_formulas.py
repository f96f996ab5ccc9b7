"""The sizing rules of an article on hot and cold paths, computed for a log, beside what the log itself says.

The article (SEEDS: article B) gives: ``max_num_seqs`` = 0.8 x QPS; ``warmup_tokens`` = 25-50 % of a typical hot input;
cold slots = KV memory x 12 % / peak memory of one sequence; hot to cold slots 2:1; cold quota at most 15 % of the
memory; headroom for hot requests 30-40 % of it. Each is a rule of thumb with nothing of the traffic in it: what stands
beside it is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEATS_PER_QPS = 0.8
WARMUP_SHARES = (0.25, 0.5)
COLD_MEMORY = 0.12
HOT_PER_COLD = 2.0
COLD_QUOTA = 0.15
HOT_HEADROOM = (0.3, 0.4)

ONE_CLASS = "the log has one class of requests: nothing is hot or cold."
NOT_ASKED = "not known: classes were not asked for (--no-classes)."
NO_SIZE = "not known without the cache's size: give --capacity-blocks or --kv-memory."
NO_TIMES = "not known: the log has no arrivals with latencies or output lengths."


@dataclass(frozen=True, slots=True)
class Formula:
    """A rule of the article: what it gives (``low`` … ``high``), what was ``measured``, and why they differ.

    ``None``: not known; ``why`` then says what is missing.
    """

    name: str
    rule: str
    low: float | None
    high: float | None
    measured: float | None
    unit: str
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """What the rules take, one entry per request in order of arrival.

    ``ends_us``: when each request leaves, ``None`` where not known. ``hit_tokens``: in a cache without limit.
    ``need_blocks``: held while it runs. ``hot``: ``None`` where there is one class, or as ``one_class`` says.
    ``hot_set_blocks``: for 90 % of the hits that hot requests have among themselves.
    """

    arrival_us: NDArray[np.int64] | None
    ends_us: NDArray[np.int64] | None
    prompt_tokens: NDArray[np.int64]
    hit_tokens: NDArray[np.int64]
    need_blocks: NDArray[np.int64]
    hot: NDArray[np.bool_] | None
    hot_set_blocks: int
    capacity_blocks: int | None
    estimated: str = ""
    one_class: str = ONE_CLASS


def in_flight(
    arrival_us: NDArray[np.int64], ends_us: NDArray[np.int64], weight: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the summed ``weight`` of the requests in flight as each one arrives, itself among them."""
    by_end = np.argsort(ends_us, kind="stable")
    gone = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(weight[by_end])))
    come = np.cumsum(weight)
    left = np.searchsorted(ends_us[by_end], arrival_us, side="right")
    present: NDArray[np.int64] = come - gone[left]
    # Who ends as it arrives takes no time, and was taken off with those that have left.
    return np.maximum(present, weight)


def formulas(fleet: Fleet) -> list[Formula]:
    """Return the article's six rules for a log, in its order."""
    return [
        _seats(fleet),
        _warmup(fleet),
        _cold_slots(fleet),
        _hot_to_cold(fleet),
        _cold_quota(fleet),
        _hot_headroom(fleet),
    ]


def _seats(fleet: Fleet) -> Formula:
    name, rule, unit = "max_num_seqs", "0.8 x QPS", "requests"
    if fleet.arrival_us is None or np.ptp(fleet.arrival_us) == 0:
        return Formula(name, rule, None, None, None, unit, NO_TIMES)
    rate = (len(fleet.arrival_us) - 1) / (float(np.ptp(fleet.arrival_us)) / 1e6)
    low = SEATS_PER_QPS * rate
    if fleet.ends_us is None:
        return Formula(name, rule, low, low, None, unit, NO_TIMES)
    seats = in_flight(fleet.arrival_us, fleet.ends_us, np.ones(len(fleet.ends_us), dtype=np.int64))
    stays = float((fleet.ends_us - fleet.arrival_us).mean()) / 1e6
    why = (
        f"the rule has no duration in it: in flight are rate x time (Little 1961), here {rate:.2f}/s x {stays:.2f} s "
        f"= {rate * stays:.1f} in the mean; 99 % of the arrivals find no more than measured{fleet.estimated}."
    )
    return Formula(name, rule, low, low, float(np.quantile(seats, 0.99, method="higher")), unit, why)


def _warmup(fleet: Fleet) -> Formula:
    rows = np.ones(len(fleet.prompt_tokens), dtype=np.bool_) if fleet.hot is None else fleet.hot
    typical = float(np.median(fleet.prompt_tokens[rows]))
    shared = float(np.median(fleet.hit_tokens[rows]))
    part = 0.0 if typical == 0 else shared / typical
    why = (
        f"what can be warmed is what prompts begin with in common, wherever that ends: here {100 * part:.0f} % of a "
        f"typical {'' if fleet.hot is None else 'hot '}prompt of {typical:,.0f} tokens."
    )
    low, high = (share * typical for share in WARMUP_SHARES)
    return Formula("warmup_tokens", "25-50 % of a typical hot input", low, high, shared, "tokens", why)


def _cold_slots(fleet: Fleet) -> Formula:
    name, rule, unit = "cold_slots", "KV memory x 12 % / peak of one sequence", "requests"
    if fleet.hot is None or fleet.capacity_blocks is None:
        return Formula(name, rule, None, None, None, unit, fleet.one_class if fleet.hot is None else NO_SIZE)
    peak = int(fleet.need_blocks[~fleet.hot].max(initial=1))
    slots = float(np.floor(COLD_MEMORY * fleet.capacity_blocks / peak))
    left = max(fleet.capacity_blocks - fleet.hot_set_blocks, 0)
    why = (
        f"hot requests need {fleet.hot_set_blocks:,} blocks for 90 % of their hits: of {fleet.capacity_blocks:,} that "
        f"leaves {100 * left / fleet.capacity_blocks:.0f} %, not 12 %; one cold request takes up to {peak:,}."
    )
    return Formula(name, rule, slots, slots, float(left // peak), unit, why)


def _hot_to_cold(fleet: Fleet) -> Formula:
    name, rule, unit = "hot_to_cold_slots", "2:1", "ratio"
    if fleet.hot is None:
        return Formula(name, rule, HOT_PER_COLD, HOT_PER_COLD, None, unit, fleet.one_class)
    if fleet.arrival_us is None or fleet.ends_us is None:
        return Formula(name, rule, HOT_PER_COLD, HOT_PER_COLD, None, unit, NO_TIMES)
    stays = fleet.ends_us - fleet.arrival_us
    hot, cold = float(stays[fleet.hot].sum()), float(stays[~fleet.hot].sum())
    why = (
        "slots are taken in the ratio of the times that requests stay, summed over each class"
        f"{fleet.estimated}; no constant knows the traffic's mix."
    )
    return Formula(name, rule, HOT_PER_COLD, HOT_PER_COLD, hot / cold if cold else None, unit, why)


def _cold_quota(fleet: Fleet) -> Formula:
    name, rule, unit = "cold_quota", "at most 15 % of the memory", "share"
    missing = (
        fleet.one_class
        if fleet.hot is None
        else NO_SIZE
        if fleet.capacity_blocks is None
        else NO_TIMES
        if fleet.arrival_us is None or fleet.ends_us is None
        else None
    )
    if missing or fleet.hot is None or fleet.capacity_blocks is None or fleet.arrival_us is None:
        return Formula(name, rule, 0.0, COLD_QUOTA, None, unit, missing or NO_TIMES)
    if fleet.ends_us is None:
        return Formula(name, rule, 0.0, COLD_QUOTA, None, unit, NO_TIMES)
    held = in_flight(fleet.arrival_us, fleet.ends_us, np.where(fleet.hot, 0, fleet.need_blocks))
    measured = float(np.quantile(held, 0.99, method="higher")) / fleet.capacity_blocks
    why = (
        "the blocks of all cold requests in flight over the cache's, which 99 % of the arrivals find no more of"
        f"{fleet.estimated}: with less, cold requests wait; no block is shared in this count."
    )
    return Formula(name, rule, 0.0, COLD_QUOTA, measured, unit, why)


def _hot_headroom(fleet: Fleet) -> Formula:
    name, rule, unit = "hot_headroom", "30-40 % of the memory", "share"
    if fleet.hot is None or fleet.capacity_blocks is None:
        return Formula(
            name, rule, *HOT_HEADROOM, None, unit, fleet.one_class if fleet.hot is None else NO_SIZE
        )
    why = (
        f"hot requests need {fleet.hot_set_blocks:,} blocks for 90 % of their hits, whatever the cache's size is; "
        "in one shared LRU cache they keep them by being asked for, without a reserve."
    )
    return Formula(name, rule, *HOT_HEADROOM, fleet.hot_set_blocks / fleet.capacity_blocks, unit, why)
