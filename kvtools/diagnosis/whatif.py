"""Replay the log as it would have been: some requests with other prompts, the same cache, the same order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts, replay_prompts, unlimited_hits
from kvtools.model import share
from kvtools.table import Ragged, concat_ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.model import CacheSpec, ReplayResult


@dataclass(frozen=True, slots=True, eq=False)
class Prompted:
    """Other prompts for some requests: their numbers in the log, tokens of each prompt, and its block keys."""

    numbers: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    keys: Ragged

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def joined(cls, parts: Sequence[Prompted]) -> Prompted:
        """Return the requests of all ``parts``, one after another."""
        empty = np.empty(0, dtype=np.int64)
        return cls(
            np.concatenate([empty, *(part.numbers for part in parts)]),
            np.concatenate([empty, *(part.prompt_tokens for part in parts)]),
            concat_ragged([part.keys for part in parts], np.uint64),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay hit: hit and queried tokens of the requests that are measured."""

    hit_tokens: int
    queried_tokens: int

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were not found in the cache."""
        return self.queried_tokens - self.hit_tokens

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens over queried tokens (0..1)."""
        return share(self.hit_tokens, self.queried_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class WhatIf:
    """A log as it was: one entry per request in log order, and the order in which they are replayed.

    ``samples`` is how many lookups a request is; ``measured`` which places of the replay are counted.
    """

    prompt_tokens: NDArray[np.int64]
    keys: Ragged
    samples: NDArray[np.int64]
    skip_lookup: NDArray[np.bool_]
    order: NDArray[np.int64]
    spec: CacheSpec
    measure_from: float

    def replayed(self, changes: Sequence[Prompted] = ()) -> Outcome:
        """Replay with these prompts in place of the logged ones; a later change wins over an earlier."""
        result = self._result(changes)[1]
        first = int(len(result.hit_tokens) * self.measure_from)
        return Outcome(int(result.hit_tokens[first:].sum()), int(result.queried_tokens[first:].sum()))

    def hits(self) -> NDArray[np.int64]:
        """Return the hit tokens of each request in log order, of all its lookups; 0 for those not replayed."""
        owner, result = self._result(())
        counted = np.bincount(owner, weights=result.hit_tokens, minlength=len(self.keys))
        return counted.astype(np.int64)

    def of(self, numbers: NDArray[np.int64]) -> WhatIf:
        """Return the log with only the requests ``numbers`` replayed, in a cache of the same size."""
        return replace(self, order=self.order[np.isin(self.order, numbers)])

    def _result(self, changes: Sequence[Prompted]) -> tuple[NDArray[np.int64], ReplayResult]:
        """Return whose each lookup is, and what they hit."""
        tokens, pool, at = self.prompt_tokens.copy(), [self.keys], np.arange(len(self.keys))
        base = len(self.keys)
        for change in changes:
            tokens[change.numbers] = change.prompt_tokens
            at[change.numbers] = base + np.arange(len(change))
            pool.append(change.keys)
            base += len(change)
        owner = np.repeat(self.order, self.samples[self.order])
        keys = concat_ragged(pool, np.uint64).take(at[owner])
        prompts = Prompts(
            tokens[owner], Interner().intern(keys.values), keys.offsets, self.skip_lookup[owner]
        )
        return owner, replay_prompts(prompts, self.spec, unlimited_hits(prompts, self.spec))
