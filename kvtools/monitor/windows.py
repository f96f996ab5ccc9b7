"""Hit rates over windows of time, and what happened in them: hits that stop, restarts, dips."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.monitor.counters import Counted, Increase

MOST_WINDOWS = 60
"""So many windows at most where nobody says how long one is."""

STOPPED_TOKENS = 1_000
"""Less than this without a hit says nothing: one long prompt may be new."""

_DIP = 0.5
_ENOUGH_WINDOWS = 5


@dataclass(frozen=True, slots=True)
class Window:
    """What all engines counted in a stretch of time: from the first scrape that is subtracted to the last.

    An increase belongs to the window in which its second scrape lies, whole: nothing is interpolated.
    """

    from_s: float
    to_s: float
    queried: int
    hit: int
    external_hit: int
    preemptions: int
    resets: int

    @property
    def hit_rate(self) -> float | None:
        """Local hits over queries; ``None`` without a query, or where a scrape fell between the two counters."""
        return self.hit / self.queried if self.queried and self.hit <= self.queried else None

    @property
    def total_hit_rate(self) -> float | None:
        """Local and external hits over queries, ``None`` as ``hit_rate``."""
        hits = self.hit + self.external_hit
        return hits / self.queried if self.queried and hits <= self.queried else None


@dataclass(frozen=True, slots=True)
class Stop:
    """No hit came after ``after_s`` (the last scrape that saw one), of ``queried`` more."""

    after_s: float
    queried: int


def step_of(found: Counted) -> float:
    """Return how long a window is where nobody says: the usual stretch between scrapes, or a 60th of the range."""
    return max(usual_gap_s(found), (found.last_s - found.first_s) / MOST_WINDOWS)


def usual_gap_s(found: Counted) -> float:
    """Return the usual stretch between two scrapes of an engine."""
    gaps = [one.to_s - one.from_s for engine in found.engines for one in engine.increases]
    return median(gaps) if gaps else 1.0


def windows(increases: Sequence[Increase], start_s: float, step_s: float) -> list[Window]:
    """Return the windows that hold something, each ``step_s`` long and counted from ``start_s``."""
    by_place: dict[int, list[Increase]] = {}
    for one in increases:
        # An increase that ends where a window does belongs to it.
        by_place.setdefault(ceil(round((one.to_s - start_s) / step_s, 6)) - 1, []).append(one)
    return [window(by_place[place]) for place in sorted(by_place)]


def window(increases: Sequence[Increase]) -> Window:
    """Return the sum of at least one increase."""
    return Window(
        from_s=min(one.from_s for one in increases),
        to_s=max(one.to_s for one in increases),
        queried=sum(one.queried for one in increases),
        hit=sum(one.hit for one in increases),
        external_hit=sum(one.external_hit for one in increases),
        preemptions=sum(one.preemptions for one in increases),
        resets=sum(one.began_anew for one in increases),
    )


def hits_stopped(found: Sequence[Window]) -> Stop | None:
    """Return since when nothing hits, ``None`` where something does, or never did.

    What was queried since has to be ``STOPPED_TOKENS`` at least, and more than twice as much as in any stretch without
    hits before.
    """
    hitting = [place for place, one in enumerate(found) if one.hit + one.external_hit]
    if not hitting:
        return None
    queried = sum(one.queried for one in found[hitting[-1] + 1 :])
    before, longest = 0, 0
    for one in found[hitting[0] : hitting[-1]]:
        before = 0 if one.hit + one.external_hit else before + one.queried
        longest = max(longest, before)
    if queried < STOPPED_TOKENS or queried <= 2 * longest:
        return None
    return Stop(found[hitting[-1]].to_s, queried)


def dips(found: Sequence[Window]) -> list[Window]:
    """Return windows with less than half of the median rate between two that have it: hits that went and came again.

    Windows with fewer than a tenth of the median window's queries tell nothing. Empty with fewer than 5 windows.
    """
    busy = [one for one in found if one.total_hit_rate is not None]
    if len(busy) < _ENOUGH_WINDOWS:
        return []
    usual = median(one.queried for one in busy)
    busy = [one for one in busy if one.queried >= usual / 10]
    rates = [one.total_hit_rate or 0.0 for one in busy]
    line = _DIP * median(rates)
    first = next((place for place, rate in enumerate(rates) if rate >= line), len(rates))
    last = max((place for place, rate in enumerate(rates) if rate >= line), default=0)
    return [busy[place] for place in range(first, last) if rates[place] < line]
