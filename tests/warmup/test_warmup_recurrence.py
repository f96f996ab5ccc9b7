"""Probabilities: monotone along the tree, nothing where nothing recurs, near 1 for what always does."""

from __future__ import annotations

import random

import numpy as np
import pytest
from worked import history

from kvtools.warmup.recurrence import probabilities
from kvtools.warmup.tree import PARENT, tree_of


def test_what_never_came_twice_is_worth_nothing() -> None:
    log = history([chr(0x4E00 + n) * 3 for n in range(50)])
    assert probabilities(tree_of(log, 50), 50).max() == 0.0


def test_an_even_stream_recurs_and_a_stray_prompt_does_not() -> None:
    log = history([f"s{chr(0x4E00 + n)}" for n in range(200)])
    likely = probabilities(tree_of(log, 200), 20)
    assert likely[0] > 0.9  # the shared head, in every request
    assert likely[1:].max() < 0.2


def test_the_probability_is_the_share_that_recurs() -> None:
    # 40 heads at random, each request one of them: one of 40 comes within h requests with 1 - (39/40)^h.
    chance = random.Random(5)
    log = history([chr(0x4E00 + chance.randrange(40)) for _ in range(4_000)])
    likely = probabilities(tree_of(log, 4_000), 20)
    assert float(likely.mean()) == pytest.approx(1 - (39 / 40) ** 20, abs=0.05)


def test_recency_counts() -> None:
    # Sessions of 4 turns one after another: what was asked for last goes on, what is over does not come back.
    log = history([f"{chr(0x4E00 + n)}{'t' * turn}" for n in range(100) for turn in range(1, 5)])
    tree = tree_of(log, 399)  # the last session has had 3 of its turns
    likely = probabilities(tree, 4)
    last, first = int(log.blocks(398)[0]), int(log.blocks(0)[0])
    assert likely[last] > 10 * likely[first]


@pytest.mark.parametrize("seed", range(5))
def test_never_more_than_the_parent(seed: int) -> None:
    chance = random.Random(seed)
    log = history(["".join(chance.choices("abc", k=chance.randint(1, 5))) for _ in range(300)])
    tree = tree_of(log, 300)
    likely, parent = probabilities(tree, 30), tree.nodes[:, PARENT]
    inner = parent >= 0
    assert (likely[inner] <= likely[parent[inner]]).all()
    assert ((likely >= 0) & (likely <= 1)).all()
    assert (np.diff([probabilities(tree, h).sum() for h in (1, 5, 20, 100)]) >= 0).all()
