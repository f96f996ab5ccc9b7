"""Hot and cold as a page draws them, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kvtools.heat.features import HeatColumns
from kvtools.heat.model import HeatModel
from kvtools.heat.rules import RuleSet
from kvtools.heat.study import COLD, HOT, NONE, HeatStudy
from kvtools.report.class_shape import (
    LONGEST_DECADE,
    LONGEST_DOUBLINGS,
    PER_DECADE,
    PER_DOUBLING,
    SHORTEST_DECADE,
    ClassBin,
    class_bins,
    class_windows,
)


def _study(arrival_s: list[float], tokens: list[int], classes: list[int], groups: list[int]) -> HeatStudy:
    arrivals = np.array([-1 if at < 0 else round(at * 1e6) for at in arrival_s], dtype=np.int64)
    columns = HeatColumns.of(
        arrivals, np.array(tokens, dtype=np.int64), group=np.array(groups, dtype=np.int64)
    )
    model = HeatModel(0)
    model.n_classes = 2
    final = np.array(classes, dtype=np.int64)
    return HeatStudy(columns, model, final, final, (), None, RuleSet((), "hot"))


def test_the_share_of_hot_requests_by_hand() -> None:
    # Two windows of a second; the request of no class counts in neither.
    study = _study([0.0, 0.2, 0.4, 1.5, 1.7], [100] * 5, [HOT, COLD, NONE, HOT, HOT], [0] * 5)
    windows = class_windows(study, 0)
    assert [(w.from_us, w.width_us, w.requests, w.hot_requests, w.hot_share) for w in windows] == [
        (0, 1_000_000, 2, 1, 0.5),
        (1_000_000, 1_000_000, 2, 2, 1.0),
    ]


def test_a_window_without_a_class_has_no_share() -> None:
    windows = class_windows(_study([0.0, 1.0], [10, 10], [HOT, NONE], [0, 0]), 0)
    assert [w.hot_share for w in windows] == [1.0, None]


def test_bins_by_hand() -> None:
    # Group 0 arrives at 0, 2 and 4 s; group 1 at 1 s and 0.2 ms later. Two bins a doubling and a decade:
    # 100 tokens lie in [90.5, 128), 3,000 in [2,896.3, 4,096); 2 s in [1, 3.16), 0.2 ms below 1 ms.
    study = _study(
        [0, 2, 4, 1, 1.0002], [100, 100, 100, 3000, 3000], [HOT, HOT, HOT, COLD, COLD], [0, 0, 0, 1, 1]
    )
    bins = class_bins(study)
    assert [(one.name, one.requests) for one in bins] == [("hot", 1), ("hot", 2), ("cold", 1), ("cold", 1)]
    first, twice, _, short = bins
    assert (first.gap_at_least_s, first.gap_below_s) == (None, None)
    assert first.tokens_at_least == pytest.approx(90.51, abs=0.01)
    assert first.tokens_below == 128
    assert (twice.gap_at_least_s, twice.gap_below_s) == (1.0, pytest.approx(3.162, abs=0.001))
    assert (short.gap_at_least_s, short.gap_below_s) == (0.0, pytest.approx(0.001))
    assert short.tokens_at_least == pytest.approx(2896.3, abs=0.1)


def test_what_is_longer_than_the_grid_is_one_bin() -> None:
    study = _study([0, 2e6, 9e6], [2**22, 2**22, 2**30], [HOT, HOT, HOT], [0, 0, 0])
    last = class_bins(study)[-1]
    assert last == ClassBin(
        name="hot",
        tokens_at_least=2.0**22,
        tokens_below=None,
        gap_at_least_s=1e6,
        gap_below_s=None,
        requests=2,
    )


def test_without_a_clock_there_are_lengths_only() -> None:
    bins = class_bins(_study([-1, -1, -1], [64, 64, 64], [HOT, HOT, COLD], [0, 0, 0]))
    assert [(one.name, one.tokens_at_least, one.gap_at_least_s, one.requests) for one in bins] == [
        ("hot", 64.0, None, 2),
        ("cold", 64.0, None, 1),
    ]
    assert [w.width_us for w in class_windows(_study([-1, -1], [1, 1], [HOT, COLD], [0, 0]), 0)] == [
        None,
        None,
    ]


def test_one_class_draws_nothing() -> None:
    study = _study([0, 1], [10, 10], [NONE, NONE], [0, 0])
    study.model.n_classes = 1
    assert class_windows(study, 0) == class_bins(study) == []


def test_a_million_requests_fill_no_more_bins_than_the_grid_has() -> None:
    rng = np.random.default_rng(7)
    requests = 1_000_000
    arrivals = np.cumsum(rng.lognormal(0, 4, requests)).tolist()
    tokens = np.minimum(rng.lognormal(7, 3, requests), 2e9).astype(int).tolist()
    bins = class_bins(_study(arrivals, tokens, rng.integers(0, 2, requests).tolist(), [0] * requests))
    assert sum(one.requests for one in bins) == requests
    grid = (LONGEST_DOUBLINGS * PER_DOUBLING + 1) * ((LONGEST_DECADE - SHORTEST_DECADE) * PER_DECADE + 3)
    assert len(bins) <= 2 * grid
