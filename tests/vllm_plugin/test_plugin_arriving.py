"""The rhythm of a route as the middleware keeps it is that of the log's features, from which rules are learnt."""

from __future__ import annotations

import numpy as np
import pytest

from kvtools.heat.features import HeatColumns, recent
from kvtools.vllm_plugin.arriving import Rhythm


@pytest.mark.parametrize("seed", range(5))
def test_the_rhythm_is_that_of_the_log(seed: int) -> None:
    chance = np.random.default_rng(seed)
    requests = 200
    arrival_us = np.sort(chance.integers(0, 30_000_000, requests))
    route = chance.integers(0, 4, requests)
    columns = HeatColumns.of(arrival_us, np.ones(requests, np.int64), route=route)
    interval, variation = recent(columns)
    rhythm = Rhythm()
    for place in range(requests):
        mean, spread = rhythm.arrived("abcd"[route[place]], arrival_us[place] / 1e6)
        assert mean == (None if np.isnan(interval[place]) else pytest.approx(interval[place]))
        assert spread == (None if np.isnan(variation[place]) else pytest.approx(variation[place], abs=1e-6))


def test_routes_that_were_not_seen_for_long_are_forgotten() -> None:
    rhythm = Rhythm()
    assert rhythm.arrived("first", 0.0) == (None, None)
    for place in range(4096):
        rhythm.arrived(f"route-{place}", 1.0)
    assert rhythm.arrived("first", 2.0) == (None, None)
    assert rhythm.arrived("route-4095", 3.0) == (2.0, None)
