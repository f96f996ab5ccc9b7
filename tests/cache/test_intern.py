from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtools.cache import Interner


@given(st.lists(st.lists(st.integers(0, 2**64 - 1))))
def test_ids_are_dense_in_order_of_first_sight_and_equal_for_equal_keys(calls: list[list[int]]) -> None:
    interner = Interner(slots=2)  # so small that it has to grow
    known: dict[int, int] = {}
    for keys in calls:
        expected = [known.setdefault(key, len(known)) for key in keys]
        assert interner.intern(np.array(keys, dtype=np.uint64)).tolist() == expected
    assert len(interner) == len(known)
