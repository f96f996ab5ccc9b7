"""Predicted against observed, request by request, with the reason for a difference where it is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.model import ReplayResult
    from kvtools.table import Ragged

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Difference:
    """One request whose hit tokens differ; ``index`` is its place in the replay, ``reason`` a sentence or empty."""

    index: int
    predicted_hit_tokens: int
    observed_hit_tokens: int
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Hits of the requests that both sides counted, in tokens. ``differences`` lists every one that differs."""

    equal_requests: int
    predicted_hit_tokens: int
    observed_hit_tokens: int
    observed_queried_tokens: int
    differences: tuple[Difference, ...]

    @property
    def different_requests(self) -> int:
        """Requests whose hits differ."""
        return len(self.differences)

    def reasons(self) -> dict[str, int]:
        """Return how many requests differ for each reason, the most frequent first."""
        return dict(Counter(difference.reason for difference in self.differences).most_common())


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """What was observed: hit and prompt tokens per request (``UNKNOWN`` where it was not), and the block size."""

    hit_tokens: NDArray[np.int64]
    queried_tokens: NDArray[np.int64]
    block_size: int


def compare(predicted: ReplayResult, observed: Observed, tokens: Ragged | None = None) -> Comparison:
    """Return where prediction and observation agree. ``tokens``: the prompts' ids, to name reasons by.

    Requests that one side refused, or of which nothing was observed, are left out.
    """
    both = (observed.hit_tokens != UNKNOWN) & ~predicted.refused & (predicted.queried_tokens > 0)
    differing = np.flatnonzero(both & (predicted.hit_tokens != observed.hit_tokens))
    return Comparison(
        equal_requests=int(both.sum()) - len(differing),
        predicted_hit_tokens=int(predicted.hit_tokens[both].sum()),
        observed_hit_tokens=int(observed.hit_tokens[both].sum()),
        observed_queried_tokens=int(_queried(predicted, observed)[both].sum()),
        differences=tuple(
            Difference(
                index=index,
                predicted_hit_tokens=int(predicted.hit_tokens[index]),
                observed_hit_tokens=int(observed.hit_tokens[index]),
                reason=_reason(predicted, observed, tokens, index),
            )
            for index in differing.tolist()
        ),
    )


def _queried(predicted: ReplayResult, observed: Observed) -> NDArray[np.int64]:
    """Return the prompt tokens as observed, as predicted where they were not."""
    return np.where(observed.queried_tokens == UNKNOWN, predicted.queried_tokens, observed.queried_tokens)


def _reason(predicted: ReplayResult, observed: Observed, tokens: Ragged | None, index: int) -> str:
    """Name the first cause that fits; each is a fact about this request, none is a guess."""
    ours, theirs = int(predicted.queried_tokens[index]), int(observed.queried_tokens[index])
    if theirs not in {UNKNOWN, ours}:
        return _prompt_reason(ours, theirs, tokens.row(index)[:2].tolist() if tokens is not None else [])
    return _hit_reason(
        int(predicted.hit_tokens[index]), int(observed.hit_tokens[index]), predicted.spec.block_size
    )


def _prompt_reason(ours: int, theirs: int, begin: list[int]) -> str:
    if len(begin) > 1 and begin[0] == begin[1]:
        return "the prompt begins with its first token twice (double BOS)"
    if theirs == ours + 1:
        return "the engine counts one prompt token more: a second BOS, or another chat template"
    return "the engine counts another number of prompt tokens: another tokenizer or chat template"


def _hit_reason(predicted: int, observed: int, block_size: int) -> str:
    if observed % block_size:
        return f"the engine's hits are no multiple of {block_size} tokens: another block size"
    if observed == 0:
        return "the engine found nothing: cache emptied, evicted, or another engine served it"
    if observed > predicted:
        return "the engine hit more: its cache was warm, larger, or held recorded answers"
    return "the engine hit less: blocks were evicted, or the history was tokenized anew"
