"""The clock with which the simulation comes closest to the times of a log.

The fit runs the simulation, because what a log records is waiting and computing together. It looks at the first half of
the log and is judged on the second, with all requests before it: a queue at the middle is there in both. The error is
part of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvtools.plan.schedule_clock import FitError, StepModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kvtools.plan.schedule_state import Clock

FEWEST_TIMED = 40
CONTEXT_PAYS = 0.05
"""A time for each token of context has to bring the simulation closer by this part, or the simpler clock is taken."""

_ROUNDS = 5
_GRID = (1 / 8, 1 / 3, 1.0, 3.0, 8.0)
_CONTEXT_NS = (3, 30, 300, 3_000, 30_000)


class Times(NamedTuple):
    """TTFT and latency in µs, one entry per request in order of arrival; 0 or less: not known."""

    ttft_us: NDArray[np.int64]
    latency_us: NDArray[np.int64]

    def part(self, start: int, stop: int) -> Times:
        """Return the times of the requests from ``start`` to ``stop``."""
        return Times(self.ttft_us[start:stop], self.latency_us[start:stop])


def fit(simulate: Callable[[Clock, int], Times], logged: Times, start: Clock) -> StepModel | None:
    """Return the clock with which ``simulate`` comes closest to the ``logged`` times; ``None``: too few of them.

    ``simulate`` takes a clock and how many requests to run, the first ones, and returns their times. Closest: the
    least mean of |log(simulated / logged)| over the first half, TTFT and latency weighing alike. The search is a coarse
    grid around ``start`` and a pattern search from its best point (Hooke and Jeeves, 1961): fixed, and so the same on
    every run.
    """
    timed = np.flatnonzero((logged.ttft_us > 0) | (logged.latency_us > 0))
    if len(timed) < FEWEST_TIMED:
        return None
    middle = int(timed[len(timed) // 2])
    search = _Search(simulate, logged.part(0, middle), {})
    best = search.descend(min(_grid(start), key=search.distance), _moves(context=False))
    with_context = [best._replace(context_ns=context) for context in _CONTEXT_NS]
    further = search.descend(min(with_context, key=search.distance), _moves(context=True))
    if search.distance(further) < search.distance(best) * (1 - CONTEXT_PAYS):
        best = further
    total = len(logged.ttft_us)
    error = _error(simulate(best, total).part(middle, total), logged.part(middle, total))
    kinds = [name for name, values in zip(("TTFT", "latency"), logged, strict=True) if (values > 0).any()]
    return StepModel(best, f"fitted to the first half of the log's {' and '.join(kinds)}", error)


@dataclass(frozen=True, slots=True)
class _Search:
    """The distance between simulated and logged times, each clock simulated once."""

    simulate: Callable[[Clock, int], Times]
    logged: Times
    known: dict[Clock, float]

    def distance(self, clock: Clock) -> float:
        if clock not in self.known:
            simulated = self.simulate(clock, len(self.logged.ttft_us))
            pairs = [_both(*pair) for pair in zip(simulated, self.logged, strict=True)]
            means = [float(np.abs(np.log(ours / theirs)).mean()) for ours, theirs in pairs if len(ours)]
            self.known[clock] = sum(means) / len(means) if means else np.inf
        return self.known[clock]

    def descend(self, clock: Clock, moves: Sequence[tuple[int, int, int]]) -> Clock:
        """Return where no move by a factor from 2 down to a few percent comes closer."""
        best, factor = clock, 2.0
        for _ in range(_ROUNDS):
            moved = True
            while moved:
                nearest = min((_scaled(best, move, factor) for move in moves), key=self.distance)
                moved = self.distance(nearest) < self.distance(best) * (1 - 1e-6)
                best = nearest if moved else best
            factor = factor**0.5
        return best


def _grid(start: Clock) -> list[Clock]:
    """Return clocks around ``start``, each once."""
    found = {
        start._replace(
            step_us=max(1, round(start.step_us * step)), token_ns=max(1, round(start.token_ns * token))
        ): None
        for step in _GRID
        for token in _GRID
    }
    return list(found)


def _moves(*, context: bool) -> list[tuple[int, int, int]]:
    """Return powers of the factor on step, token and context: each alone, and each against another."""
    alone = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    against = [(1, -1, 0), (1, 0, -1), (0, 1, -1)]
    ways = [*alone, *((-a, -b, -c) for a, b, c in alone), *against, *((-a, -b, -c) for a, b, c in against)]
    return ways if context else [way for way in ways if way[2] == 0]


def _scaled(clock: Clock, powers: tuple[int, int, int], factor: float) -> Clock:
    step, token, context = (factor**power for power in powers)
    return clock._replace(
        step_us=max(1, round(clock.step_us * step)),
        token_ns=max(1, round(clock.token_ns * token)),
        context_ns=max(1, round(clock.context_ns * context)) if clock.context_ns else 0,
    )


def _both(
    simulated: NDArray[np.int64], logged: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    known = (simulated > 0) & (logged > 0)
    return simulated[known], logged[known]


def _error(simulated: Times, logged: Times) -> FitError:
    ttft, latency = (_both(*pair) for pair in zip(simulated, logged, strict=True))
    return FitError(
        requests=max(len(ttft[0]), len(latency[0])),
        ttft_p50=_off(ttft, 0.5),
        ttft_p99=_off(ttft, 0.99),
        latency_p50=_off(latency, 0.5),
        latency_p99=_off(latency, 0.99),
    )


def _off(both: tuple[NDArray[np.int64], NDArray[np.int64]], quantile: float) -> float | None:
    simulated, logged = both
    if not len(logged):
        return None
    return float(np.quantile(simulated, quantile) / np.quantile(logged, quantile) - 1)
