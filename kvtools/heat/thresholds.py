"""Thresholds: the classes told from what is known when a request arrives, as rules that a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtools.heat.cuts import RESAMPLES
from kvtools.heat.features import NO_PRIORITY, UNKNOWN, as_known, recent
from kvtools.heat.model import quiet
from kvtools.heat.rules import Condition, Rule
from kvtools.heat.split import LEAST_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kvtools.heat.features import HeatColumns
    from kvtools.heat.rules import Label

TRAIN_SHARE = 0.7
"""Thresholds are learnt on this share of the time span and judged on the rest."""

_DEPTHS = (2, 3)
_GAIN = 0.01
"""A larger tree, or one that names routes, has to be so much more faithful to be taken."""

_LEAF_SHARE = 0.01
_DIGITS = 3
_FIT_REQUESTS = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """What ``kvtools.heat.rules.Arriving`` holds, of all requests at once: NaN, or place -1, is not known."""

    numbers: Mapping[str, NDArray[np.float64]]
    names: Mapping[str, NDArray[np.int64]]
    spelled: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, columns: HeatColumns) -> Arrived:
        """Return the features of a log's requests."""
        interval, variation = recent(columns)
        prompt, hits = as_known(columns.prompt_tokens), as_known(columns.hit_tokens)
        numbers = {
            "prompt_tokens": prompt,
            "recent_interval_s": interval,
            "recent_interval_cv": variation,
            "known_prefix_share": np.divide(hits, prompt, out=np.full(len(prompt), np.nan), where=prompt > 0),
            "turn": as_known(columns.turn),
            "priority": np.where(
                columns.priority == NO_PRIORITY, np.nan, columns.priority.astype(np.float64)
            ),
        }
        return cls(
            numbers,
            {"route": columns.route, "request_type": columns.request_type},
            {"route": columns.route_names, "request_type": columns.request_types},
        )

    def fitting(self, rule: Rule) -> NDArray[np.bool_]:
        """Return which requests pass all conditions of ``rule``; what is not known never does."""
        fits = np.ones(len(self.names["route"]), dtype=np.bool_)
        for condition in rule.when:
            fits &= self._passing(condition)
        return fits

    def _passing(self, condition: Condition) -> NDArray[np.bool_]:
        name, value = condition.feature, condition.value
        if isinstance(value, tuple):
            places = {spelled: place for place, spelled in enumerate(self.spelled[name])}
            wanted = [places[one] for one in value if one in places]
            column = self.names[name]
            inside = np.isin(column, wanted)
            return inside if condition.op == "in" else (column != UNKNOWN) & ~inside
        column = self.numbers.get(name, np.full(len(self.names["route"]), np.nan))
        with np.errstate(invalid="ignore"):
            return column <= value if condition.op == "<=" else column > value

    def hot_by(self, rules: Sequence[Rule], default: Label) -> NDArray[np.bool_]:
        """Return which requests these rules call hot: the first that fits decides."""
        hot = np.full(len(self.names["route"]), default == "hot")
        for rule in reversed(rules):
            hot[self.fitting(rule)] = rule.label == "hot"
        return hot


@dataclass(frozen=True, slots=True, eq=False)
class Thresholds:
    """Rules that tell the classes on arrival, and how far they can be trusted (0..1).

    ``fidelity``: the share of a class's requests that the rules give to it, mean of both classes, on the requests they
    were learnt from; ``fidelity_holdout`` the same on those that came later, ``None`` where these are too few.
    ``stability``: adjusted Rand index between the labels and those of rules learnt from resamples.
    """

    rules: tuple[Rule, ...]
    default: Label
    fidelity: float
    fidelity_holdout: float | None
    stability: float


def learn(columns: HeatColumns, arrived: Arrived, hot: NDArray[np.bool_], seed: int = 0) -> Thresholds:
    """Return the rules that follow ``hot`` best: learnt on the first 70 % of the time, judged on the last 30 %.

    The smallest tree (depth 2 or 3, without routes or with them) that is within a point of the best, which is found
    within the first part.
    """
    order = columns.order()
    times = columns.times_s()[order]
    train = order[times <= TRAIN_SHARE * times[-1]]
    later = order[len(train) :]
    if min(_both(hot[train])) == 0:
        train, later = order, order[:0]
    inner = train[: int(TRAIN_SHARE * len(train))]
    check = train[len(inner) :]
    options = [(depth, routes) for routes in (False, True) for depth in _DEPTHS]
    faithful = []
    for depth, routes in options:
        rules, default = _tree(columns, arrived, hot, inner, depth, routes=routes, seed=seed)
        faithful.append(fidelity(arrived.hot_by(rules, default)[check], hot[check]) or 0.0)
    depth, routes = options[next(i for i, f in enumerate(faithful) if f >= max(faithful) - _GAIN)]
    rules, default = _tree(columns, arrived, hot, train, depth, routes=routes, seed=seed)
    found = arrived.hot_by(rules, default)
    return Thresholds(
        rules=rules,
        default=default,
        fidelity=fidelity(found[train], hot[train]) or 0.0,
        fidelity_holdout=fidelity(found[later], hot[later]),
        stability=_stability(columns, arrived, hot, train, (depth, routes), found, seed),
    )


def fidelity(found: NDArray[np.bool_], hot: NDArray[np.bool_]) -> float | None:
    """Return the share of each class's requests that were found to be of it, mean of both; ``None`` without both.

    A plain share would praise rules that call everything hot where 95 % is.
    """
    if min(_both(hot)) == 0:
        return None
    return float((found[hot].mean() + (~found[~hot]).mean()) / 2)


def _both(hot: NDArray[np.bool_]) -> tuple[int, int]:
    return int(hot.sum()), int((~hot).sum())


