"""Who belongs to a prefix: requests of the log that hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.warmup.choose import Chosen
    from kvtools.warmup.tree import History


@kernel
def _first(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    stop: int,
    group: NDArray[np.int32],
    found: NDArray[np.int64],
) -> None:
    for request in range(stop):
        for place in range(offsets[request], offsets[request + 1]):
            one = group[ids[place]]
            if one < 0:
                continue
            for slot in range(found.shape[1]):
                if found[one, slot] < 0:
                    found[one, slot] = request
                    break


def members_of(history: History, prefixes: Sequence[Chosen], stop: int, limit: int) -> list[list[int]]:
    """Return of each prefix up to ``limit`` requests before ``stop`` that hold it: its own first."""
    ends = [int(history.blocks(one.request, one.depth)[-1]) for one in prefixes]
    group = np.full(history.distinct(stop), -1, dtype=np.int32)
    # Two prefixes may end in one block only if they are one; the last one stands for both.
    group[ends] = np.arange(len(ends))
    found = np.full((len(ends), limit), -1, dtype=np.int64)
    _first(history.ids, history.offsets, stop, group, found)
    return [
        list(dict.fromkeys([one.request, *(request for request in row if request >= 0)]))[:limit]
        for one, row in zip(prefixes, found.tolist(), strict=True)
    ]
