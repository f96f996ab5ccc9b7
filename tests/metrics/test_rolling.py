"""The rolling cache against the one that sees the whole log at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtools.cache import Interner
from kvtools.cache.lru import lru_hits
from kvtools.monitor.rolling import RollingCache
from kvtools.table import Ragged, offsets_of

REQUESTS = st.lists(
    st.lists(st.integers(0, 30), unique=True, max_size=6).flatmap(
        lambda blocks: st.tuples(st.just(blocks), st.integers(0, len(blocks)))
    ),
    min_size=1,
    max_size=40,
)


@given(requests=REQUESTS, capacity=st.integers(6, 12), parts=st.integers(1, 5))
def test_any_parts_of_a_log_hit_what_the_whole_does(
    requests: list[tuple[list[int], int]], capacity: int, parts: int
) -> None:
    lengths = np.array([len(blocks) for blocks, _ in requests], dtype=np.int64)
    numbers = np.array([block for blocks, _ in requests for block in blocks], dtype=np.uint64)
    keys = Ragged(numbers * np.uint64(0x1F3D_5B79_9BD5_F311) + np.uint64(1), offsets_of(lengths))
    lookups = np.array([lookup for _, lookup in requests], dtype=np.int64)
    expected, evictions = lru_hits(Interner().intern(keys.values), keys.offsets, lookups, capacity)
    cache = RollingCache(capacity)
    got = [
        cache.hits(keys.take(rows), lookups[rows]).tolist()
        for rows in np.array_split(np.arange(len(requests)), parts)
    ]
    assert [hit for part in got for hit in part] == expected.tolist()
    assert cache.evictions == evictions
    assert cache.resident == min(len(set(numbers.tolist())), capacity)


def test_keys_that_share_a_place_in_the_table_stay_apart() -> None:
    # All keys that differ only in their low bits by the inverse of the spread fall on one place.
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    keys = np.array([number * inverse % (1 << 64) for number in range(8)], dtype=np.uint64)
    cache = RollingCache(4)
    for number in range(8):
        one = Ragged(keys[number : number + 1], np.array([0, 1], dtype=np.int64))
        assert cache.hits(one, np.array([1])).tolist() == [0]
    last = [Ragged(keys[number : number + 1], np.array([0, 1], dtype=np.int64)) for number in (7, 6, 5, 4)]
    assert [int(cache.hits(one, np.array([1]))[0]) for one in last] == [1, 1, 1, 1]
    assert cache.evictions == 4
