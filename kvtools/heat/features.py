"""What is known of each request: when it arrives, and once the whole log has been read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNKNOWN = -1
NO_PRIORITY = np.iinfo(np.int64).min
"""Stands for a priority that is not logged: vLLM's may be any integer, -1 too."""

REQUEST_TYPES = ("cold", "hot")
"""Values of ``X-Request-Type`` that say a class, in the order of its codes."""

RECENT_ARRIVALS = 8
"""Arrivals of a route that its recent interval is taken over, as in ``kvtools.heat.rules``."""

BURST = 0.1
"""A gap shorter than this part of its group's mean gap is one inside a burst."""

_FEW = 4
"""A group of fewer requests has no interval of its own: it is as rare as the log is long."""


@dataclass(frozen=True, slots=True, eq=False)
class HeatColumns:
    """One entry per request, in log order; ``UNKNOWN`` where the log does not say.

    ``route``: place in ``route_names``; ``group``: whose arrivals belong together (its route, else its first cache
    block), equal integers for equal groups. ``hit_tokens``: prompt tokens that the replayed cache hit. ``turn``: 1 is
    the first of a conversation. ``request_type``: place in ``request_types``, as the sender says (0 cold, 1 hot).
    ``priority``: vLLM's number, ``NO_PRIORITY`` where not logged. ``reuse_blocks``: reuse distance, the distinct cache
    blocks touched since the prefix was last used (of an LRU cache, the size in blocks that still holds it).
    """

    arrival_us: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    route: NDArray[np.int64]
    group: NDArray[np.int64]
    hit_tokens: NDArray[np.int64]
    turn: NDArray[np.int64]
    request_type: NDArray[np.int64]
    latency_us: NDArray[np.int64]
    priority: NDArray[np.int64]
    reuse_blocks: NDArray[np.int64]
    route_names: list[str] = field(default_factory=list)
    request_types: list[str] = field(default_factory=lambda: list(REQUEST_TYPES))

    def __len__(self) -> int:
        return len(self.arrival_us)

    @classmethod
    def of(
        cls,
        arrival_us: NDArray[np.int64],
        prompt_tokens: NDArray[np.int64],
        *,
        route_names: list[str] | None = None,
        **columns: NDArray[np.int64],
    ) -> HeatColumns:
        """Return columns of which only some are known. Requests without ``group`` are grouped by ``route``."""
        nothing = np.full(len(arrival_us), UNKNOWN, dtype=np.int64)
        names = ("output_tokens", "route", "hit_tokens", "turn", "request_type", "latency_us", "reuse_blocks")
        known = {name: columns.get(name, nothing) for name in names}
        return cls(
            arrival_us=arrival_us,
            prompt_tokens=prompt_tokens,
            output_tokens=known["output_tokens"],
            route=known["route"],
            group=columns.get("group", known["route"]),
            hit_tokens=known["hit_tokens"],
            turn=known["turn"],
            request_type=known["request_type"],
            latency_us=known["latency_us"],
            priority=columns.get("priority", np.full_like(nothing, NO_PRIORITY)),
            reuse_blocks=known["reuse_blocks"],
            route_names=route_names or [],
        )

    @property
    def timed(self) -> bool:
        """Whether every request has an arrival, and not all the same."""
        if not len(self):
            return False
        return bool((self.arrival_us != UNKNOWN).all()) and bool(np.ptp(self.arrival_us) > 0)

    def order(self) -> NDArray[np.int64]:
        """Return the requests by arrival, equal times as logged; as logged where some have no arrival."""
        if not self.timed:
            return np.arange(len(self), dtype=np.int64)
        return np.argsort(self.arrival_us, kind="stable")

    def times_s(self) -> NDArray[np.float64]:
        """Return the arrivals in seconds after the first; the place in the log where there is no clock."""
        if not self.timed:
            return np.arange(len(self), dtype=np.float64)
        return np.asarray((self.arrival_us - self.arrival_us.min()) / 1e6, dtype=np.float64)


