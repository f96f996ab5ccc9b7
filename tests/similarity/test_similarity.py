from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.similarity.consecutive import ConsecutiveText, Group
from kvtools.similarity.prefix import consecutive_prefix, nearest_prefix
from kvtools.similarity.shingles import common, distinct_shingles, intersection, shingle_sets
from kvtools.similarity.variable import TokenSample
from kvtools.table import Ragged, offsets_of


def _ragged(rows: list[list[int]]) -> Ragged:
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Ragged(np.array([value for row in rows for value in row], dtype=np.int32), offsets_of(lengths))


def _jaccard(rows: list[list[int]], groups: list[Group]) -> dict[Group, float | None]:
    text = ConsecutiveText()
    text.add(distinct_shingles(_ragged(rows)), groups)
    return {group: run.total.mean for group, run in text.runs.items()}


def test_shingles_are_runs_of_five_each_once() -> None:
    sets = shingle_sets(_ragged([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4], [7] * 9, [2, 3, 4, 5, 6]]))
    assert sets.lengths().tolist() == [2, 0, 1, 1]
    assert sets.row(3)[0] in sets.row(0)


def _fives(row: list[int]) -> set[tuple[int, ...]]:
    return {tuple(row[place : place + 5]) for place in range(len(row) - 4)}


@given(st.lists(st.lists(st.integers(0, 2), max_size=30), min_size=2, max_size=6))
def test_both_kinds_of_sets_count_what_python_counts(rows: list[list[int]]) -> None:
    plain, in_order = shingle_sets(_ragged(rows)), distinct_shingles(_ragged(rows))
    for at, row in enumerate(rows):
        assert in_order.lengths()[at] == len(_fives(row))
        assert sorted(in_order.row(at).tolist()) == plain.row(at).tolist()
    for at, (one, other) in enumerate(zip(rows, rows[1:], strict=False)):
        expected = len(_fives(one) & _fives(other))
        assert common(in_order.row(at), in_order.row(at + 1)) == expected
        assert intersection(plain.row(at), plain.row(at + 1)) == expected


def test_a_shingle_whose_hash_is_0_is_shared_like_any_other() -> None:
    one, other = np.array([7, 0, 3], dtype=np.uint64), np.array([3, 0, 9], dtype=np.uint64)
    assert common(one, other) == 2
    assert common(one[::2].copy(), other) == 1
    assert common(one, other[::2].copy()) == 1


def test_jaccard_of_text_between_consecutive_requests() -> None:
    log = Group(None, 0)
    # 1..8 has 4 shingles; 1..7,9 has 4 of which 3 are shared: 3 / 5. Then the same again: 1. Mean 0.8.
    first, second = [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 9]
    assert _jaccard([first, second, second], [log] * 3)[log] == pytest.approx(0.8)


def test_only_requests_of_one_group_are_compared() -> None:
    a, b = Group(None, 1), Group(None, 2)
    one, other = [1, 2, 3, 4, 5, 6], [9, 9, 9, 9, 9]
    assert _jaccard([one, other, one], [a, b, a]) == {a: pytest.approx(1.0), b: None}


def test_two_prompts_without_shingles_say_nothing() -> None:
    log = Group(None, 0)
    assert _jaccard([[1, 2], [1, 2], [1, 2, 3, 4, 5]], [log] * 3)[log] == 0.0  # only the second pair counts


def test_prefix_jaccard_counts_leading_blocks_only() -> None:
    # Dense ids: requests [0,1,2], [0,1,3,4], [5], [0,1,3,4]; L/(a+b-L).
    ids = np.array([0, 1, 2, 0, 1, 3, 4, 5, 0, 1, 3, 4], dtype=np.int32)
    offsets = np.array([0, 3, 7, 8, 12], dtype=np.int64)
    everyone = consecutive_prefix(ids, offsets, np.zeros(4, dtype=np.int64))
    assert np.isnan(everyone[0])
    assert everyone[1:].tolist() == [2 / 5, 0.0, 0.0]
    apart = consecutive_prefix(ids, offsets, np.array([0, 0, 1, 0], dtype=np.int64))
    assert apart[[1, 3]].tolist() == [2 / 5, 1.0]
    assert np.isnan(apart[2])
    nearest = nearest_prefix(ids, offsets)
    assert np.isnan(nearest[0])
    assert nearest[1:].tolist() == [2 / 5, 0.0, 1.0]
    assert nearest_prefix(ids, offsets, window=1)[3] == 0.0  # only [5] is near enough


def test_nearest_prefix_equals_trying_all() -> None:
    generator = np.random.default_rng(3)
    paths = [generator.integers(0, 3, generator.integers(0, 7)).tolist() for _ in range(300)]
    known: dict[tuple[int, ...], int] = {}
    rows = [[known.setdefault(tuple(p[: k + 1]), len(known)) for k in range(len(p))] for p in paths]
    ragged = _ragged(rows)
    found = nearest_prefix(ragged.values, ragged.offsets, window=40)
    for index, row in enumerate(rows):
        similar = [
            len(set(row) & set(rows[other])) / len(set(row) | set(rows[other]))
            for other in range(max(0, index - 40), index)
            if row or rows[other]  # a pair of two empty sets says nothing
        ]
        if similar:
            assert found[index] == pytest.approx(max(similar))
        else:
            assert np.isnan(found[index])


def test_variable_share_by_hand() -> None:
    # Route 1, three prompts: 1..5 begins all of them (frequent), 1 2 3 4 5 6 begins two of three (frequent too).
    rows = [[1, 2, 3, 4, 5, 6, 70, 71], [1, 2, 3, 4, 5, 6, 80], [1, 2, 3, 4, 5, 90, 91, 92, 93, 94]]
    # Route 2, one prompt: all its shingles occur in all requests of the route; a prompt of 3 tokens has none.
    sample = TokenSample()
    sample.add(_ragged([*rows, [1, 2, 3, 4, 5, 6, 7]]), [1, 1, 1, 2], np.zeros(4, dtype=np.uint64))
    # Covered: 1..6 in the first two (6 each), 1..5 in the third (5). Variable: 2 + 1 + 5 = 8 of 25.
    assert sample.variable_tokens() == {1: (8, 25), 2: (0, 7)}


def test_a_sample_over_its_budget_halves_and_does_not_depend_on_the_parts(monkeypatch) -> None:
    monkeypatch.setattr("kvtools.similarity.variable.BUDGET_TOKENS", 60)
    rows = [[n, 1, 2, 3, 4, 5] for n in range(40)]
    hashes = np.random.default_rng(1).integers(0, 2**63, 40).astype(np.uint64)
    whole = TokenSample()
    whole.add(_ragged(rows), [0] * 40, hashes)
    left, right = TokenSample(), TokenSample()
    left.add(_ragged(rows[:11]), [0] * 11, hashes[:11])
    right.add(_ragged(rows[11:]), [0] * 29, hashes[11:])
    left.merge(right)
    assert whole.level == left.level > 0
    assert whole.held_tokens <= 60
    assert whole.requests == left.requests == int((hashes & np.uint64(2**whole.level - 1) == 0).sum())
    assert whole.variable_tokens() == left.variable_tokens()
