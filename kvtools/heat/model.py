"""Hot and cold by clustering: how many classes a log has, which they are, and which of them is the hot one."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtools.heat.axes import HOTTER, axes_of, spoken
from kvtools.heat.rules import HeatRules
from kvtools.heat.split import (
    LEAST_REQUESTS,
    LEAST_SHARE,
    LEAST_STABILITY,
    VALLEY_LIMIT,
    Line,
    valley,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from numpy.typing import NDArray

    from kvtools.heat.axes import Axes
    from kvtools.heat.features import HeatColumns

FIT_REQUESTS = 50_000
CHOICE_REQUESTS = 5_000
RESAMPLES = 3
LEAST_DIFFERENCE = 0.1
"""Classes whose frequency, steadiness, prefill work and reuse differ by less (in all) are neither hot nor cold."""

METHODS = ("k-means", "Gaussian mixture")
_COMPONENTS = (1, 2)
_VARIANCE_FLOOR = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """One way to cut the log in two: ``valley`` is the density between the halves, ``names`` the axes."""

    method: str
    names: tuple[str, ...]
    fitted: Any
    valley: float

    def second(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(self.fitted.predict(points) == 1, dtype=np.bool_)


class HeatModel:
    """Two classes of requests, hot and cold, or one where no valley of density parts the log.

    After ``fit``: ``labels_`` (1 hot, 0 cold; all 1 where there is one class), ``classes`` (the names, hot first),
    ``component`` (the mixture component of each request within its class, hottest first), ``score`` (place between
    the means of the cold class, 0, and of the hot one, 1), ``n_classes``, ``method``, ``reason``, ``valley``,
    ``stability``. Neither the order of the rows nor anything but ``seed`` makes a difference.

    The method and its axes are those with the deepest valley; labels from elsewhere are never looked at.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.n_classes = 1
        self.classes: tuple[str, ...] = ()
        self.method = ""
        self.reason = ""
        self.valley: float | None = None
        self.stability: float | None = None
        self._chosen: _Candidate | None = None
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
        choice = rows[:CHOICE_REQUESTS]
        candidates = [
            found
            for names in _axis_sets(axes.names)
            for method in METHODS
            if (found := _cut(axes.of(names)[choice], method, names, self.seed)) is not None
        ]
        candidates.sort(key=lambda found: found.valley)
        self.reason = "no meaningful split (no valley of density)"
        for candidate in candidates:
            self.valley = candidate.valley if self.valley is None else self.valley
            if candidate.valley > VALLEY_LIMIT:
                break
            if self._settled(axes, rows, candidate):
                return

    def _settled(self, axes: Axes, rows: NDArray[np.int64], candidate: _Candidate) -> bool:
        """Fit the candidate to all of the sample; return whether it still stands there, and under resampling."""
        points = axes.of(candidate.names)[rows]
        fitted = _cut(points, candidate.method, candidate.names, self.seed)
        if fitted is None or fitted.valley > VALLEY_LIMIT:
            return False
        second = fitted.second(points)
        stability = _stability(points[:CHOICE_REQUESTS], fitted, self.seed)
        if stability < LEAST_STABILITY:
            self.reason = "no meaningful split (labels do not survive resampling)"
            return False
        hotter = _hotness(axes, rows, second)
        if abs(hotter) < LEAST_DIFFERENCE:
            self.reason = "no meaningful split (two crowds, neither hotter)"
            return False
        self.n_classes, self.valley, self.stability, self.reason = 2, fitted.valley, stability, ""
        self.method = f"{fitted.method} on {spoken(fitted.names)}"
        self._chosen, self._hot_is_second = fitted, hotter > 0
        self._line = Line.between(points, second if self._hot_is_second else ~second)
        for hot in (True, False):
            inside = points[(second == self._hot_is_second) == hot]
            self._parts[hot] = _components(inside[:CHOICE_REQUESTS], self._line, self.seed)
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


def _axis_sets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the sets of axes to try: each alone, lengths, rhythm, what a prefill costs, and all."""
    sets: list[tuple[str, ...]] = [(name,) for name in names]
    for together in (
        ("prefill work", "output tokens"),
        ("interval", "variation"),
        ("prefill work", "interval"),
        names,
    ):
        if set(together) <= set(names) and together not in sets:
            sets.append(together)
    return sets


def _cut(points: NDArray[np.float64], method: str, names: tuple[str, ...], seed: int) -> _Candidate | None:
    """Cut ``points`` in two, ``None`` where one half is next to nothing."""
    fitted = _estimator(method, seed)
    try:
        fitted.fit(points)
    except ValueError:  # fewer distinct points than halves
        return None
    second = fitted.predict(points) == 1
    if not LEAST_SHARE <= second.mean() <= 1 - LEAST_SHARE:
        return None
    return _Candidate(method, names, fitted, valley(points, second))


def _estimator(method: str, seed: int) -> Any:
    from sklearn.cluster import KMeans  # noqa: PLC0415 - heavy
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415 - heavy

    if method == "k-means":
        return KMeans(2, n_init=2, random_state=seed)
    return GaussianMixture(2, reg_covar=_VARIANCE_FLOOR, random_state=seed, init_params="kmeans")


def _stability(points: NDArray[np.float64], fitted: _Candidate, seed: int) -> float:
    """Return the mean adjusted Rand index between the labels and those of fits to bootstrap resamples."""
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415 - heavy

    labels, chance, found = fitted.second(points), np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        drawn = points[chance.integers(0, len(points), len(points))]
        again = _cut(drawn, fitted.method, fitted.names, seed)
        found.append(0.0 if again is None else float(adjusted_rand_score(labels, again.second(points))))
    return float(np.mean(found))


def _hotness(axes: Axes, rows: NDArray[np.int64], second: NDArray[np.bool_]) -> float:
    """Return by how much the second half is hotter: the signed difference of the means, over all axes known."""
    points = axes.points[rows]
    difference = points[second].mean(axis=0) - points[~second].mean(axis=0)
    return float(
        sum(HOTTER.get(name, 0) * part for name, part in zip(axes.names, difference.tolist(), strict=True))
    )


def _components(points: NDArray[np.float64], line: Line, seed: int) -> tuple[Any, NDArray[np.int64]]:
    """Return the mixture of one class (one or two components, by BIC), and each component's rank, hottest first."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415 - heavy

    fits = [
        GaussianMixture(count, reg_covar=_VARIANCE_FLOOR, random_state=seed).fit(points)
        for count in _COMPONENTS
        if len(points) >= LEAST_REQUESTS or count == 1
    ]
    best = min(fits, key=lambda fit: float(fit.bic(points)))
    ranks = np.empty(len(best.means_), dtype=np.int64)
    ranks[np.argsort(-line.places(best.means_), kind="stable")] = np.arange(len(best.means_))
    return best, ranks


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
