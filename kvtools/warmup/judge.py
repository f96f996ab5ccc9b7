"""A warm-up set judged: the traffic replayed behind it, behind nothing, and behind the naive set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.model import share
from kvtools.warmup.replaying import computed_tokens, naive_set, replayed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.model import CacheSpec
    from kvtools.warmup.replaying import Sent
    from kvtools.warmup.tree import History


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """One replay: hit tokens of each request, how many requests were sent before, and the tokens these computed."""

    hits: NDArray[np.int64]
    queries: int = 0
    spent_tokens: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The same requests after a cold start, after the naive set and after the set; ``queried`` tokens of each."""

    queried: NDArray[np.int64]
    cold: Replayed
    naive: Replayed
    warm: Replayed

    def saved(self, one: Replayed, requests: int | None = None) -> int:
        """Hit tokens more than after a cold start, in the first ``requests`` (all)."""
        return int(one.hits[:requests].sum()) - int(self.cold.hits[:requests].sum())

    def rate(self, one: Replayed, requests: int | None = None) -> float | None:
        """Hit rate (0..1) of the first ``requests`` (all)."""
        return share(int(one.hits[:requests].sum()), int(self.queried[:requests].sum()))


def judge(
    history: History, stretch: tuple[int, int], sent: Sequence[Sent], naive: Sequence[int], spec: CacheSpec
) -> Judged:
    """Replay the requests ``stretch`` behind nothing, the ``naive`` whole prompts, and what is ``sent``."""
    begin, end = stretch

    def behind(those: Sequence[Sent]) -> Replayed:
        own, hits = replayed(history, stretch, those, spec)
        return Replayed(hits, len(those), computed_tokens(those, own))

    queried = np.where(history.skip_lookup[begin:end], 0, history.tokens[begin:end])
    if history.samples is not None:
        queried = queried * history.samples[begin:end]
    return Judged(queried, behind([]), behind(naive_set(history, naive)), behind(sent))


def survivors(sent: Sequence[Sent], depths: Sequence[int], capacity_blocks: int | None) -> list[bool]:
    """Return of each request sent whether its first ``depths`` blocks are all in the cache once all have been sent.

    The cache keeps the ``capacity_blocks`` blocks that were touched last; a request's first block is its latest.
    """
    kept: set[int] = set()
    for one in reversed(sent):
        for block in one.blocks.tolist():
            if capacity_blocks is not None and len(kept) >= capacity_blocks:
                break
            kept.add(block)
    return [kept.issuperset(one.blocks[:depth].tolist()) for one, depth in zip(sent, depths, strict=True)]