def _stability(
    columns: HeatColumns,
    arrived: Arrived,
    hot: NDArray[np.bool_],
    train: NDArray[np.int64],
    shape: tuple[int, bool],
    found: NDArray[np.bool_],
    seed: int,
) -> float:
    from sklearn.metrics import adjusted_rand_score  # noqa: PLC0415 - heavy

    chance, scores = np.random.default_rng(seed), []
    for _ in range(RESAMPLES):
        drawn = train[chance.integers(0, len(train), len(train))]
        again = arrived.hot_by(*_tree(columns, arrived, hot, drawn, shape[0], routes=shape[1], seed=seed))
        scores.append(float(adjusted_rand_score(found[train], again[train])))
    return float(np.mean(scores))


def _tree(
    columns: HeatColumns,
    arrived: Arrived,
    hot: NDArray[np.bool_],
    rows: NDArray[np.int64],
    depth: int,
    *,
    routes: bool,
    seed: int,
) -> tuple[tuple[Rule, ...], Label]:
    """Learn a tree on ``rows`` and return its leaves of the rarer class as rules, the other class by default."""
    rarer: Label = "hot" if 2 * int(hot[rows].sum()) < len(rows) else "cold"
    default: Label = "cold" if rarer == "hot" else "hot"
    if len(rows) > _FIT_REQUESTS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _FIT_REQUESTS, replace=False))
    if min(_both(hot[rows])) == 0 or len(rows) < LEAST_REQUESTS // 2:
        return (), default
    names, matrix, ranks = _matrix(columns, arrived, hot, rows, routes=routes)
    whole = ~np.isnan(matrix).any(axis=1)
    if not names or min(_both(hot[rows][whole])) == 0:
        return (), default
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415 - heavy

    tree = DecisionTreeClassifier(
        max_depth=depth, class_weight="balanced", min_samples_leaf=_LEAF_SHARE, random_state=seed
    )
    with quiet():
        tree.fit(matrix[whole], hot[rows][whole])
    leaves = _leaves(tree.tree_, 0, bool(tree.classes_[0]))
    paths = [path for path, is_hot in leaves if is_hot == (rarer == "hot")]
    found = [_conditions(path, names, ranks) for path in paths]
    return tuple(Rule(f"model-{n}", when, rarer) for n, when in enumerate(found, 1) if when), default


def _matrix(
    columns: HeatColumns, arrived: Arrived, hot: NDArray[np.bool_], rows: NDArray[np.int64], *, routes: bool
) -> tuple[list[str], NDArray[np.float64], list[str]]:
    """Return names and values of the features that most requests have; routes as ranks, the coldest first."""
    kept = {
        name: values[rows]
        for name, values in arrived.numbers.items()
        if np.isnan(values[rows]).mean() <= 0.2 and np.nanmax(values[rows]) > np.nanmin(values[rows])
    }
    spelled: list[str] = []
    route = columns.route[rows]
    if routes and (route != UNKNOWN).all() and np.ptp(route) > 0:
        size = np.bincount(route, minlength=len(columns.route_names))
        share = np.bincount(route, weights=hot[rows], minlength=len(size)) / np.maximum(size, 1)
        seen = np.flatnonzero(size)
        ranked = seen[np.argsort(share[seen], kind="stable")]
        rank = np.full(len(size), np.nan)
        rank[ranked] = np.arange(len(ranked))
        kept["route"] = rank[route]
        spelled = [columns.route_names[place] for place in ranked.tolist()]
    matrix = np.column_stack(list(kept.values())) if kept else np.empty((len(rows), 0))
    return list(kept), matrix, spelled


Path = list[tuple[int, bool, float]]


def _leaves(tree: Any, node: int, first_is_hot: bool) -> list[tuple[Path, bool]]:  # noqa: FBT001
    """Return the paths (feature, whether above, bound) to the leaves; two leaves of one class are one."""
    if tree.children_left[node] < 0:
        share = tree.value[node][0]
        first = bool(share[0] >= share[-1]) if len(share) > 1 else True
        return [([], first == first_is_hot)]
    below = _leaves(tree, int(tree.children_left[node]), first_is_hot)
    above = _leaves(tree, int(tree.children_right[node]), first_is_hot)
    if len(below) == len(above) == 1 and not below[0][0] and not above[0][0] and below[0][1] == above[0][1]:
        return below
    step = (int(tree.feature[node]), float(tree.threshold[node]))
    return [
        ([(step[0], is_above, step[1]), *path], is_hot)
        for part, is_above in ((below, False), (above, True))
        for path, is_hot in part
    ]


def _conditions(path: Path, names: list[str], ranks: list[str]) -> tuple[Condition, ...]:
    """Return the tests of a path, the tightest bound of each feature on each side."""
    bounds: dict[tuple[int, bool], float] = {}
    for place, above, bound in path:
        known = bounds.get((place, above))
        bounds[place, above] = bound if known is None else (max if above else min)(known, bound)
    found = []
    routes = set(ranks)
    for (place, above), bound in sorted(bounds.items(), key=lambda item: item[0][0]):
        if names[place] == "route":
            cut = int(np.floor(bound)) + 1
            routes &= set(ranks[cut:] if above else ranks[:cut])
        else:
            found.append(Condition(names[place], ">" if above else "<=", _rounded(bound, names[place])))
    if ranks and routes != set(ranks):
        found.append(Condition("route", "in", tuple(sorted(routes))))
    return tuple(found)


def _rounded(bound: float, name: str) -> float:
    if name in ("prompt_tokens", "turn", "priority"):
        return float(np.floor(bound))
    return float(f"{bound:.{_DIGITS}g}")
