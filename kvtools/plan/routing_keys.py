"""Routing keys: how a hash of a prompt's first tokens spreads requests, and how long it has to be to spread any.

A router that sends equal keys to one replica keeps common prefixes together; where the key lies inside the prefix that
everybody shares, everybody goes to one replica.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.jit import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.table import Ragged

LADDER_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
"""Key lengths that are tried where none is asked for."""

_MIX = np.uint64(0xFF51AFD7ED558CCD)  # MurmurHash3's finalizer
_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True)
class KeySpread:
    """Distinct keys of ``key_tokens`` tokens, and the most prompts that one of them stands for."""

    key_tokens: int
    keys: int
    max_load: int


@kernel
def _keys(
    values: NDArray[np.int64], offsets: NDArray[np.int64], lengths: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return a row per prompt: the hash of its first ``lengths[k]`` values for each k, shorter prompts whole."""
    found = np.empty((len(offsets) - 1, len(lengths)), dtype=np.uint64)
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        state = np.uint64(0x9E3779B97F4A7C15)
        rung = 0
        for place in range(start, stop):
            while rung < len(lengths) and place - start == lengths[rung]:
                found[row, rung] = state
                rung += 1
            if rung == len(lengths):
                break
            state = (state ^ np.uint64(values[place])) * _MIX
            state ^= state >> _SHIFT
        found[row, rung:] = state
    return found


@kernel
def _shared(
    values: NDArray[np.int64], offsets: NDArray[np.int64], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many values each prompt shares with ``first`` at its head, -1 where the two are equal."""
    shared = np.zeros(len(offsets) - 1, dtype=np.int64)
    for row in range(len(shared)):
        start, length = offsets[row], offsets[row + 1] - offsets[row]
        while shared[row] < min(length, len(first)) and values[start + shared[row]] == first[shared[row]]:
            shared[row] += 1
        if shared[row] == length == len(first):
            shared[row] = -1
    return shared


@dataclass(slots=True)
class RoutingKeys:
    """Takes prompts chunk by chunk and keeps a few integers of each.

    ``lengths``: key lengths in values, ascending. A value is a token, or a block where only block ids are known.
    """

    lengths: tuple[int, ...]
    _first: NDArray[np.int64] | None = None
    _keys: list[NDArray[np.uint64]] = field(default_factory=list)
    _shared: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, prompts: Ragged) -> None:
        """Take the next prompts."""
        values = prompts.values.astype(np.int64, copy=False)
        if self._first is None and len(prompts):
            self._first = values[prompts.offsets[0] : prompts.offsets[1]].copy()
        first = np.empty(0, dtype=np.int64) if self._first is None else self._first
        self._keys.append(_keys(values, prompts.offsets, np.array(self.lengths, dtype=np.int64)))
        self._shared.append(_shared(values, prompts.offsets, first))

    def keys(self) -> NDArray[np.uint64]:
        """Return a row per prompt with its key of each length; shorter prompts are their own key."""
        return np.concatenate(self._keys)

    def first_difference(self, session: NDArray[np.int64]) -> int | None:
        """Return the values of the shortest key that tells any two sessions apart; ``None`` where none does.

        ``session``: number of each prompt's session. Two prompts share at least the smaller of what each shares with
        the first prompt of the log, and no more where these differ: the smallest of all is that of some two sessions.
        """
        shared = np.concatenate(self._shared)
        different = shared[shared >= 0]
        if not len(different) or (session == session[0]).all():
            return None
        return int(different.min()) + 1


def key_spread(keys: NDArray[np.uint64], key_tokens: int) -> KeySpread:
    """Return how keys of ``key_tokens`` tokens, one per prompt, spread the prompts."""
    loads = np.unique(keys, return_counts=True)[1]
    return KeySpread(key_tokens, len(loads), int(loads.max(initial=0)))
