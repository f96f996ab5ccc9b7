"""Small histories made by hand, and a set's best value by trying all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from kvtools.cache import Interner
from kvtools.table import offsets_of
from kvtools.warmup.tree import History

BLOCK = 16


def history(prompts: list[str], tail_tokens: int = 1) -> History:
    """Each letter is a block behind the letters before it; ``tail_tokens`` tokens follow the last one."""
    names: dict[str, int] = {}
    keys = [
        [names.setdefault(prompt[: end + 1], len(names)) for end in range(len(prompt))] for prompt in prompts
    ]
    lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    tokens = lengths * BLOCK + tail_tokens
    whole = np.array([abs(hash_of(prompt)) for prompt in prompts], dtype=np.uint64)
    ids = Interner().intern(np.array([key for row in keys for key in row], dtype=np.uint64))
    lookups = np.minimum(lengths, (tokens - 1) // BLOCK)
    return History(ids, offsets_of(lengths), lookups, tokens, whole, np.zeros(len(prompts), dtype=np.bool_))


def hash_of(prompt: str) -> int:
    value = 7
    for letter in prompt:
        value = value * 131 + ord(letter)
    return value % (1 << 60)


def best_value(parent: list[int], likely: list[float], queries: int, blocks: int | None) -> float:
    """The largest sum of ``likely`` over the union of at most ``queries`` root paths with at most ``blocks`` nodes."""
    paths = []
    for node in range(len(parent)):
        path, at = set(), node
        while at >= 0:
            path.add(at)
            at = parent[at]
        paths.append(path)
    best = 0.0
    for count in range(1, min(queries, len(paths)) + 1):
        for chosen in combinations(paths, count):
            union = set().union(*chosen)
            if blocks is None or len(union) <= blocks:
                best = max(best, sum(likely[node] for node in union))
    return best