def as_known(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return integers as floats, NaN where unknown."""
    return np.asarray(np.where(values == UNKNOWN, np.nan, values), dtype=np.float64)


def uncached_tokens(columns: HeatColumns) -> NDArray[np.float64]:
    """Return the prompt tokens that had to be computed; all of them where no hits are known."""
    hits = np.maximum(columns.hit_tokens, 0)
    return np.asarray(as_known(columns.prompt_tokens) - hits, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Gaps between the arrivals of each group.

    ``order``: requests by group and time; ``gaps_s``: the time since the one before in the group, NaN for its first;
    ``starts``: where each group begins in ``order``; ``sizes``: how many requests each has.
    """

    order: NDArray[np.int64]
    gaps_s: NDArray[np.float64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, columns: HeatColumns, key: NDArray[np.int64]) -> Groups:
        """Group by ``key``."""
        times = columns.times_s()
        order = np.lexsort((times, key))
        keys = key[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = keys[1:] != keys[:-1]
        gaps = np.diff(times[order], prepend=0.0)
        gaps[first] = np.nan
        starts = np.flatnonzero(first)
        return cls(order, gaps, starts, np.diff(np.append(starts, len(order))))

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a value of each group as one of each request, in log order."""
        found = np.empty(len(self.order))
        found[self.order] = np.repeat(values, self.sizes)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class GroupRhythm:
    """Of each request its group's median gap (s), coefficient of variation, and share of gaps inside bursts."""

    interval_s: NDArray[np.float64]
    cv: NDArray[np.float64]
    burst_share: NDArray[np.float64]
    per_minute: NDArray[np.float64]


def rhythm(columns: HeatColumns) -> GroupRhythm | None:
    """Return how often and how steadily each request's group arrives; ``None`` without a clock.

    A group of fewer than four requests has its part of the log's time as interval, and no variation.
    """
    if not columns.timed:
        return None
    groups = Groups.of(columns, columns.group)
    span = float(columns.times_s().max())
    shape = (len(groups.starts),)
    median, cv, burst = np.empty(shape), np.full(shape, np.nan), np.zeros(shape)
    for place, (start, size) in enumerate(zip(groups.starts.tolist(), groups.sizes.tolist(), strict=True)):
        gaps = groups.gaps_s[start + 1 : start + size]
        if size < _FEW:
            median[place] = span / size
            continue
        mean = float(gaps.mean())
        median[place] = np.median(gaps)
        cv[place] = float(gaps.std()) / mean if mean else 0.0
        burst[place] = float((gaps < BURST * mean).mean())
    per_minute = 60 * groups.sizes / span
    return GroupRhythm(*map(groups.spread, (median, cv, burst, per_minute)))


def recent(columns: HeatColumns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and coefficient of variation of the gaps between the last arrivals of each request's route.

    Known when the request arrives: its own arrival is the last of them. NaN for the first of a route and without a
    clock.
    """
    unknown = np.full(len(columns), np.nan)
    if not columns.timed:
        return unknown, unknown.copy()
    groups = Groups.of(columns, columns.route)
    gaps = np.nan_to_num(groups.gaps_s)
    starts = np.repeat(groups.starts, groups.sizes)
    place = np.arange(len(gaps))
    begin = np.maximum(place - (RECENT_ARRIVALS - 1), starts)
    # Gaps stand behind the arrival that they lead to; that of the first of a group is none.
    count = place - begin
    count_safe = np.maximum(count, 1)

    def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
        summed = np.zeros(len(values))
        for back in range(min(RECENT_ARRIVALS - 1, len(values))):
            summed[back:] += np.where(count[back:] > back, values[: len(values) - back], 0.0)
        return summed

    mean = total(gaps) / count_safe
    variance = np.maximum(total(np.square(gaps)) / count_safe - np.square(mean), 0.0)
    cv = np.divide(np.sqrt(variance), mean, out=np.zeros_like(mean), where=mean > 0)
    interval, variation = unknown, unknown.copy()
    interval[groups.order] = np.where(count > 0, mean, np.nan)
    variation[groups.order] = np.where(count > 1, cv, np.nan)
    return interval, variation
