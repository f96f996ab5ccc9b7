from __future__ import annotations

import numpy as np

from kvtools.model import CacheSpec, ReplayResult
from kvtools.replay.compare import UNKNOWN, Observed, compare
from kvtools.table import Ragged, offsets_of


def _predicted(queried: list[int], hits: list[int]) -> ReplayResult:
    refused = np.zeros(len(queried), dtype=np.bool_)
    return ReplayResult("simulator", CacheSpec(16), "cold", np.array(queried), np.array(hits), refused, 0)


def _observed(hits: list[int], queried: list[int]) -> Observed:
    return Observed(np.array(hits), np.array(queried), 16)


def test_equal_and_unobserved_requests() -> None:
    found = compare(_predicted([100, 100, 50], [0, 96, 32]), _observed([0, 96, UNKNOWN], [100, 100, UNKNOWN]))
    assert (found.equal_requests, found.different_requests) == (2, 0)
    assert (found.predicted_hit_tokens, found.observed_hit_tokens, found.observed_queried_tokens) == (
        96,
        96,
        200,
    )


def test_each_reason_is_a_fact_about_the_request() -> None:
    predicted = _predicted([100] * 6, [96, 96, 96, 96, 32, 96])
    observed = _observed([0, 80, 90, 48, 96, 80], [100, 101, 100, 100, 100, 90])
    reasons = [difference.reason for difference in compare(predicted, observed).differences]
    assert reasons == [
        "the engine found nothing: cache emptied, evicted, or another engine served it",
        "the engine counts one prompt token more: a second BOS, or another chat template",
        "the engine's hits are no multiple of 16 tokens: another block size",
        "the engine hit less: blocks were evicted, or the history was tokenized anew",
        "the engine hit more: its cache was warm, larger, or held recorded answers",
        "the engine counts another number of prompt tokens: another tokenizer or chat template",
    ]


def test_a_double_bos_is_seen_in_the_ids() -> None:
    tokens = Ragged(np.array([1, 1, 7], dtype=np.int32), offsets_of(np.array([3])))
    found = compare(_predicted([3], [0]), _observed([2], [2]), tokens)
    assert found.differences[0].reason == "the prompt begins with its first token twice (double BOS)"
    assert found.reasons() == {found.differences[0].reason: 1}
