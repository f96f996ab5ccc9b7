from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtools.blocks import block_keys, given_keys
from kvtools.table import Ragged, offsets_of


def _ragged(rows: list[list[int]], dtype=np.int32) -> Ragged:
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    return Ragged(np.array([value for row in rows for value in row], dtype=dtype), offsets_of(lengths))


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "b"]), st.lists(st.integers(0, 2), max_size=13)), max_size=8
    ),
    st.integers(1, 4),
    st.booleans(),
)
def test_equal_keys_mean_equal_prefix_and_namespace(prompts, block_size: int, partial: bool) -> None:
    keys = block_keys(_ragged([p for _, p in prompts]), [n for n, _ in prompts], block_size, partial=partial)
    meaning: dict[int, tuple] = {}
    prefixes = set()
    for index, (namespace, prompt) in enumerate(prompts):
        full = len(prompt) // block_size + (partial and len(prompt) % block_size > 0)
        assert len(keys.row(index)) == full
        for block, key in enumerate(keys.row(index).tolist()):
            prefix = (namespace, tuple(prompt[: (block + 1) * block_size]))
            prefixes.add(prefix)
            assert meaning.setdefault(key, prefix) == prefix
    assert len(meaning) == len(prefixes)


def test_a_chain_does_not_depend_on_its_neighbours() -> None:
    alone = block_keys(_ragged([[1, 2, 3, 4]]), [None], 2)
    among = block_keys(_ragged([[9], [1, 2, 3, 4], [5, 5]]), ["x", None, None], 2)
    assert alone.row(0).tolist() == among.row(1).tolist()


def test_given_ids_share_only_inside_a_namespace() -> None:
    keys = given_keys(_ragged([[0, 1], [0, 2], [0, 1]], np.uint64), [None, None, "model=b"])
    rows = [keys.row(index).tolist() for index in range(3)]
    assert rows[0][0] == rows[1][0]
    assert rows[0][1] != rows[1][1]
    assert not set(rows[0]) & set(rows[2])
