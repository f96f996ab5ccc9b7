"""Hot and cold: what each further feature does to the classes, were it an axis of the clustering.

``python benchmarks/heat_features.py``. Planted mixes say what is gained (balanced accuracy), streams of one kind what
is lost: there every second class is a mistake.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import balanced_accuracy_score

import kvtools.heat.model
from kvtools.heat.axes import Axes, axes_of
from kvtools.heat.features import UNKNOWN, HeatColumns, as_known, rhythm
from kvtools.samples.mixed_traffic import mixed_requests

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = range(3)
BLOCKS = 32
"""Blocks of a shared prefix, of 16 tokens each."""


def mixed(seed: int) -> tuple[HeatColumns, np.ndarray]:
    rows = mixed_requests(20_000, seed)
    names = sorted({row.route for row in rows})
    columns = HeatColumns.of(
        np.array([1_000 * row.arrival_ms for row in rows]),
        np.array([row.prompt_tokens for row in rows]),
        route=np.array([names.index(row.route) for row in rows]),
        output_tokens=np.array([row.output_tokens for row in rows]),
        route_names=names,
    )
    return columns, np.array([row.cold for row in rows])


def distances(prefix: np.ndarray) -> np.ndarray:
    recent: list[int] = []
    found = np.full(len(prefix), UNKNOWN)
    for place, one in enumerate(prefix.tolist()):
        if one in recent:
            found[place] = BLOCKS * (recent.index(one) + 1)
            recent.remove(one)
        recent.insert(0, one)
    return found


def prefixes(seed: int) -> tuple[HeatColumns, np.ndarray]:
    """A log without a clock: 5 prefixes take 80 % of the requests, 400 take the rest."""
    chance = np.random.default_rng(seed)
    cold = chance.random(6_000) < 0.2
    prefix = np.where(cold, 5 + chance.integers(0, 400, 6_000), chance.integers(0, 5, 6_000))
    reuse = distances(prefix)
    tokens = chance.lognormal(5.5, 0.9, 6_000).astype(np.int64) + 1 + 16 * BLOCKS
    hits = np.where(reuse == UNKNOWN, 0, 16 * BLOCKS)
    clock = np.full(6_000, UNKNOWN)
    return HeatColumns.of(clock, tokens, group=prefix, hit_tokens=hits, reuse_blocks=reuse), cold


def conversations(seed: int) -> tuple[HeatColumns, None]:
    """One kind: four turns on average behind a system prompt of 512 tokens, which the request before has just used."""
    chance = np.random.default_rng(seed)
    rows, begin = [], 0.0
    while len(rows) < 6_000:
        begin += chance.exponential(2e6)
        at, seen, tokens = begin, 512.0, 512 + chance.lognormal(5.5, 0.6)
        for turn in range(1, 1 + chance.geometric(0.25)):
            rows.append((at, tokens, seen, turn, begin))
            at, seen, tokens = at + chance.lognormal(17, 0.8), tokens, tokens + chance.lognormal(5.5, 0.6)
    at, tokens, seen, turn, own = np.array(sorted(rows)).T
    touched = np.concatenate(([0], np.cumsum(tokens // 16)))
    last: dict[float, int] = {}
    reuse = np.empty(len(at), dtype=np.int64)
    for place, one in enumerate(own.tolist()):
        reuse[place] = touched[place] - touched[last.get(one, max(0, place - 1))]
        last[one] = place
    columns = HeatColumns.of(
        at.astype(np.int64),
        tokens.astype(np.int64),
        turn=turn.astype(np.int64),
        hit_tokens=seen.astype(np.int64) // 16 * 16,
        reuse_blocks=np.where(reuse > 0, reuse, UNKNOWN),
    )
    return replace(columns, group=np.zeros(len(at), dtype=np.int64)), None


def bursts(columns: HeatColumns) -> np.ndarray | None:
    beat = rhythm(columns)
    return None if beat is None else 2 * beat.burst_share


def reuse_distance(columns: HeatColumns) -> np.ndarray | None:
    known = as_known(columns.reuse_blocks)
    if np.isnan(known).all():
        return None
    return np.log1p(np.where(np.isnan(known), np.nanmax(known), known))


def turn_number(columns: HeatColumns) -> np.ndarray | None:
    return np.log(as_known(columns.turn)) if (columns.turn > 0).any() else None


def with_axis(
    name: str, values_of: Callable[[HeatColumns], np.ndarray | None]
) -> Callable[[HeatColumns], Axes]:
    def extended(columns: HeatColumns) -> Axes:
        axes, values = axes_of(columns), values_of(columns)
        if values is None or np.ptp(values) == 0:
            return axes
        return replace(axes, names=(*axes.names, name), points=np.column_stack((axes.points, values)))

    return extended


def main() -> None:
    tried = {"as it is": axes_of}
    tried |= {
        name: with_axis(name, values_of)
        for name, values_of in (
            ("bursts", bursts),
            ("turn number", turn_number),
            ("reuse distance", reuse_distance),
        )
    }
    kvtools.heat.model.spoken = ", ".join
    logs = {
        "mixed-traffic": mixed,
        "prefixes without a clock": prefixes,
        "one kind: conversations": conversations,
    }
    for said, method in tried.items():
        kvtools.heat.model.axes_of = method
        for name, log in logs.items():
            found = []
            for seed in SEEDS:
                columns, cold = log(seed)
                model = kvtools.heat.model.HeatModel().fit(columns)
                right = "" if cold is None else f", {balanced_accuracy_score(cold, model.labels_ == 0):.3f}"
                found.append(f"{model.n_classes} (valley {model.valley:.2f}{right})")
            print(f"| {said} | {name} | {' · '.join(found)} |")


if __name__ == "__main__":
    main()
