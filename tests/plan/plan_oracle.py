"""Small logs for the laws of planning, and what is right said as plainly as can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from kvtools.cache import Interner, Prompts
from kvtools.table import offsets_of

BLOCK = 4

Path = tuple[int, ...]
Request = tuple[Path, int]
"""What each block of a prompt holds, in full blocks, and the tokens behind the last of them."""

requests = st.lists(
    st.tuples(st.lists(st.integers(0, 2), max_size=4).map(tuple), st.integers(0, BLOCK - 1)).filter(
        lambda one: bool(one[0]) or one[1] > 0
    ),
    min_size=1,
    max_size=14,
)


def prompts_of(log: Sequence[Request]) -> Prompts:
    """The log as vLLM sees it: the keys of full blocks, chained."""
    known: dict[Path, int] = {}
    keys = [
        known.setdefault(path[:depth], len(known)) for path, _ in log for depth in range(1, len(path) + 1)
    ]
    lengths = np.array([len(path) for path, _ in log], dtype=np.int64)
    tokens = np.array([len(path) * BLOCK + rest for path, rest in log], dtype=np.int64)
    ids = Interner().intern(np.array(keys, dtype=np.uint64))
    return Prompts(tokens, ids, offsets_of(lengths), np.zeros(len(log), dtype=np.bool_))


def best_hit_blocks(log: Sequence[Request], capacity: int, *, resident: bool) -> int:
    """The most blocks that any order of eviction hits, by trying all of them.

    ``resident``: the running prompt has to be in the cache whole (vLLM), and its last token is not looked up; else
    blocks may pass without being kept, and all are looked up.
    """
    states: dict[frozenset[Path], int] = {frozenset(): 0}
    for path, rest in log:
        own = [path[:depth] for depth in range(1, len(path) + 1)]
        need = len(path) + (rest > 0) if resident else 0
        lookups = (len(path) * BLOCK + rest - 1) // BLOCK if resident else len(path)
        if need > capacity:
            continue
        following: dict[frozenset[Path], int] = {}
        for state, hits in states.items():
            found = 0
            while found < lookups and own[found] in state:
                found += 1
            others = state - set(own)
            for count in range(min(len(others), capacity - need) + 1):
                for kept in combinations(sorted(others), count):
                    pool = sorted({*kept, *own})
                    size = min(len(pool), capacity)
                    for left in combinations(pool, size):
                        after = frozenset(left)
                        following[after] = max(following.get(after, 0), hits + found)
        states = following
    return max(states.values())
