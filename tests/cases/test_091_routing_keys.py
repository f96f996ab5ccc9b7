"""Case 091: a routing key inside the prefix that all sessions share sends everybody to one rank."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_case import Case

from kvtools.plan.routing_keys import KeySpread, RoutingKeys, key_spread
from kvtools.table import Ragged, offsets_of


def keys_of(prompts: list[list[int]], *lengths: int, at_once: int = 2) -> RoutingKeys:
    """Give the prompts in chunks, as a log is read."""
    keys = RoutingKeys(lengths)
    for start in range(0, len(prompts), at_once):
        part = prompts[start : start + at_once]
        sizes = np.array([len(prompt) for prompt in part], dtype=np.int64)
        keys.add(Ragged(np.array([t for prompt in part for t in prompt], dtype=np.int32), offsets_of(sizes)))
    return keys


def apart(prompts: list[list[int]]) -> int | None:
    """The first useful key where each prompt is a session of its own."""
    return keys_of(prompts, 1).first_difference(np.arange(len(prompts)))


def test_091_a_key_has_to_reach_behind_the_shared_prefix(shared: Path) -> None:
    case = Case.load(shared / "cases", "091")
    keys = keys_of(case.prompts(), 32, 64, 65, 80)
    at_32, at_64, at_65, at_80 = (
        key_spread(column, length) for column, length in zip(keys.keys().T, keys.lengths, strict=True)
    )
    assert at_32 == KeySpread(32, case.expected["keys_32"], 4)
    assert at_80 == KeySpread(80, case.expected["keys_80"], 1)
    assert (at_64.keys, at_65.keys) == (1, 4)
    assert apart(case.prompts()) == case.expected["first_useful"]


@pytest.mark.parametrize("length", range(1, 6))
@pytest.mark.parametrize("at_once", [1, 6])
def test_the_spread_of_uneven_prompts(length: int, at_once: int) -> None:
    """Prompts shorter than the key are their own key; equal ones share it. Counted with plain slices."""
    prompts = [[1, 2, 3, 4], [1, 2], [1, 2], [1, 2, 3], [2], [1, 2, 3, 4, 5]]
    keys = [tuple(prompt[:length]) for prompt in prompts]
    most = max(keys.count(key) for key in keys)
    found = key_spread(keys_of(prompts, length, at_once=at_once).keys()[:, 0], length)
    assert found == KeySpread(length, len(set(keys)), most)


def test_equal_prompts_have_no_useful_key() -> None:
    assert apart([[1, 2], [1, 2]]) is None
    assert apart([[1, 2], [1]]) == 2
    assert apart([[1, 2, 3], [1, 2, 4], [1, 5]]) == 2


prompts = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=1, max_size=6)


@given(prompts, st.data())
def test_the_first_difference_is_that_of_all_pairs(prompts: list[list[int]], data: st.DataObject) -> None:
    """Where the first two prompts of different sessions part, looked for in every pair."""
    session = data.draw(st.lists(st.integers(0, 2), min_size=len(prompts), max_size=len(prompts)))
    parted = []
    for (one, here), (other, there) in combinations(zip(prompts, session, strict=True), 2):
        if here != there and one != other:
            shared = 0
            while one[shared : shared + 1] == other[shared : shared + 1]:
                shared += 1
            parted.append(shared + 1)
    found = keys_of(prompts, 1).first_difference(np.array(session))
    assert found == min(parted, default=None)
