"""The chosen prefixes against the exhaustive optimum, and on trees worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worked import best_value, history

from kvtools.warmup.choose import choose
from kvtools.warmup.tree import DEPTH, PARENT, tree_of

PROMPTS = st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6)


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[str], list[float], int, int]:
    prompts = draw(PROMPTS)
    log = history(prompts)
    parents = tree_of(log, len(log)).nodes[:, PARENT].tolist()
    likely: list[float] = []
    for parent in parents:  # parents come first, and are never less likely
        share = draw(st.integers(0, 8)) / 8
        likely.append(share * (likely[parent] if parent >= 0 else 1.0))
    return prompts, likely, draw(st.integers(1, 3)), draw(st.integers(1, 8))


@given(instances())
@settings(max_examples=150, deadline=None)
def test_with_a_budget_of_queries_the_greedy_set_is_the_optimum(
    instance: tuple[list[str], list[float], int, int],
) -> None:
    prompts, likely, queries, _ = instance
    log = history(prompts)
    tree = tree_of(log, len(log))
    found = choose(tree, np.array(likely), queries, None)
    best = best_value(tree.nodes[:, PARENT].tolist(), likely, queries, None)
    assert found.value == pytest.approx(best)
    assert found.bound == pytest.approx(best)


@given(instances())
@settings(max_examples=150, deadline=None)
def test_with_a_budget_of_blocks_too_the_set_is_within_its_bound(
    instance: tuple[list[str], list[float], int, int],
) -> None:
    prompts, likely, queries, blocks = instance
    log = history(prompts)
    tree = tree_of(log, len(log))
    found = choose(tree, np.array(likely), queries, blocks)
    best = best_value(tree.nodes[:, PARENT].tolist(), likely, queries, blocks)
    assert found.blocks <= blocks
    assert len(found.prefixes) <= queries
    covered = {block for one in found.prefixes for block in log.blocks(one.request, one.depth).tolist()}
    assert len(covered) == found.blocks
    assert found.value == pytest.approx(sum(likely[block] for block in covered))
    assert found.value <= best + 1e-9
    assert best <= found.bound + 1e-6  # no set is worth more than the bound says
    assert found.value >= best / 2 - 1e-9


def test_blocks_alone_take_the_likeliest_blocks() -> None:
    # Any number of queries: the best three blocks are a, ab and x (0.9 + 0.5 + 0.6).
    log = history(["abc", "xyz"])
    found = choose(tree_of(log, 2), np.array([0.9, 0.5, 0.2, 0.6, 0.4, 0.1]), 10, 3)
    assert sorted((one.request, one.depth) for one in found.prefixes) == [(0, 2), (1, 1)]
    assert found.value == pytest.approx(2.0)


def test_a_path_pays_once_for_what_another_covers() -> None:
    # a is shared: behind abc (1.7) the path ad adds only d (0.3), so xy (0.8) comes second.
    log = history(["abc", "ad", "xy"])
    likely = np.array([0.9, 0.5, 0.3, 0.3, 0.5, 0.3])
    found = choose(tree_of(log, 3), likely, 3, None)
    assert [(one.request, one.depth, one.blocks) for one in found.prefixes] == [
        (0, 3, 3),
        (2, 2, 2),
        (1, 2, 1),
    ]
    assert [one.value for one in found.prefixes] == pytest.approx([1.7, 0.8, 0.3])


def test_the_tree_of_three_prompts() -> None:
    tree = tree_of(history(["abc", "ab", "x"]), 3)
    assert tree.nodes[:, PARENT].tolist() == [-1, 0, 1, -1]
    assert tree.nodes[:, DEPTH].tolist() == [1, 2, 3, 1]
    assert tree.nodes[:, 0].tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize(("queries", "blocks"), [(0, None), (3, 0)])
def test_no_budget_is_no_set(queries: int, blocks: int | None) -> None:
    log = history(["ab", "ab"])
    assert choose(tree_of(log, 2), np.array([1.0, 1.0]), queries, blocks).prefixes == ()
