from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from kvtools.readers.times import BadTime, arrival_us, arrivals_us, duration_us

# 2026-07-15T00:00:00Z: 20,649 days after the epoch (56 years of 365 days, 14 leap days, 195 days into 2026).
MIDNIGHT_S = (56 * 365 + 14 + 195) * 86_400
MIDNIGHT_US = MIDNIGHT_S * 1_000_000


def test_the_day_that_the_cases_below_count_from() -> None:
    assert MIDNIGHT_S == 1_784_073_600


@pytest.mark.parametrize(
    ("value", "after_midnight_us"),
    [
        ("2026-07-15T00:00:00Z", 0),
        ("2026-07-15T00:00:01", 1_000_000),  # no zone: UTC
        ("2026-07-15 00:00:01.5", 1_500_000),
        ("2026-07-15T08:00:00+08:00", 0),
        ("2026-07-15T08:00:00.000001+08:00", 1),
        ("2026-07-14T19:00:00-0500", 0),
        ("2026-07-15", 0),
        ("2026-07-15T00:00:00.123456789Z", 123_456),  # below the microsecond is cut
        ("20260715", 0),
        ("20260715000002", 2_000_000),
        ("  2026-07-15T00:00:00Z  ", 0),
        ("Wed, 15 Jul 2026 00:00:03 GMT", 3_000_000),
        ("Wed, 15 Jul 2026 02:00:00 +0200", 0),
        ("15 Jul 2026 00:00:00 -0000", 0),
    ],
)
def test_written_times(value: str, after_midnight_us: int) -> None:
    assert arrival_us(value) == MIDNIGHT_US + after_midnight_us


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    ("number", "microseconds"),
    [
        (0, 0),
        (1_784_073_600, MIDNIGHT_US),
        (1_784_073_600.25, MIDNIGHT_US + 250_000),
        (1_784_073_600_001, MIDNIGHT_US + 1_000),
        (1_784_073_600_000_001, MIDNIGHT_US + 1),
        (1_784_073_600_000_001_000, MIDNIGHT_US + 1),
        # The largest number of each unit and the smallest of the next.
        (99_999_999_999, 99_999_999_999_000_000),
        (100_000_000_000, 100_000_000_000_000),
        (99_999_999_999_999, 99_999_999_999_999_000),
        (100_000_000_000_000, 100_000_000_000_000),
        (99_999_999_999_999_999, 99_999_999_999_999_999),
        (100_000_000_000_000_000, 100_000_000_000_000),
        (-1, -1_000_000),
        # ISO's compact form would be 23:45 on a day of the year 1712.
        (1_712_011_512_345, 1_712_011_512_345_000),
    ],
)
def test_epoch_numbers_say_their_unit_by_their_size(number: float, microseconds: int, as_text: bool) -> None:
    assert arrival_us(str(number) if as_text else number) == microseconds


def test_an_exponent_is_no_date() -> None:
    assert arrival_us("1.5e-3") == 1_500  # its hyphen stands where a date has one


@pytest.mark.parametrize("value", [None, ""])
def test_no_time_is_no_time(value: Any) -> None:
    assert arrival_us(value) is None


@pytest.mark.parametrize(
    "value",
    [
        True, False, float("nan"), float("inf"), -float("inf"), 1e300, 9_300_000_000_000_000_000, 10**400,
        "soon", "nan", "inf", "2026-13-01T00:00:00Z", "2026-07-15T25:00:00Z", "12:30", "9" * 5000, "²", "--5",
        "Wed, 99 Jul 2026 99:99:99 GMT", [], {}, [1_784_073_600], "\x00",
    ],
)  # fmt: skip
def test_what_is_no_time_is_told(value: Any) -> None:
    with pytest.raises(BadTime) as told:
        arrival_us(value)
    assert len(str(told.value)) < 80


def test_no_text_raises_anything_else() -> None:
    chance = random.Random(1)
    for _ in range(5_000):
        text = "".join(chance.choices("0123456789-:TZ+. ,/JanMon", k=chance.randint(1, 24)))
        with suppress(BadTime):
            assert isinstance(arrival_us(text), int | None)


@pytest.mark.parametrize(
    ("value", "unit_us", "expected"),
    [
        (1.5, 1_000, 1_500),
        (0, 1, 0),
        (2, 1_000_000, 2_000_000),
        (-1, 1_000, None),
        (True, 1_000, None),
        ("12", 1_000, None),
        (float("nan"), 1, None),
        (float("inf"), 1, None),
        (1e300, 1, None),
        (10**30, 1, None),
    ],
)
def test_durations(value: Any, unit_us: int, expected: int | None) -> None:
    assert duration_us(value, unit_us) == expected


@pytest.mark.parametrize(
    "values",
    [
        [1.5, MIDNIGHT_S + 0.123456, -0.25, 0.0000005, 0.0000015],  # halves go to the even neighbour
        [1.0, 99_999_999_999.5, 100_000_000_000.5, 1.5e14, 1.5e17],
        [1.5, 3, None, "2026-07-15"],
        [MIDNIGHT_S, 7],
        [],
    ],
)
def test_times_together_are_the_times_one_by_one(values: list[Any]) -> None:
    assert arrivals_us(values) == [arrival_us(value) for value in values]


def test_one_bad_time_among_many() -> None:
    with pytest.raises(BadTime):
        arrivals_us([1.5, float("nan")])
