"""Which prefixes a window of time asks for, by the same window of earlier periods: the same minute of past hours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.warmup.choose import Chosen
    from kvtools.warmup.tree import History


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """In how many of ``periods`` each prefix was asked for in the window, and in how many of ``later`` periods.

    ``later``: those of the part of the log behind the one that the prefixes were chosen from.
    """

    periods: int
    asked: NDArray[np.int64]
    later: int
    asked_later: NDArray[np.int64]

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Which prefixes were asked for in more than half of the earlier periods."""
        return 2 * self.asked > self.periods

    @property
    def held(self) -> float | None:
        """Share (0..1) of the wanted prefixes that a later period's window asked for, ``None``: none to judge by."""
        wanted = self.wanted
        return float(self.asked_later[wanted].mean()) / self.later if self.later and wanted.any() else None


def asked_before(
    history: History,
    arrival_us: NDArray[np.int64],
    stop: int,
    prefixes: Sequence[Chosen],
    window_us: tuple[int, int],
    period_us: int,
) -> Asked:
    """Return how often the window (from, until) was asked for ``prefixes`` one, two, … periods before.

    ``arrival_us`` ascends; periods of the requests from ``stop`` on count as later ones. Only windows that lie in the
    log whole are looked at.
    """
    ends = np.array([int(history.blocks(one.request, one.depth)[-1]) for one in prefixes], dtype=np.int64)
    counts = np.zeros((2, len(ends)), dtype=np.int64)
    periods = [0, 0]
    begin, until = window_us
    first, built, last = int(arrival_us[0]), int(arrival_us[stop - 1]), int(arrival_us[-1])
    while (begin := begin - period_us) >= first:
        until -= period_us
        # One that both parts share says nothing of either.
        part = 0 if until <= built + 1 else 1 if begin > built and until <= last + 1 else None
        if part is None:
            continue
        low, high = np.searchsorted(arrival_us, (begin, until)).tolist()
        own = history.ids[history.offsets[low] : history.offsets[high]]
        periods[part] += 1
        counts[part] += np.isin(ends, own)
    return Asked(periods[0], counts[0], periods[1], counts[1])
