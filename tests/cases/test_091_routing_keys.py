"""Case 091: a routing key inside the prefix that all sessions share sends everybody to one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from shared_case import Case

from kvtools.diagnosis.routing_keys import KeySpread, first_useful_key, key_spread
from kvtools.prefixes import prefix_tree
from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.prefixes import PrefixTree


def tree_of(prompts: list[list[int]]) -> PrefixTree:
    lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    tokens = np.array([token for prompt in prompts for token in prompt], dtype=np.int32)
    return prefix_tree(Ragged(tokens, offsets_of(lengths)))


def test_091_a_key_has_to_reach_behind_the_shared_prefix(shared: Path) -> None:
    case = Case.load(shared / "cases", "091")
    tree = tree_of(case.prompts())
    assert key_spread(tree, 32) == KeySpread(32, case.expected["keys_32"], 4)
    assert key_spread(tree, 80) == KeySpread(80, case.expected["keys_80"], 1)
    assert first_useful_key(tree) == case.expected["first_useful"]
    assert key_spread(tree, 64).keys == 1
    assert key_spread(tree, 65).keys == 4


@pytest.mark.parametrize("length", range(1, 6))
def test_the_spread_of_uneven_prompts(length: int) -> None:
    """Prompts shorter than the key are their own key; equal ones share it. Counted with plain slices."""
    prompts = [[1, 2, 3, 4], [1, 2], [1, 2], [1, 2, 3], [2], [1, 2, 3, 4, 5]]
    keys = [tuple(prompt[:length]) for prompt in prompts]
    most = max(keys.count(key) for key in keys)
    assert key_spread(tree_of(prompts), length) == KeySpread(length, len(set(keys)), most)


def test_equal_prompts_have_no_useful_key() -> None:
    assert first_useful_key(tree_of([[1, 2], [1, 2]])) is None
    assert first_useful_key(tree_of([[1, 2], [1]])) == 2
