"""Misses by cause: what the cache dropped, what stands behind another prefix, and what was never seen before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.similarity.shingles import SHINGLE_TOKENS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.cache import CacheStudy
    from kvtools.model import CacheSpec
    from kvtools.similarity.seen import SeenText


@dataclass(frozen=True, slots=True)
class Misses:
    """Prompt tokens that were queried and not hit: ``evicted + diverged + cold + other``, exactly.

    ``evicted``: an unlimited cache would hit them. ``diverged``: their text was seen before in the namespace, but
    behind another prefix, or in a block that did not get full. ``cold``: first sight. A token counts as seen before if
    the 5-token shingle that begins at it stands in an earlier request; so the split of ``diverged`` and ``cold`` is
    the share of shingles, taken of the tokens that an unlimited cache misses too. It was measured on every
    ``2**sampling_level``-th distinct shingle. ``None``, and all in ``other``, where no text is known (block ids).
    """

    evicted: int
    diverged: int | None
    cold: int | None
    other: int
    sampling_level: int | None

    @property
    def tokens(self) -> int:
        """All missed tokens."""
        return self.evicted + (self.diverged or 0) + (self.cold or 0) + self.other


def split_misses(
    study: CacheStudy,
    prompt_tokens: NDArray[np.int64],
    samples: NDArray[np.int64],
    seen: SeenText | None = None,
    order: NDArray[np.int64] | None = None,
) -> Misses:
    """Return the misses of a replay by cause; they add up to ``queried - hits`` of ``study.result``.

    ``study``, ``prompt_tokens`` and ``samples`` have one entry per request, in replay order; ``order`` says where each
    stands in the log that ``seen`` was folded from (``None``: the same order). Requests that were refused, not measured
    or that skip the lookup miss nothing, but their text counts as seen.
    """
    result = study.result
    ran = result.queried_tokens > 0
    evicted = int((study.ceiling - result.hit_tokens)[ran].sum())
    beyond = np.where(ran, result.queried_tokens - study.ceiling, 0)
    text = np.zeros(len(ran), dtype=np.bool_) if seen is None else seen.has_text(order)
    of_text = int(beyond[text].sum())
    without = int(beyond.sum()) - of_text
    lookups = result.queried_tokens // np.maximum(prompt_tokens, 1)
    full = _full(prompt_tokens, result.spec)
    # The first of several lookups of one prompt is not counted where the measured part begins behind it.
    complete = ran & text & (lookups == samples)
    first_hits = study.ceiling - (lookups - 1) * full
    repeats = np.where(ran & text, lookups - complete, 0)
    starts = int(
        (complete * _starts(prompt_tokens, first_hits) + repeats * _starts(prompt_tokens, full)).sum()
    )
    if seen is None or not starts:
        return Misses(evicted, None, None, of_text + without, None)
    cold_starts = min(seen.cold_starts(order, first_hits, complete), starts)
    cold = (2 * of_text * cold_starts + starts) // (2 * starts)
    return Misses(evicted, of_text - cold, cold, without, seen.level)


def _full(prompt_tokens: NDArray[np.int64], spec: CacheSpec) -> NDArray[np.int64]:
    """Return what a prompt hits that was just computed: full blocks of its first n-1 tokens, by trace rules all."""
    if spec.rules == "trace":
        return prompt_tokens
    full: NDArray[np.int64] = np.maximum(prompt_tokens - 1, 0) // spec.block_size * spec.block_size
    return full


def _starts(prompt_tokens: NDArray[np.int64], hit_tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at how many tokens behind the hits a shingle begins: the last four of a prompt begin none."""
    starts: NDArray[np.int64] = np.maximum(prompt_tokens - (SHINGLE_TOKENS - 1) - hit_tokens, 0)
    return starts
