"""Sort prompts and build their prefix tree: million tokens per CPU second, on three shapes of logs.

The target is 100 for the sort. Tokens are those of the prompts, of which the sort reads what tells them apart.
"""

from __future__ import annotations

import time

import numpy as np

from kvtools.prefixes import prefix_tree, sort_prompts
from kvtools.table import Ragged, offsets_of

GENERATOR = np.random.default_rng(0)


def ids(count: int, distinct: int = 100_000) -> np.ndarray:
    return GENERATOR.integers(0, distinct, count).astype(np.int32)


def templates() -> list[np.ndarray]:
    """20,000 prompts of 40 heads, a field of 50 values, one of 300 passages, and a question."""
    heads, passages = [ids(GENERATOR.integers(300, 2000)) for _ in range(40)], [ids(200) for _ in range(300)]
    return [
        np.concatenate(
            (heads[GENERATOR.integers(40)], ids(3, 50), passages[GENERATOR.integers(300)], ids(100))
        )
        for _ in range(20_000)
    ]


def one_head() -> list[np.ndarray]:
    """8,000 prompts of one head of 4,000 tokens, and 300 tokens of nine kinds."""
    head = ids(4_000)
    return [np.concatenate((head, ids(300, 9))) for _ in range(8_000)]


def turns() -> list[np.ndarray]:
    """Four conversations of 400 turns, each turn 50 tokens longer than the one before."""
    return [whole[: 50 * turn] for whole in (ids(20_000) for _ in range(4)) for turn in range(1, 401)]


def main() -> None:
    for shape in (templates, one_head, turns):
        rows = shape()
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        prompts = Ragged(np.concatenate(rows), offsets_of(lengths))
        few = prompts.take(np.arange(50))
        prefix_tree(few).nearest_earlier()  # compiles
        begun = time.process_time()
        sort_prompts(prompts)
        sort_s = time.process_time() - begun
        tree = prefix_tree(prompts)
        points = tree.branch_points()
        tree.nearest_earlier()
        all_s = time.process_time() - begun - sort_s
        million = float(lengths.sum()) / 1e6
        print(
            f"{shape.__name__:10} {million:5.1f} Mtok  sort {million / sort_s:6.0f} Mtok/CPU s  "
            f"sort, tree, branch points, nearest {million / all_s:6.0f} Mtok/CPU s  {len(points):,} branch points"
        )


if __name__ == "__main__":
    main()
