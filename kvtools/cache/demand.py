"""KV demand over time: how many blocks the requests in flight would need, against what there is.

Where demand passes capacity, requests wait or are preempted, and the hit rate there is not about prompts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Overload:
    """A stretch of time, in the log's microseconds, in which more blocks were needed than there are."""

    from_us: int
    until_us: int
    peak_blocks: int


def overloads(
    arrival_us: NDArray[np.int64], end_us: NDArray[np.int64], blocks: NDArray[np.int64], capacity_blocks: int
) -> list[Overload]:
    """Return when the requests in flight needed more than ``capacity_blocks``, in order.

    Request ``i`` needs ``blocks[i]`` from its arrival until its end (excluded); shared blocks are counted for each,
    so this is the demand without any reuse.
    """
    times, at = np.unique(np.concatenate((arrival_us, end_us)), return_inverse=True)
    change = np.bincount(at, weights=np.concatenate((blocks, -blocks)), minlength=len(times))
    demand = np.rint(np.cumsum(change)).astype(np.int64)
    over = np.flatnonzero(np.diff(np.concatenate(([0], demand > capacity_blocks, [0]))))
    return [
        Overload(int(times[start]), int(times[end]), int(demand[start:end].max()))
        for start, end in zip(over[::2].tolist(), over[1::2].tolist(), strict=True)
    ]
