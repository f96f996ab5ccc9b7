"""Money by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kvtools.errors import UsageError
from kvtools.report.cost import Cost, Price, basis_sentence, cost_basis, cost_of, money, price_of
from kvtools.report.traffic import Period

HOUR = 3_600_000_000


def _period(length_us: int) -> Period:
    return Period(first_us=5 * HOUR, last_us=5 * HOUR + length_us, utc_offset_min=0)


def _per_mtok(**given: Any) -> float:
    price = price_of(**given)
    assert price is not None
    return price.per_mtok


def test_a_price_by_tokens_and_one_by_gpu_hours() -> None:
    assert _per_mtok(per_mtok=0.5) == 0.5
    # 3.60 an hour, 1,000 tokens/s: 3.6 M tokens an hour, 1.00 a million. Two GPUs at the same speed: 2.00.
    assert _per_mtok(per_gpu_hour=3.6, prefill_tokens_per_s=1000) == pytest.approx(1.0)
    assert _per_mtok(per_gpu_hour=3.6, prefill_tokens_per_s=1000, gpus=2) == pytest.approx(2.0)
    assert price_of() is None


@pytest.mark.parametrize(
    "given",
    [
        {"per_mtok": 0},
        {"per_mtok": -1},
        {"per_mtok": float("nan")},
        {"per_mtok": float("inf")},
        {"per_mtok": 1, "per_gpu_hour": 2},
        {"per_gpu_hour": 2},
        {"prefill_tokens_per_s": 2},
        {"per_gpu_hour": 2, "prefill_tokens_per_s": 0},
        {"per_gpu_hour": 2, "prefill_tokens_per_s": 5, "gpus": 0},
    ],
)
def test_a_price_that_is_none(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--"):
        price_of(**given)


def test_money_per_day_is_of_the_time_that_the_log_covers() -> None:
    # 2 M tokens in 12 hours at 0.25 a million: 0.50 in half a day, 1.00 a day; 1,000 requests: 500 a million.
    basis = cost_basis(Price(0.25, "x"), 1000, _period(12 * HOUR))
    cost = cost_of(2_000_000, basis)
    assert cost.per_day == pytest.approx(1.0)
    assert cost.per_million_requests == pytest.approx(500.0)
    assert not basis.extrapolated
    assert basis_sentence(basis) == "Money per day: tokens / time covered (12.0 h), at x."


def test_half_an_hour_is_extrapolated_and_says_so() -> None:
    basis = cost_basis(Price(1.0, "x"), 10, _period(HOUR // 2))
    assert cost_of(1_000_000, basis).per_day == pytest.approx(48.0)
    assert basis.extrapolated
    assert "only 30 min" in basis_sentence(basis)
    assert not cost_basis(Price(1.0, "x"), 10, _period(HOUR)).extrapolated


@pytest.mark.parametrize("period, why", [(None, "no clock"), (_period(0), "same moment")])
def test_without_a_clock_money_is_per_million_requests(period: Period | None, why: str) -> None:
    basis = cost_basis(Price(2.0, "x"), 4, period)
    # 1,000 tokens at 2 a million are 0.002; of 4 requests: 500 a million.
    cost = cost_of(1_000, basis)
    assert cost.per_day is None
    assert cost.per_million_requests == pytest.approx(500.0)
    assert why in basis_sentence(basis)


def test_a_fix_that_loses_costs_less_than_nothing() -> None:
    basis = cost_basis(Price(1.0, "x"), 1, _period(24 * HOUR))
    assert cost_of(-1_000_000, basis).per_day == pytest.approx(-1.0)
    assert cost_of(5, cost_basis(Price(1.0, "x"), 0, None)) == Cost(None, None)


def test_amounts_have_the_digits_to_act_on() -> None:
    assert [money(x) for x in (None, 0, 0.0421, 3.1, 1240.4)] == ["n/a", "0.00", "0.042", "3.10", "1,240"]
