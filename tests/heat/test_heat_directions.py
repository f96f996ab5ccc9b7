"""Which of two crowds is the hot one, and what becomes of three."""

from __future__ import annotations

import numpy as np
import pytest

from kvtools.heat.features import HeatColumns
from kvtools.heat.model import HeatModel
from kvtools.heat.split import MERGED_VALLEY_LIMIT
from kvtools.heat.study import COLD, HOT, study_heat
from kvtools.heat.thresholds import Arrived


def steady_and_bursty(seed: int) -> tuple[HeatColumns, np.ndarray]:
    """Twelve routes of 600 requests at one a second: six steady, six in bursts of 20 at 50 ms, then 19 s of rest."""
    chance = np.random.default_rng(seed)
    steady = [np.cumsum(chance.exponential(1e6, 600)) for _ in range(6)]
    gaps = np.where(np.arange(600) % 20 == 0, 19e6, 5e4)
    bursty = [np.cumsum(gaps * chance.exponential(1, 600)) for _ in range(6)]
    at = np.concatenate([*steady, *bursty]).astype(np.int64)
    route = np.repeat(np.arange(12), 600)
    tokens = chance.lognormal(5.5, 0.9, len(at)).astype(np.int64) + 1
    names = [f"route-{n}" for n in range(12)]
    return HeatColumns.of(at, tokens, route=route, route_names=names), route >= 6


@pytest.mark.parametrize("seed", range(3))
def test_routes_that_come_in_bursts_are_cold_although_their_gaps_are_short(seed: int) -> None:
    columns, bursty = steady_and_bursty(seed)
    model = HeatModel().fit(columns)
    assert model.n_classes == 2
    assert np.array_equal(model.labels_ == COLD, bursty)


def three_crowds(weights: tuple[float, ...], seed: int = 1) -> tuple[HeatColumns, np.ndarray]:
    """Prompts of about 55, 500 and 4,500 tokens: factors of 9, each spread by a factor of 1.4."""
    chance = np.random.default_rng(seed)
    crowd = chance.choice(3, 6_000, p=weights)
    tokens = np.exp(4 + 2.2 * crowd + chance.normal(0, 0.35, 6_000)).astype(np.int64) + 1
    at = np.cumsum(chance.exponential(4e5, 6_000)).astype(np.int64)
    return HeatColumns.of(at, tokens), crowd


@pytest.mark.parametrize("weights", [(0.33, 0.34, 0.33), (0.1, 0.8, 0.1), (0.6, 0.2, 0.2)])
def test_three_crowds_in_a_row_are_two_classes_and_three_components(weights: tuple[float, ...]) -> None:
    columns, crowd = three_crowds(weights)
    model = HeatModel().fit(columns)
    assert model.n_classes == 2
    assert model.valley <= MERGED_VALLEY_LIMIT
    # Shorter is hotter: the crowds keep their order, so components from the hottest on are the crowds themselves.
    assert len(np.unique(model.component)) == 3
    assert (model.component == crowd).mean() > 0.99
    # No crowd is cut: each is of one class for all but its edge.
    hot = [float((model.labels_[crowd == which] == HOT).mean()) for which in range(3)]
    assert hot[0] > 0.99
    assert hot[2] < 0.01
    assert min(hot[1], 1 - hot[1]) < 0.01


def test_one_stream_of_prefixes_with_a_zipf_popularity_is_one_class() -> None:
    for seed in range(3):
        chance = np.random.default_rng(seed)
        weights = 1 / np.arange(1, 501) ** 1.1
        prefix = chance.choice(500, 6_000, p=weights / weights.sum())
        tail = chance.lognormal(5.5, 0.9, 6_000).astype(np.int64) + 1
        at = np.cumsum(chance.exponential(4e5, 6_000)).astype(np.int64)
        columns = HeatColumns.of(at, tail + 512, group=prefix, hit_tokens=np.full(6_000, 512))
        assert HeatModel().fit(columns).n_classes == 1


def test_priority_is_a_feature_on_arrival() -> None:
    """Two crowds by the length of the answer, which nobody knows on arrival; the sender's priority tells them."""
    chance = np.random.default_rng(0)
    cold = chance.random(4_000) < 0.3
    output = np.exp(np.where(cold, 8, 3) + chance.normal(0, 0.3, 4_000)).astype(np.int64) + 1
    # Cold is what takes more prefill: its prompts are longer by a factor of 1.5, far less than their spread.
    tokens = np.exp(6 + 0.4 * cold + chance.normal(0, 0.8, 4_000)).astype(np.int64) + 1
    at = np.cumsum(chance.exponential(1e6, 4_000)).astype(np.int64)
    priority = np.where(cold, 3, -2)
    study = study_heat(HeatColumns.of(at, tokens, output_tokens=output, priority=priority))
    assert study.model.n_classes == 2
    (rule,) = study.thresholds.rules
    assert [(one.feature, one.op) for one in rule.when] == [("priority", ">")]
    assert -2 <= rule.when[0].value < 3
    assert rule.label == "cold"
    arrived = Arrived.of(study.columns)
    assert np.array_equal(~arrived.hot_by(study.thresholds.rules, study.thresholds.default), cold)


def test_a_priority_that_is_not_logged_fits_no_rule() -> None:
    columns = HeatColumns.of(np.arange(3), np.ones(3, dtype=np.int64))
    assert np.isnan(Arrived.of(columns).numbers["priority"]).all()
