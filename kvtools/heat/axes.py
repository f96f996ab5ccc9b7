"""The axes on which requests are clustered, in natural logarithms, so that one unit is the same factor on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.heat.features import HeatColumns, as_known, rhythm, uncached_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORDS = {
    "prefill work": "tokens to prefill",
    "output tokens": "output tokens",
    "interval": "interval of the route or prefix",
    "variation": "variation of that interval",
    "reuse": "share of the prompt reused",
}
_SHORTEST_S = 1e-3
_SHARE_UNITS = 2.0
"""Reuse and bursts are shares: half more counts as much as a factor of e."""

_CENSORED = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """``points[i]`` is request ``i``; ``hotness`` says how hot each is; ``censored``: its length was cut at a limit.

    The true length of a censored request is not known: it is labelled, but has no say in where the classes part.
    """

    names: tuple[str, ...]
    points: NDArray[np.float64]
    hotness: NDArray[np.float64]
    censored: NDArray[np.bool_]

    def of(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Return the points on some of the axes."""
        return np.ascontiguousarray(self.points[:, [self.names.index(name) for name in names]])


def spoken(names: tuple[str, ...]) -> str:
    """Name axes for people."""
    return ", ".join(_WORDS[name] for name in names)


def axes_of(columns: HeatColumns) -> Axes:
    """Return the axes that this log knows of at least half of its requests, and on which they differ."""
    work = np.log1p(uncached_tokens(columns))
    found = {"prefill work": work, "output tokens": np.log1p(as_known(columns.output_tokens))}
    hotter = [-work]
    beat = rhythm(columns)
    if beat is not None and len(columns) and np.ptp(columns.group) > 0:
        found["interval"] = np.log(beat.interval_s + _SHORTEST_S)
        found["variation"] = np.log1p(beat.cv)
        # By the rate, not by the interval: inside a burst intervals are short, and a burst is a cold thing.
        hotter += [np.log(beat.per_minute), -found["variation"], -_SHARE_UNITS * beat.burst_share]
    if (columns.hit_tokens > 0).any():
        shares = columns.hit_tokens / np.maximum(columns.prompt_tokens, 1)
        found["reuse"] = _SHARE_UNITS * np.where(columns.hit_tokens < 0, np.nan, shares)
        hotter.append(found["reuse"])
    kept = {name: _filled(values) for name, values in found.items() if _tells(values)}
    points = np.column_stack(list(kept.values())) if kept else np.empty((len(columns), 0))
    censored = _at_a_limit(columns.prompt_tokens) | _at_a_limit(columns.output_tokens)
    return Axes(tuple(kept), points, _summed(hotter, len(columns)), censored)


def _summed(parts: list[NDArray[np.float64]], requests: int) -> NDArray[np.float64]:
    """Return how hot each request is: frequent, steady, cheap to prefill, reused; its answer's length says nothing."""
    total = np.zeros(requests)
    for part in parts:
        total += _filled(part) if _tells(part) else 0.0
    return total


def _tells(values: NDArray[np.float64]) -> bool:
    known = values[~np.isnan(values)]
    return 2 * len(known) >= len(values) > 0 and bool(np.ptp(known) > 0)


def _filled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    missing = np.isnan(values)
    return np.where(missing, np.median(values[~missing]), values) if missing.any() else values


def _at_a_limit(tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the requests that stand exactly at the greatest length, where so many do that it is a limit."""
    at = tokens == tokens.max() if len(tokens) else np.zeros(0, dtype=np.bool_)
    is_limit = len(tokens) and tokens.max() > 0 and _CENSORED <= at.mean() <= 0.5
    return at if is_limit else np.zeros(len(tokens), dtype=np.bool_)
