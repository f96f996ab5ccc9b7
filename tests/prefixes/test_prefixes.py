"""The prefix tree against comparing every two prompts."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.cache import Interner
from kvtools.prefixes import PrefixTree, prefix_tree
from kvtools.table import Ragged, offsets_of

Prompts: TypeAlias = list[tuple[int, list[int]]]
"""Each prompt with its namespace."""

Branch: TypeAlias = tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]
"""Namespace, shared prefix, and how many prompts go on with each value (-1: end there)."""

PROMPTS = st.lists(
    st.tuples(st.integers(0, 1), st.lists(st.integers(0, 2), max_size=9)), min_size=0, max_size=24
)


def _ragged(rows: list[list[int]]) -> Ragged:
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Ragged(np.array([value for row in rows for value in row], dtype=np.int32), offsets_of(lengths))


def _tree(prompts: Prompts) -> PrefixTree:
    names = np.array([name for name, _ in prompts], dtype=np.uint64)
    return prefix_tree(_ragged([row for _, row in prompts]), names)


def _shared(one: list[int], other: list[int]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


@settings(deadline=None)
@given(PROMPTS)
def test_sorted_as_python_sorts_with_what_neighbours_share(prompts: Prompts) -> None:
    found = _tree(prompts).prompts
    expected = sorted(range(len(prompts)), key=lambda row: (*prompts[row], row))
    assert found.order.tolist() == expected
    for place, row in enumerate(expected):
        before = prompts[expected[place - 1]] if place else None
        same = before is not None and before[0] == prompts[row][0]
        assert found.lcp[place] == (
            _shared(before[1], prompts[row][1]) if before is not None and same else -1
        )


@settings(deadline=None)
@given(PROMPTS)
def test_nearest_earlier_equals_trying_all(prompts: Prompts) -> None:
    earlier, shared = _tree(prompts).nearest_earlier()
    for row, (name, prompt) in enumerate(prompts):
        tried = [(_shared(prompt, other), at) for at, (its, other) in enumerate(prompts[:row]) if its == name]
        assert (shared[row], earlier[row]) == max(tried, default=(0, -1))


@settings(deadline=None)
@given(PROMPTS)
def test_longest_shared_prefix_equals_trying_all(prompts: Prompts) -> None:
    names = np.array([name for name, _ in prompts], dtype=np.uint64)
    expected = {
        name: max((_shared(a, b) for (n, a), (m, b) in combinations(prompts, 2) if n == m == name), default=0)
        for name in {name for name, _ in prompts}
    }
    assert _tree(prompts).longest_shared_prefix(names) == expected


def _branches(prompts: Prompts) -> set[Branch]:
    """Every prefix behind which the prompts that begin so go on in at least two ways (to end is one)."""
    found = set()
    for name, whole in prompts:
        for depth in range(len(whole) + 1):
            rest = [row[depth:] for its, row in prompts if its == name and row[:depth] == whole[:depth]]
            ways = Counter(row[0] if row else -1 for row in rest)
            if len(ways) > 1:
                found.add((name, tuple(whole[:depth]), tuple(sorted(ways.items()))))
    return found


def _found(prompts: Prompts) -> set[Branch]:
    tree = _tree(prompts)
    points = tree.branch_points()
    found = set()
    for index in range(len(points)):
        first, stop, depth = (int(column[index]) for column in (points.first, points.stop, points.depth))
        parts = list(tree.parts(first, stop, depth))
        assert len(parts) == points.ways[index]
        assert sum(part.stop - part.first for part in parts) == points.prompts[index] == stop - first
        assert points.ended[index] == sum(part.stop - part.first for part in parts if part.value is None)
        name, row = prompts[int(tree.prompts.order[first])][0], prompts[int(tree.prompts.order[stop - 1])][1]
        counts = tuple(
            sorted((-1 if part.value is None else part.value, part.stop - part.first) for part in parts)
        )
        found.add((name, tuple(row[:depth]), counts))
    assert len(found) == len(points)
    return found


@settings(deadline=None)
@given(PROMPTS, st.randoms(use_true_random=False))
def test_branch_points_equal_those_of_all_prefixes_in_any_order(prompts: Prompts, random: Random) -> None:
    expected = _branches(prompts)
    assert _found(prompts) == expected
    random.shuffle(prompts)
    assert _found(prompts) == expected


@settings(deadline=None)
@given(PROMPTS)
def test_children_lie_inside_their_parents_and_deeper(prompts: Prompts) -> None:
    tree = _tree(prompts)
    for node, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            assert parent > node
            assert tree.depth[parent] < tree.depth[node]
            assert tree.first[parent] <= tree.first[node] < tree.stop[node] <= tree.stop[parent]


@settings(deadline=None)
@given(PROMPTS, st.integers(1, 3))
def test_block_ids_of_a_trace_give_the_same_in_blocks(prompts: Prompts, block_size: int) -> None:
    """A trace's ids stand for a block and all before it; dense ids of them are sequences like any other."""
    known: dict[tuple[int, ...], int] = {}
    rows = [
        [
            known.setdefault((name, *prompt[: (block + 1) * block_size]), 2**63 + len(known))
            for block in range(len(prompt) // block_size)
        ]
        for name, prompt in prompts
    ]
    flat = np.array([key for row in rows for key in row], dtype=np.uint64)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    names = np.array([name for name, _ in prompts], dtype=np.uint64)
    tree = prefix_tree(Ragged(Interner().intern(flat), offsets_of(lengths)), names)
    earlier, shared = tree.nearest_earlier()
    for row, (name, mine) in enumerate(prompts):
        tried = [
            (min(_shared(mine, other) // block_size, len(rows[row]), len(rows[at])), at)
            for at, (its, other) in enumerate(prompts[:row])
            if its == name
        ]
        assert (shared[row], earlier[row]) == max(tried, default=(0, -1))


def test_a_hand_made_tree() -> None:
    #      1 2 3       three prompts share 1 2; one of them ends there, the others part at 3 and 4;
    #      1 2         5 stands alone: the root parts two ways.
    #      1 2 4 4
    #      5
    tree = _tree([(0, [1, 2, 3]), (0, [1, 2]), (0, [1, 2, 4, 4]), (0, [5])])
    points = tree.branch_points()
    columns = (points.depth, points.prompts, points.ways, points.ended)
    assert np.stack(columns, axis=1).tolist() == [[2, 3, 3, 1], [0, 4, 2, 0]]
    assert tree.nearest_earlier()[0].tolist() == [-1, 0, 1, 2]
    assert tree.nearest_earlier()[1].tolist() == [0, 2, 2, 0]


def test_no_prompt_and_prompts_of_nothing() -> None:
    empty = _tree([])
    assert empty.nearest_earlier()[0].tolist() == []
    assert len(empty.branch_points()) == 0
    assert empty.longest_shared_prefix() == {}
    twice = _tree([(0, []), (0, [])])
    assert twice.nearest_earlier()[0].tolist() == [-1, 0]
    assert len(twice.branch_points()) == 0


@pytest.mark.parametrize("reverse", [False, True])
def test_a_staircase_is_not_cubic(reverse: bool) -> None:
    """Prompt k shares k values with all longer ones: the worst case for skipping what a stretch shares."""
    size = 2_000
    rows = [[0] * step + [1] + [0] * 5 for step in range(size)]
    tree = _tree([(0, row) for row in (rows[::-1] if reverse else rows)])
    assert sorted(tree.prompts.lcp.tolist()) == [-1, *range(size - 1)]
