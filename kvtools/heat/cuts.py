"""The ways to cut a log in two, each fitted without a label: what ``kvtools.heat.model`` chooses from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtools.heat.split import LEAST_REQUESTS, LEAST_SHARE, Line, valley

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kvtools.heat.axes import Axes

RESAMPLES = 3
_TOGETHER = (("prefill work", "output tokens"), ("interval", "variation"), ("prefill work", "interval"))
_VARIANCE_FLOOR = 1e-3
_MOST_COMPONENTS = 3
"""Components that a class may have, by BIC."""


@dataclass(frozen=True, slots=True)
class Method:
    """A clustering with ``components``, of which the lowest ``below`` (along the one axis) are the first half.

    With two components the halves are the components, on any number of axes. More are merged by direction: those on
    one side of the cut are one class.
    """

    name: str
    components: int = 2
    below: int = 1

    def __str__(self) -> str:
        if self.components == 2:
            return self.name
        return f"{self.name} of {self.components}, {self.below} against {self.components - self.below}"


K_MEANS, MIXTURE = Method("k-means"), Method("Gaussian mixture")
MERGED = tuple(Method("Gaussian mixture", count, below) for count in (3, 4) for below in range(1, count))


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The log cut in two: ``valley`` is the density between the halves, ``names`` the axes, ``upper`` by component."""

    method: Method
    names: tuple[str, ...]
    fitted: Any
    upper: NDArray[np.bool_]
    valley: float

    def second(self, points: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which points are in the second half."""
        return np.asarray(self.upper[self.fitted.predict(points)], dtype=np.bool_)


def cuts_in_two(axes: Axes, rows: NDArray[np.int64], seed: int) -> Iterator[Cut]:
    """Yield the cuts of two components: on each axis alone, on lengths, on rhythm, on what a prefill costs, on all."""
    for names in _axis_sets(axes.names):
        points = axes.of(names)[rows]
        for method in (K_MEANS, MIXTURE):
            if (found := cut(points, method, names, seed)) is not None:
                yield found


def cuts_of_more(axes: Axes, rows: NDArray[np.int64], seed: int) -> Iterator[Cut]:
    """Yield the cuts of three and four components, on each axis alone: there they have an order to be merged by."""
    for name in axes.names:
        points = axes.of((name,))[rows]
        fitted = {count: _fitted(points, Method("Gaussian mixture", count), seed) for count in (3, 4)}
        for method in MERGED:
            found = _judged(points, method, (name,), fitted[method.components])
            if found is not None:
                yield found


def cut(points: NDArray[np.float64], method: Method, names: tuple[str, ...], seed: int) -> Cut | None:
    """Cut ``points`` in two, ``None`` where one half is next to nothing."""
    return _judged(points, method, names, _fitted(points, method, seed))


def stability(points: NDArray[np.float64], fitted: Cut, seed: int) -> float:
    """Return the mean adjusted Rand index between the labels and those of fits to bootstrap resamples."""
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415 - heavy

    labels, chance, found = fitted.second(points), np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        drawn = points[chance.integers(0, len(points), len(points))]
        again = cut(drawn, fitted.method, fitted.names, seed)
        found.append(0.0 if again is None else float(adjusted_rand_score(labels, again.second(points))))
    return float(np.mean(found))


def components(points: NDArray[np.float64], line: Line, seed: int) -> tuple[Any, NDArray[np.int64]]:
    """Return the mixture of one class (its number of components by BIC), and each one's rank, hottest first."""
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415 - heavy

    fits = [
        GaussianMixture(count, reg_covar=_VARIANCE_FLOOR, random_state=seed).fit(points)
        for count in range(1, _MOST_COMPONENTS + 1)
        if len(points) >= LEAST_REQUESTS or count == 1
    ]
    best = min(fits, key=lambda fit: float(fit.bic(points)))
    ranks = np.empty(len(best.means_), dtype=np.int64)
    ranks[np.argsort(-line.places(best.means_), kind="stable")] = np.arange(len(best.means_))
    return best, ranks


def _axis_sets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    sets: list[tuple[str, ...]] = [(name,) for name in names]
    sets += [together for together in (*_TOGETHER, names) if set(together) <= set(names)]
    return list(dict.fromkeys(sets))


def _fitted(points: NDArray[np.float64], method: Method, seed: int) -> Any:
    from sklearn.cluster import KMeans  # noqa: PLC0415 - heavy
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415 - heavy

    if method == K_MEANS:
        estimator = KMeans(2, n_init=2, random_state=seed)
    else:
        estimator = GaussianMixture(
            method.components, reg_covar=_VARIANCE_FLOOR, random_state=seed, init_params="kmeans"
        )
    try:
        return estimator.fit(points)
    except ValueError:  # fewer distinct points than components
        return None


def _judged(points: NDArray[np.float64], method: Method, names: tuple[str, ...], fitted: Any) -> Cut | None:
    if fitted is None:
        return None
    found = fitted.predict(points)
    upper, beside = np.array([False, True]), np.ones(len(points), dtype=np.bool_)
    if method.components > 2:
        order = np.argsort(fitted.means_[:, 0], kind="stable")
        upper = np.zeros(method.components, dtype=np.bool_)
        upper[order[method.below :]] = True
        # The mean of several crowds may lie where nothing is: the valley is that between the two beside the cut.
        beside = np.isin(found, order[method.below - 1 : method.below + 1])
    second = upper[found]
    if not LEAST_SHARE <= second.mean() <= 1 - LEAST_SHARE or len(np.unique(second[beside])) < 2:
        return None
    return Cut(method, names, fitted, upper, valley(points[beside], second[beside]))
