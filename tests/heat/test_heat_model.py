"""Classes against labels that the model never sees: real traces, planted mixes, and streams of one kind."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from kvtools.heat.features import HeatColumns, recent, rhythm
from kvtools.heat.model import HeatModel
from kvtools.heat.split import VALLEY_LIMIT, valley
from kvtools.heat.study import COLD, HOT, NONE, HeatStudy, study_heat
from kvtools.heat.thresholds import Arrived
from kvtools.samples.mixed_traffic import mixed_requests


def balanced(found: np.ndarray, truth: np.ndarray) -> float:
    """The mean, over both classes, of the share of their requests that were found to be theirs."""
    return float((found[truth].mean() + (~found[~truth]).mean()) / 2)


def later(columns: HeatColumns) -> np.ndarray:
    """The last 30 % of the time span."""
    times = columns.arrival_us - columns.arrival_us.min()
    return times > 0.7 * times.max()


def by_rules(study: HeatStudy) -> np.ndarray:
    assert study.thresholds is not None
    return Arrived.of(study.columns).hot_by(study.thresholds.rules, study.thresholds.default)


def azure(shared: Path) -> tuple[HeatColumns, np.ndarray]:
    rows = []
    for kind in ("code", "conv"):
        with (shared / f"data/azure_llm_2023/AzureLLMInferenceTrace_{kind}.csv").open() as file:
            for row in csv.DictReader(file):
                # datetime reads six decimals; the trace has seven.
                at = datetime.fromisoformat(row["TIMESTAMP"][:26] + "+00:00").timestamp()
                rows.append(
                    (round(at * 1e6), int(row["ContextTokens"]), int(row["GeneratedTokens"]), kind == "conv")
                )
    at, prompt, output, conversation = np.array(sorted(rows), dtype=np.int64).T
    return HeatColumns.of(at, prompt, output_tokens=output), conversation == 1


def mixed(cold_share: float, seed: int = 7, requests: int = 20_000) -> tuple[HeatColumns, np.ndarray]:
    rows = mixed_requests(requests, seed, cold_share)
    names = sorted({row.route for row in rows})
    columns = HeatColumns.of(
        np.array([1_000 * row.arrival_ms for row in rows]),
        np.array([row.prompt_tokens for row in rows]),
        route=np.array([names.index(row.route) for row in rows]),
        output_tokens=np.array([row.output_tokens for row in rows]),
        route_names=names,
    )
    return columns, np.array([row.cold for row in rows])


def test_code_and_conversation_of_azure_are_told_apart(shared: Path) -> None:
    columns, conversation = azure(shared)
    study = study_heat(columns)
    held = later(columns)
    hot = study.label == HOT
    # Names of the classes are mapped on the first 70 % of the time.
    if balanced(hot[~held], conversation[~held]) < 0.5:
        conversation = ~conversation
    assert balanced(hot[held], conversation[held]) >= 0.80
    assert balanced(by_rules(study)[held], conversation[held]) >= 0.65
    assert study.model.valley < VALLEY_LIMIT


@pytest.mark.parametrize("cold_share", [0.05, 0.15, 0.30])
def test_a_planted_mix_is_found_again(cold_share: float) -> None:
    columns, cold = mixed(cold_share)
    study = study_heat(columns)
    held = later(columns)
    assert abs(cold.mean() - cold_share) < 0.02
    assert balanced(study.label[held] == COLD, cold[held]) >= 0.95
    assert balanced(~by_rules(study)[held], cold[held]) >= 0.95
    # Length alone, at the best of all bounds that the labels can choose, cannot do it.
    tokens = columns.prompt_tokens
    assert max(balanced(tokens > bound, cold) for bound in range(128, 2_048, 8)) < 0.85


@pytest.mark.parametrize("cold_share", [0.05, 0.15, 0.30])
def test_thresholds_are_near_those_that_the_labels_choose(cold_share: float) -> None:
    columns, cold = mixed(cold_share)
    study = study_heat(columns)
    numbers = Arrived.of(columns).numbers
    conditions = [one for rule in study.thresholds.rules for one in rule.when]
    assert conditions
    for one in conditions:
        values = numbers[one.feature]
        known = ~np.isnan(values)
        bounds = np.unique(values[known])
        order = np.argsort(values[known], kind="stable")
        colder = cold[known][order]
        # Cold above the bound: rightly told are the hot ones up to it and the cold ones behind it.
        right = np.cumsum(~colder) + colder.sum() - np.cumsum(colder)
        last = np.searchsorted(values[known][order], bounds, side="right") - 1
        best = np.flatnonzero(right[last] == right[last].max())
        # Every bound from the best value up to the next one is as right as it.
        upper = bounds[min(best.max() + 1, len(bounds) - 1)]
        assert bounds[best.min()] * 0.85 <= one.value <= upper * 1.15


STREAMS = {
    "log-normal": lambda chance, count: chance.lognormal(5.5, 0.9, count),
    "gamma": lambda chance, count: chance.gamma(2.0, 300.0, count),
    "truncated": lambda chance, count: np.minimum(chance.lognormal(6.5, 1.0, count), 2_048),
}


@pytest.mark.parametrize("requests", [2_000, 20_000])
@pytest.mark.parametrize("kind", list(STREAMS))
def test_one_stream_is_one_class(kind: str, requests: int) -> None:
    for seed in range(3):
        chance = np.random.default_rng(seed)
        lengths = STREAMS[kind](chance, requests).astype(np.int64) + 1
        at = np.cumsum(chance.gamma(0.7, 4e5, requests)).astype(np.int64)
        output = chance.lognormal(5.0, 0.8, requests).astype(np.int64) + 1
        study = study_heat(HeatColumns.of(at, lengths, output_tokens=output))
        assert study.model.n_classes == 1
        assert study.model.reason.startswith("no meaningful split")
        assert set(study.label) == {NONE}


def test_labels_do_not_depend_on_the_order_of_rows() -> None:
    columns, _ = mixed(0.15, requests=5_000)
    order = np.random.default_rng(3).permutation(len(columns))
    shuffled = HeatColumns.of(
        columns.arrival_us[order],
        columns.prompt_tokens[order],
        route=columns.route[order],
        output_tokens=columns.output_tokens[order],
        route_names=columns.route_names,
    )
    one, other, again = (HeatModel().fit(each) for each in (columns, shuffled, columns))
    for name in ("labels_", "component", "score"):
        assert np.array_equal(getattr(one, name)[order], getattr(other, name)), name
        assert np.array_equal(getattr(one, name), getattr(again, name)), name
    assert np.array_equal(one.predict(columns), one.labels_)


def columns_of(at: list[int], tokens: list[int], route: int = -1) -> HeatColumns:
    return HeatColumns.of(np.array(at), np.array(tokens), route=np.full(len(at), route), route_names=["a"])


@pytest.mark.parametrize(
    "columns",
    [
        columns_of([], []),
        columns_of([1], [5]),
        columns_of([1, 2], [5, 9_000]),
        columns_of([1, 2, 3], [5, 9_000, 7], route=0),
        columns_of([-1] * 300, list(range(300))),
        columns_of([7] * 300, [100] * 300),
        columns_of(list(range(300)), [100] * 300, route=0),
        columns_of(list(range(300)), [-1] * 300),
    ],
    ids=["nothing", "one", "two", "three", "no-clock", "equal-times", "one-route", "no-lengths"],
)
def test_little_to_go_by_is_one_class_and_says_why(columns: HeatColumns) -> None:
    study = study_heat(columns)
    assert study.model.n_classes == 1
    assert study.model.reason.startswith("no meaningful split")
    assert list(study.final) == [COLD if tokens > 8192 else NONE for tokens in columns.prompt_tokens]


def test_the_rules_over_the_model_are_applied_in_their_order() -> None:
    base, cold = mixed(0.15, requests=5_000)
    tokens = base.prompt_tokens.copy()
    tokens[:10] = 9_000
    says = np.full(len(base), -1)
    says[:20], says[-1] = 1, 0
    columns = HeatColumns.of(
        base.arrival_us, tokens, route=base.route, request_type=says, route_names=base.route_names
    )
    study = study_heat(columns, article_b=True)
    label, final = study.label, study.final
    assert balanced(label == COLD, cold) > 0.95
    assert (final[:10] == COLD).all()
    over = (tokens > 1_000) & (tokens <= 8_192)
    assert (final[over] == COLD).all()
    header = ~over & (np.arange(len(tokens)) >= 10) & (says >= 0)
    assert np.array_equal(final[header], says[header])
    others = ~over & (tokens <= 8_192) & (says < 0)
    assert np.array_equal(final[others], label[others])
    names = [one.rule.name for one in study.moved]
    assert names[:4] == ["over-8192-tokens", "article-b", "header", "header"]
    counted = {one.rule.name: (one.requests, one.moved) for one in study.moved[:2]}
    assert counted["over-8192-tokens"] == (10, int((label[:10] == HOT).sum()))
    assert counted["article-b"] == (int(over.sum()), int((label[over] == HOT).sum()))


def test_rhythm_of_hand_made_groups() -> None:
    # Group 0 arrives at 0, 2, 4, 6 s; group 1 at 0, 1, 1, 10 s; group 2 once, at 5 s.
    at = np.array([0, 2, 4, 6, 0, 1, 1, 10, 5]) * 1_000_000
    group = np.array([0] * 4 + [1] * 4 + [2])
    beat = rhythm(HeatColumns.of(at, np.ones(9, dtype=np.int64), route=group))
    assert list(beat.interval_s) == [2.0] * 4 + [1.0] * 4 + [10.0]
    gaps = np.array([1.0, 0.0, 9.0])
    assert list(beat.cv[:4]) == [0.0] * 4
    assert beat.cv[4] == pytest.approx(gaps.std() / gaps.mean())
    assert beat.burst_share[4] == pytest.approx(1 / 3)
    assert list(beat.per_minute) == [24.0] * 8 + [6.0]


def test_recent_interval_is_over_the_last_eight_arrivals_of_the_route() -> None:
    at = np.cumsum([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) * 1_000_000
    interval, variation = recent(
        HeatColumns.of(at, np.ones(10, dtype=np.int64), route=np.zeros(10, dtype=np.int64))
    )
    assert np.isnan(interval[0])
    assert interval[1:].tolist() == [
        1,
        1.5,
        2,
        2.5,
        3,
        3.5,
        4,
        5,
        6,
    ]  # means of 1..n, later of the last 7 gaps
    assert np.isnan(variation[1])
    assert variation[2] == pytest.approx(0.5 / 1.5)


def test_a_valley_is_one_for_one_crowd_and_none_between_two() -> None:
    chance = np.random.default_rng(0)
    one = chance.normal(0, 1, (4_000, 1))
    assert valley(one, one[:, 0] > 0) > 0.95
    two = np.concatenate((one - 5, one + 5))
    assert valley(two, two[:, 0] > 0) < 0.01
