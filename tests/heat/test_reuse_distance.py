"""Reuse distances against blocks counted by hand, and against a list that is moved to front."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvtools.flow.heat_reuse import reuse_distances
from kvtools.model import CacheSpec
from kvtools.profile import RequestColumns
from kvtools.table import Ragged, offsets_of


def columns(prompts: list[list[int]]) -> RequestColumns:
    """Prompts of one block per token, and one token behind them, so that every block may be hit."""
    lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    count = len(prompts)
    numbers, digests = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.uint64)
    keys = np.array([key for prompt in prompts for key in prompt], dtype=np.uint64)
    return RequestColumns(
        arrival_us=np.arange(count, dtype=np.int64),
        prompt_tokens=lengths + 1,
        output_tokens=numbers,
        latency_us=numbers,
        route=digests,
        namespace=digests,
        cached_tokens=numbers,
        observed_tokens=numbers,
        observed_id=[""] * count,
        samples=np.ones(count, dtype=np.int64),
        skip_lookup=np.zeros(count, dtype=np.bool_),
        session=digests,
        keys=Ragged(keys, offsets_of(lengths)),
    )


def test_distances_counted_by_hand() -> None:
    # The third repeats block 1 alone: blocks 3, 4 and itself have been touched since it was used (its 2 as well,
    # which was touched before it, as tails are freed first). The fourth repeats 3 and 4 behind 1: three blocks.
    found = reuse_distances(columns([[1, 2], [3, 4], [1, 5], [3, 4], [9], []]), None, CacheSpec(1))
    assert found.tolist() == [-1, -1, 3, 4, -1, -1]


def test_the_order_of_the_replay_is_undone() -> None:
    log = columns([[1, 5], [1, 2], [3, 4]])
    log = replace(log, arrival_us=np.array([2, 0, 1]))
    assert reuse_distances(log, np.array([1, 2, 0]), CacheSpec(1)).tolist() == [3, -1, -1]


def test_against_a_list_that_is_moved_to_front() -> None:
    chance = np.random.default_rng(2)
    prompts = []
    for _ in range(300):
        tree, keys = 0, []
        for _ in range(int(chance.integers(1, 6))):
            tree = 3 * tree + int(chance.integers(1, 4))
            keys.append(tree)
        prompts.append(keys)
    recent: list[int] = []
    expected = []
    for keys in prompts:
        farthest = -1
        for key in keys:
            if key not in recent:
                break
            farthest = max(farthest, recent.index(key) + 1)
        expected.append(farthest)
        for key in reversed(keys):  # the tail first: the head of a prompt is the last to go
            if key in recent:
                recent.remove(key)
            recent.insert(0, key)
    assert reuse_distances(columns(prompts), None, CacheSpec(1)).tolist() == expected
