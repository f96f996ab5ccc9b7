"""Hot and cold by clustering: how many classes a log has, which they are, and which of them is the hot one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtools.heat.axes import axes_of, spoken
from kvtools.heat.cuts import components, cut, cuts_in_two, cuts_of_more, stability
from kvtools.heat.rules import HeatRules
from kvtools.heat.split import LEAST_REQUESTS, LEAST_STABILITY, MERGED_VALLEY_LIMIT, VALLEY_LIMIT, Line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from numpy.typing import NDArray

    from kvtools.heat.axes import Axes
    from kvtools.heat.cuts import Cut
    from kvtools.heat.features import HeatColumns

FIT_REQUESTS = 50_000
CHOICE_REQUESTS = 5_000
LEAST_DIFFERENCE = 0.1
"""Classes whose frequency, steadiness, prefill work and reuse differ by less (in all) are neither hot nor cold."""


class HeatModel:
    """Two classes of requests, hot and cold, or one where no valley of density parts the log.

    After ``fit``: ``labels_`` (1 hot, 0 cold; all 1 where there is one class), ``classes`` (the names, hot first),
    ``component`` (the mixture component of each request within its class, hottest first), ``score`` (place between
    the means of the cold class, 0, and of the hot one, 1), ``n_classes``, ``method``, ``reason``, ``valley``,
    ``stability``. Neither the order of the rows nor anything but ``seed`` makes a difference.

    The method and its axes are those with the deepest valley; labels from elsewhere are never looked at. More
    components than two are merged by direction.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.n_classes = 1
        self.classes: tuple[str, ...] = ()
        self.method = ""
        self.reason = ""
        self.valley: float | None = None
        self.stability: float | None = None
        self._chosen: Cut | None = None
        self._line: Line | None = None
        self._hot_is_second = True
        self._parts: dict[bool, Any] = {}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> HeatRules:
        """Return what stands for a model in a service: the rules of a file that ``kvtools rules`` wrote.

        ``HeatModel.load("rules.yaml").label(request)`` takes a few microseconds and no scikit-learn.

        Raises:
            InputError: the file cannot be read or is no rule file; the sentence names path and line.
        """
        return HeatRules.load(path)

    def fit(self, columns: HeatColumns) -> HeatModel:
        """Find the classes of a log and label all of its requests; returns itself."""
        axes = axes_of(columns)
        with quiet():
            self._decide(axes)
            self.classes = ("hot", "cold") if self.n_classes == 2 else ("all",)
            self.labels_, self.component, self.score = self._label(axes)
        return self

    def predict(self, columns: HeatColumns) -> NDArray[np.int64]:
        """Return the labels (1 hot, 0 cold) of requests by the classes that were found.

        Raises:
            ValueError: the classes part on an axis that these requests do not have.
        """
        axes = axes_of(columns)
        missing = set(self._chosen.names if self._chosen else ()) - set(axes.names)
        if missing:
            raise ValueError(f"these requests have no {spoken(tuple(sorted(missing)))}")
        with quiet():
            return self._label(axes)[0]

    def _decide(self, axes: Axes) -> None:
        free = np.flatnonzero(~axes.censored)
        if len(free) < LEAST_REQUESTS:
            self.reason = f"no meaningful split (too few requests; {LEAST_REQUESTS} are needed)"
            return
        if not axes.names:
            self.reason = "no meaningful split (all requests are alike)"
            return
        rows = free[_sample(axes.points[free], self.seed, FIT_REQUESTS)]
        self.reason = "no meaningful split (no valley of density)"
        # More components than two are only looked at where two do not part the log: three crowds in a row.
        for cuts, limit in ((cuts_in_two, VALLEY_LIMIT), (cuts_of_more, MERGED_VALLEY_LIMIT)):
            for found in sorted(
                cuts(axes, rows[:CHOICE_REQUESTS], self.seed),
                key=lambda one: (one.valley, one.method.components),
            ):
                self.valley = found.valley if self.valley is None else self.valley
                if found.valley > limit:
                    break
                if self._settled(axes, rows, found, limit):
                    return

    def _settled(self, axes: Axes, rows: NDArray[np.int64], candidate: Cut, limit: float) -> bool:
        """Fit the candidate to all of the sample; return whether it still stands there, and under resampling."""
        points = axes.of(candidate.names)[rows]
        fitted = cut(points, candidate.method, candidate.names, self.seed)
        if fitted is None or fitted.valley > limit:
            return False
        second = fitted.second(points)
        survives = stability(points[:CHOICE_REQUESTS], fitted, self.seed)
        if survives < LEAST_STABILITY:
            self.reason = "no meaningful split (labels do not survive resampling)"
            return False
        hotter = float(axes.hotness[rows][second].mean() - axes.hotness[rows][~second].mean())
        if abs(hotter) < LEAST_DIFFERENCE:
            self.reason = "no meaningful split (two crowds, neither hotter)"
            return False
        self.n_classes, self.valley, self.stability, self.reason = 2, fitted.valley, survives, ""
        self.method = f"{fitted.method} on {spoken(fitted.names)}"
        self._chosen, self._hot_is_second = fitted, hotter > 0
        self._line = Line.between(points, second if self._hot_is_second else ~second)
        for hot in (True, False):
            inside = points[(second == self._hot_is_second) == hot]
            self._parts[hot] = components(inside[:CHOICE_REQUESTS], self._line, self.seed)
        return True

    def _label(self, axes: Axes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        count = len(axes.points)
        if self._chosen is None or self._line is None:
            return np.ones(count, dtype=np.int64), np.zeros(count, dtype=np.int64), np.full(count, np.nan)
        points = axes.of(self._chosen.names)
        hot = self._chosen.second(points) == self._hot_is_second
        component = np.zeros(count, dtype=np.int64)
        first = 0
        for is_hot in (True, False):
            mixture, ranks = self._parts[is_hot]
            inside = np.flatnonzero(hot == is_hot)
            if len(inside):
                component[inside] = first + ranks[mixture.predict(points[inside])]
            first += len(ranks)
        return hot.astype(np.int64), component, np.clip(self._line.places(points), 0.0, 1.0)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep scikit-learn's warnings (fewer distinct points than clusters, no convergence) from the user.

    One thread: on points of a few axes more threads cost more than they gain, and sums must not depend on their number.
    """
    import warnings  # noqa: PLC0415 - only here

    from threadpoolctl import (  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with scikit-learn
        threadpool_limits,
    )

    with warnings.catch_warnings(), np.errstate(all="ignore"), threadpool_limits(1):
        warnings.simplefilter("ignore")
        yield


def _sample(points: NDArray[np.float64], seed: int, size: int) -> NDArray[np.int64]:
    """Return ``size`` rows chosen, and ordered, by a hash of their values: the same whatever order they stand in."""
    mixed = np.full(len(points), np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    for column in range(points.shape[1]):
        bits = np.ascontiguousarray(points[:, column]).view(np.uint64)
        # splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
        mixed = (mixed ^ bits) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    if len(points) > size:
        few = np.argpartition(mixed, size)[:size]
        return few[np.argsort(mixed[few], kind="stable")]
    return np.argsort(mixed, kind="stable")
