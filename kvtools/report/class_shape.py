"""Hot and cold as a page draws them: the share over time, and where the requests of each class lie.

Both are counts on a fixed grid, so that their size does not follow that of the log. Figures: docs/metrics.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.heat.features import UNKNOWN, Groups
from kvtools.heat.study import COLD, HOT
from kvtools.model import share
from kvtools.report.shape import spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.heat.features import HeatColumns
    from kvtools.heat.study import HeatStudy

PER_DOUBLING = 2
PER_DECADE = 2
LONGEST_DOUBLINGS = 22
"""Prompts of 4 M tokens and more are one bin."""
SHORTEST_DECADE, LONGEST_DECADE = -3, 6
"""Below a millisecond and from a million seconds on, gaps are one bin each."""


class ClassWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the log as in ``over_time``, with its ``requests`` of either class and those that are hot."""

    from_us: int | None
    width_us: int | None
    requests: int
    hot_requests: int
    hot_share: float | None


class ClassBin(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one class whose prompt and whose gap to the request before it in its group lie in a cell.

    ``gap_at_least_s`` is ``None`` for the first of a group and where there is no clock; ``gap_below_s`` also for the
    last bin, as ``tokens_below`` is.
    """

    name: str
    tokens_at_least: float
    tokens_below: float | None
    gap_at_least_s: float | None
    gap_below_s: float | None
    requests: int


def class_windows(study: HeatStudy, utc_offset_min: int) -> list[ClassWindow]:
    """Return the share of hot requests over time; nothing where there are no two classes."""
    if study.model.n_classes < 2:
        return []
    known = study.final >= 0
    columns = study.columns
    arrivals = columns.arrival_us if columns.timed else np.full(len(columns), UNKNOWN)
    place, begins, width = spans(arrivals, utc_offset_min)
    requests = np.bincount(place[known], minlength=len(begins))
    hot = np.bincount(place[study.final == HOT], minlength=len(begins))
    return [
        ClassWindow(
            from_us=begin, width_us=width, requests=count, hot_requests=warm, hot_share=share(warm, count)
        )
        for begin, count, warm in zip(begins, requests.tolist(), hot.tolist(), strict=True)
    ]


def class_bins(study: HeatStudy) -> list[ClassBin]:
    """Return where hot and cold requests lie, by prompt length and gap; nothing where there are no two classes."""
    if study.model.n_classes < 2:
        return []
    return [
        one
        for name, code in (("hot", HOT), ("cold", COLD))
        for one in _bins(name, study.columns, study.final == code)
    ]


def _bins(name: str, columns: HeatColumns, rows: NDArray[np.bool_]) -> list[ClassBin]:
    rows = rows & (columns.prompt_tokens != UNKNOWN)
    doublings = np.log2(np.maximum(columns.prompt_tokens[rows], 1))
    lengths = _place(doublings, PER_DOUBLING, 0, LONGEST_DOUBLINGS)
    gaps = _gap_places(columns)[rows]
    cells, counts = np.unique(np.stack([lengths, gaps], axis=1), axis=0, return_counts=True)
    return [
        ClassBin(
            name=name,
            tokens_at_least=2.0 ** (length / PER_DOUBLING),
            tokens_below=None
            if length == LONGEST_DOUBLINGS * PER_DOUBLING
            else 2.0 ** ((length + 1) / PER_DOUBLING),
            gap_at_least_s=_gap_at_least(gap),
            gap_below_s=_gap_below(gap),
            requests=requests,
        )
        for (length, gap), requests in zip(cells.tolist(), counts.tolist(), strict=True)
    ]


_NO_GAP = -1
_GAP_PLACES = (LONGEST_DECADE - SHORTEST_DECADE) * PER_DECADE
"""Place 0 holds the gaps below a millisecond, place ``_GAP_PLACES + 1`` those of a million seconds and more."""


def _place(logarithms: NDArray[np.float64], steps: int, lowest: int, highest: int) -> NDArray[np.int64]:
    # 1e-9: a logarithm that should be whole may come out a hair below.
    places = np.floor((logarithms - lowest) * steps + 1e-9).astype(np.int64)
    return np.clip(places, -1, (highest - lowest) * steps)


def _gap_places(columns: HeatColumns) -> NDArray[np.int64]:
    """Return the place of each request's gap on the grid, ``_NO_GAP`` where it has none."""
    if not columns.timed:
        return np.full(len(columns), _NO_GAP, dtype=np.int64)
    groups = Groups.of(columns, columns.group)
    gaps = np.empty(len(columns))
    gaps[groups.order] = groups.gaps_s
    known = ~np.isnan(gaps)
    # A gap of 0 s has no logarithm: it lies with the others below a millisecond.
    decades = np.log10(np.where(known, np.maximum(gaps, 10.0 ** (SHORTEST_DECADE - 1)), 1.0))
    places = _place(decades, PER_DECADE, SHORTEST_DECADE, LONGEST_DECADE) + 1
    return np.where(known, places, _NO_GAP)


def _gap_at_least(place: int) -> float | None:
    if place == _NO_GAP:
        return None
    return 0.0 if place == 0 else float(10.0 ** (SHORTEST_DECADE + (place - 1) / PER_DECADE))


def _gap_below(place: int) -> float | None:
    if place in (_NO_GAP, _GAP_PLACES + 1):
        return None
    return float(10.0 ** (SHORTEST_DECADE + place / PER_DECADE))
