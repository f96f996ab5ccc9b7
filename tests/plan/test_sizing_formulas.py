"""The article's rules and what stands beside them, for a log of four requests worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.plan.sizing_formulas import NOT_ASKED, Fleet, formulas, in_flight

S = 1_000_000

FLEET = Fleet(
    arrival_us=np.array([0, 1 * S, 2 * S, 3 * S]),
    ends_us=np.array([1 * S, 5 * S, 3 * S, 7 * S]),  # stays of 1, 4, 1 and 4 s
    prompt_tokens=np.array([100, 1600, 300, 3200]),
    hit_tokens=np.array([0, 0, 96, 160]),
    need_blocks=np.array([7, 100, 19, 200]),
    hot=np.array([True, False, True, False]),
    hot_set_blocks=250,
    capacity_blocks=1_000,
)


def test_the_rules_by_hand() -> None:
    found = {one.name: one for one in formulas(FLEET)}
    # 3 gaps in 3 s: 1 request a second. Ends are excluded, so at 0, 1, 2, 3 s there are 1, 1, 2 and 2 in flight.
    seats = found["max_num_seqs"]
    assert (seats.low, seats.high, seats.measured, seats.unit) == (0.8, 0.8, 2.0, "requests")
    assert "1.00/s x 2.50 s = 2.5" in seats.why
    # Hot prompts of 100 and 300 tokens: 200 in the median, of which 0 and 96 hit: 48.
    warmup = found["warmup_tokens"]
    assert (warmup.low, warmup.high, warmup.measured) == (50.0, 100.0, 48.0)
    # 12 % of 1,000 blocks hold no cold request of 200; what hot requests leave (750) holds 3.
    assert (found["cold_slots"].low, found["cold_slots"].measured) == (0.0, 3.0)
    # Hot requests stay 2 s, cold ones 8 s.
    assert (found["hot_to_cold_slots"].low, found["hot_to_cold_slots"].measured) == (2.0, 0.25)
    # The cold one of 100 blocks and the one of 200 are in flight at 3 s.
    assert (found["cold_quota"].high, found["cold_quota"].measured) == (0.15, 0.3)
    headroom = found["hot_headroom"]
    assert (headroom.low, headroom.high, headroom.measured) == (0.3, 0.4, 0.25)


@pytest.mark.parametrize(
    ("missing", "open_rules"),
    [
        ({"hot": None}, {"cold_slots", "hot_to_cold_slots", "cold_quota", "hot_headroom"}),
        (
            {"hot": None, "one_class": NOT_ASKED},
            {"cold_slots", "hot_to_cold_slots", "cold_quota", "hot_headroom"},
        ),
        ({"capacity_blocks": None}, {"cold_slots", "cold_quota", "hot_headroom"}),
        ({"ends_us": None}, {"max_num_seqs", "hot_to_cold_slots", "cold_quota"}),
        ({"arrival_us": None, "ends_us": None}, {"max_num_seqs", "hot_to_cold_slots", "cold_quota"}),
    ],
    ids=["one-class", "not-asked", "no-size", "no-lengths", "no-clock"],
)
def test_what_is_not_known_is_said(missing: dict, open_rules: set[str]) -> None:
    found = formulas(replace(FLEET, **missing))
    assert {one.name for one in found if one.measured is None} == open_rules
    for one in found:
        if one.measured is None:
            assert "not known" in one.why or "one class" in one.why


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=8))
def test_in_flight_counts_those_that_have_come_and_not_gone(drawn: list[tuple[int, int, int]]) -> None:
    rows = sorted(drawn)
    arrival, stay, weight = (np.array(column) for column in zip(*rows, strict=True))
    expected = [
        sum(blocks for came, stays, blocks in rows[: place + 1] if came + stays > now)
        for place, (now, _, _) in enumerate(rows)
    ]
    assert in_flight(arrival, arrival + stay, weight).tolist() == expected


def test_a_request_that_takes_no_time_is_there_as_it_arrives() -> None:
    at = np.array([0, 5])
    assert in_flight(at, at, np.array([2, 3])).tolist() == [2, 3]
