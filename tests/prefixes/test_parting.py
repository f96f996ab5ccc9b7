"""Two prompts side by side."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.prefixes.parting import (
    Excerpt,
    common_length,
    excerpts,
    first_difference,
    identical_tokens,
    masked,
)


def _ids(*runs: range) -> np.ndarray:
    return np.array([token for run in runs for token in run], dtype=np.int32)


@given(st.text("ab\U0001f600", max_size=6), st.text("ab\U0001f600", max_size=6))
def test_the_first_difference_of_texts_and_of_arrays(one: str, other: str) -> None:
    at = first_difference(one, other)
    assert one[:at] == other[:at]
    assert at == min(len(one), len(other)) or one[at] != other[at]
    arrays = [np.array([ord(char) for char in text], dtype=np.int64) for text in (one, other)]
    assert common_length(*arrays) == at


def test_runs_of_sixteen_tokens_count_and_shorter_ones_do_not() -> None:
    run = range(100, 116)
    assert identical_tokens(_ids(run), _ids(range(7), run, range(3))) == 16
    assert identical_tokens(_ids(range(100, 115)), _ids(range(100, 115))) == 0


def test_the_longest_run_is_taken_first_and_order_is_kept() -> None:
    # 30 tokens stand before 20 in one and behind them in the other: only the longer run is in order.
    long, short = range(100, 130), range(200, 220)
    assert identical_tokens(_ids(long, short), _ids(short, long)) == 30
    # A value between two runs: both count.
    assert identical_tokens(_ids(long, range(3), short), _ids(long, range(50, 59), short)) == 50


def test_a_prompt_of_one_token_repeated_takes_no_time() -> None:
    padding = np.zeros(20_000, dtype=np.int32)
    assert identical_tokens(padding, padding) == 20_000


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 1), max_size=60).map(lambda row: np.array(row, dtype=np.int32)),
    st.lists(st.integers(0, 1), max_size=60).map(lambda row: np.array(row, dtype=np.int32)),
)
def test_identical_tokens_are_tokens_of_runs_that_both_hold(one: np.ndarray, other: np.ndarray) -> None:
    windows = {tuple(other[at : at + 16].tolist()) for at in range(len(other) - 15)}
    inside: set[int] = set()
    for at in range(len(one) - 15):
        if tuple(one[at : at + 16].tolist()) in windows:
            inside.update(range(at, at + 16))
    found = identical_tokens(one, other)
    assert found <= len(inside)
    assert (found >= 16) == bool(inside)


def test_values_reach_from_the_word_that_differs_to_where_texts_meet_again() -> None:
    one, other = "id: 18392, asked at 08:23 today", "id: 18417, asked at 08:23 today"
    at = first_difference(one, other)
    assert at == 6
    assert excerpts(one, other, at) == (
        Excerpt("id: ", "18392", ", asked at 08:23 today"[:24]),
        Excerpt("id: ", "18417", ", asked at 08:23 today"[:24]),
    )


def test_values_of_different_lengths() -> None:
    one, other = "Hello Ann, how are you?", "Hello Bartholomew, how are you?"
    mine, theirs = excerpts(one, other, first_difference(one, other))
    assert (mine.value, theirs.value) == ("Ann", "Bartholomew")
    assert mine.after == theirs.after == ", how are you?"


def test_one_text_ends_where_the_other_goes_on() -> None:
    mine, theirs = excerpts("same", "same and more", 4)
    assert (mine.value, mine.after) == ("same", "")
    assert theirs.value == "same and more"


def test_texts_that_never_meet_again_are_cut() -> None:
    mine, _ = excerpts("a" + "x1" * 100, "a" + "y2" * 100, 1)
    assert mine.cut
    assert len(mine.value) == 40


def test_a_mask_keeps_punctuation_and_nothing_else() -> None:
    shown = masked(Excerpt("用户[ID:", "Ann-42", "]\n at 08:23 \u00e9e\u0301٣"))
    assert (shown.before, shown.value, shown.after) == ("xx[xx:", "xxx-00", "]\n xx 00:00 xxx0")
