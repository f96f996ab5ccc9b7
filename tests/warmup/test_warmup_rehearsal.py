"""Ways to choose, tried at restarts within the log: which is taken, and that nothing of the later part is seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from worked import BLOCK, history

from kvtools.model import CacheSpec
from kvtools.warmup.judge import judge
from kvtools.warmup.rehearsal import FREQUENCY, WAYS, Rehearsal, made_by, rehearse
from kvtools.warmup.replaying import replayed
from kvtools.warmup.sizing import Budget
from kvtools.warmup.tree import tree_of


def _rehearsed(rows: list[list[int]]) -> Rehearsal:
    return Rehearsal((WAYS[0], FREQUENCY), np.array(rows, dtype=np.int64), limited=False)


def test_another_way_is_taken_where_it_saves_more_by_its_standard_error() -> None:
    assert _rehearsed([[16, 32]] * 4).best == FREQUENCY  # 16 more each time: no doubt about it
    # 16 more at one restart of four: the mean of 4 is exactly its standard error.
    assert _rehearsed([[16, 16], [16, 16], [16, 16], [16, 32]]).best == WAYS[0]
    assert _rehearsed([[16, 0]] * 4).best == WAYS[0]
    assert _rehearsed([[16, 16]] * 4).best == WAYS[0]


def test_where_each_way_does_worse_than_nothing_nothing_is_sent() -> None:
    assert _rehearsed([[-16, -32]] * 4).best is None
    assert _rehearsed([[-16, 32]] * 4).best == FREQUENCY


@pytest.mark.parametrize("blocks", [None, 12])
def test_the_later_part_is_not_looked_at(blocks: int | None) -> None:
    chance = np.random.default_rng(4)
    prompts = ["".join("abc"[k] for k in chance.integers(0, 3, 4)) for _ in range(120)]
    spec, budget = CacheSpec(BLOCK, blocks), Budget(4)
    one = rehearse(history(prompts), 80, 40, budget, spec)
    other = rehearse(history(prompts[:80] + ["zzzz"] * 40), 80, 40, budget, spec)
    assert len(one.saved) == (3 if blocks is None else 24)
    assert np.array_equal(one.saved, other.saved)
    assert one.best == other.best


def test_without_a_limit_one_restart_by_hand() -> None:
    # "ab" at every request: whenever the server restarts, the set saves both blocks of the next request, once.
    log = history(["ab"] * 40)
    found = rehearse(log, 40, 40, Budget(1), CacheSpec(BLOCK))
    assert found.ways == (WAYS[0], FREQUENCY)
    assert found.saved.tolist() == [[32, 32]] * 3


def test_a_log_of_a_few_requests_is_not_rehearsed() -> None:
    found = rehearse(history(["ab"] * 10), 10, 5, Budget(1), CacheSpec(BLOCK))
    assert len(found.saved) == 0
    assert found.best == WAYS[0]


def test_the_way_by_frequency_sends_whole_prompts_the_most_frequent_last() -> None:
    log = history(["ab", "cd", "cd", "cd", "ef", "ef"])
    made = made_by(FREQUENCY, tree_of(log, 6), 6, Budget(2), None)
    assert [(one.request, one.depth) for one in made.ordered] == [(5, 2), (3, 2)]


def test_a_request_for_three_answers_looks_up_three_times() -> None:
    # 2 blocks and 1 token: cold, the first lookup misses and two hit; warm, all three hit. Saved is the same as for one.
    log = replace(history(["ab", "ab"]), samples=np.array([1, 3]))
    spec = CacheSpec(BLOCK)
    _, cold = replayed(log, (1, 2), [], spec)
    assert cold.tolist() == [2 * 32]
    judged = judge(log, (1, 2), [], [0], spec)
    assert judged.naive.hits.tolist() == [3 * 32]
    assert judged.queried.tolist() == [3 * 33]
    assert judged.saved(judged.naive) == 32
    # It is one sight of the prompt: three answers do not make it more frequent.
    assert tree_of(log, 2).nodes[:, 0].tolist() == [2, 2]
