"""Misses by cause: worked out by hand, and they add up whatever the log."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.blocks import block_keys
from kvtools.cache import CacheStudy, Interner, Prompts, study_cache
from kvtools.diagnosis.misses import Misses, split_misses
from kvtools.model import CacheSpec
from kvtools.similarity.seen import SeenText
from kvtools.table import Ragged, offsets_of


class Log:
    """Prompts as token ids, replayed in their order with block 4."""

    def __init__(
        self, rows: list[list[int]], samples: list[int] | None = None, skip: set[int] | None = None
    ) -> None:
        self.lengths = np.array([len(row) for row in rows], dtype=np.int64)
        self.samples = np.array(samples or [1] * len(rows), dtype=np.int64)
        self.skips = np.array([index in (skip or set()) for index in range(len(rows))], dtype=np.bool_)
        self.tokens = Ragged(
            np.array([t for row in rows for t in row], dtype=np.int32), offsets_of(self.lengths)
        )

    def seen(self, rows: int | None = None) -> SeenText:
        """Fold the log; all but the first ``rows`` requests as if only block ids were known."""
        count = len(self.lengths) if rows is None else rows
        seen, zeros = SeenText(), np.zeros(len(self.lengths), dtype=np.int64)
        tokens = self.tokens.take(np.arange(count))
        seen.add(tokens, zeros[:count].astype(np.uint64), zeros[:count])
        seen.add_without_text(zeros[count:])
        return seen

    def study(self, blocks: int | None = None, measure_from: float = 0.0) -> CacheStudy:
        keys = block_keys(self.tokens, [None] * len(self.lengths), 4)
        owner = np.repeat(np.arange(len(self.lengths)), self.samples)
        lookups = Ragged(Interner().intern(keys.values), keys.offsets).take(owner)
        prompts = Prompts(self.lengths[owner], lookups.values, lookups.offsets, self.skips[owner])
        return study_cache(prompts, CacheSpec(4, blocks), measure_from).per_request(owner, len(self.lengths))

    def misses(self, blocks: int | None = None, measure_from: float = 0.0) -> Misses:
        return split_misses(self.study(blocks, measure_from), self.lengths, self.samples, self.seen())


TEXT = list(range(100, 120))


def test_the_same_text_behind_another_prefix() -> None:
    # 20 tokens, then 1 and the same 20: of 21 - 4 = 17 shingles one is new. All 41 tokens are missed, 33 begin one.
    misses = Log([TEXT, [1, *TEXT]]).misses()
    assert misses.evicted == 0
    assert misses.cold == round(41 * 17 / 33) == 21
    assert misses.diverged == 20
    assert misses.sampling_level == 0
    assert misses.tokens == 41


def test_what_was_evicted_is_neither_new_nor_behind_another_prefix() -> None:
    # A, B, A of 20 tokens in 6 blocks: B takes the free one and A's four deepest, so that the second A hits 4 tokens;
    # without a limit 16.
    log = Log([TEXT, list(range(20)), TEXT])
    assert log.misses().evicted == 0
    misses = log.misses(blocks=6)
    assert misses.evicted == 12
    # The last A's 4 other tokens begin no shingle; 16 + 16 of A and B do, all new: all 44 tokens go with them.
    assert (misses.cold, misses.diverged, misses.tokens) == (44, 0, 56)


def test_further_answers_to_one_prompt_are_no_first_sight() -> None:
    # Three lookups of 20 tokens: 0 + 16 + 16 hit; 28 missed. Of 16 shingles all are new, the last 4 tokens begin none.
    misses = Log([TEXT], samples=[3]).misses()
    assert (misses.cold, misses.diverged, misses.tokens) == (28, 0, 28)


def test_a_request_that_skips_the_lookup_misses_nothing_but_is_seen() -> None:
    misses = Log([TEXT, [1, *TEXT]], skip={0}).misses()
    assert misses.tokens == 21
    assert misses.cold == round(21 * 1 / 17) == 1


def test_requests_that_are_not_measured_count_as_seen() -> None:
    misses = Log([TEXT, [1, *TEXT]]).misses(measure_from=0.5)
    assert (misses.tokens, misses.cold) == (21, 1)


def test_block_ids_tell_evicted_from_the_rest_and_no_more() -> None:
    log = Log([TEXT, list(range(20)), TEXT])
    assert split_misses(log.study(6), log.lengths, log.samples) == Misses(12, None, None, 44, None)
    assert split_misses(log.study(6), log.lengths, log.samples, log.seen(0)) == Misses(
        12, None, None, 44, None
    )
    # Of the first request alone the text is known: its 20 tokens are new.
    assert split_misses(log.study(6), log.lengths, log.samples, log.seen(1)) == Misses(12, 0, 20, 24, 0)


def test_prompts_too_short_for_a_shingle_are_not_split() -> None:
    assert Log([[1, 2, 3], [1, 2, 3]]).misses() == Misses(0, None, None, 6, None)


def test_the_order_of_the_replay_decides_who_was_first() -> None:
    log = Log([[1, *TEXT], TEXT])  # in replay order; the log has them the other way round, by arrival 2 and 1
    seen = SeenText()
    seen.add(log.tokens.take(np.array([1, 0])), np.zeros(2, dtype=np.uint64), np.array([2, 1]))
    misses = split_misses(log.study(), log.lengths, log.samples, seen, np.array([1, 0]))
    # The longer one comes first and is all new (17 shingles), the other one has nothing new: 41 * 17 / 33.
    assert (misses.cold, misses.diverged) == (21, 20)


_LOGS = st.lists(st.lists(st.integers(0, 2), max_size=16), min_size=1, max_size=10)


@settings(max_examples=80, deadline=None)
@given(_LOGS, st.sampled_from([None, 2, 4, 8]), st.sampled_from([0.0, 0.4]), st.data())
def test_they_add_up_and_agree_with_trying_all(
    rows: list[list[int]], blocks: int | None, measure_from: float, data: st.DataObject
) -> None:
    samples = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    log = Log(rows, samples, skip={index for index in range(len(rows)) if data.draw(st.booleans())})
    study = log.study(blocks, measure_from)
    misses = split_misses(study, log.lengths, log.samples, log.seen())
    assert misses.tokens == study.result.total_queried_tokens - study.result.total_hit_tokens
    assert min(misses.evicted, misses.other, misses.cold or 0, misses.diverged or 0) >= 0
    cold, starts = _naive(log, rows, study, measure_from)
    if starts:
        beyond = misses.tokens - misses.evicted
        assert misses.cold == (2 * beyond * cold + starts) // (2 * starts)
    else:
        assert misses.cold is None


def _naive(log: Log, rows: list[list[int]], study: CacheStudy, measure_from: float) -> tuple[int, int]:
    """Look up by look up: shingles behind the hits that no earlier request has, and all behind the hits."""
    known: set[tuple[int, ...]] = set()
    prefixes: set[tuple[int, ...]] = set()
    cold = starts = number = 0
    first = int(log.samples.sum() * measure_from)
    for row, (prompt, samples) in enumerate(zip(rows, log.samples.tolist(), strict=True)):
        shingles = [tuple(prompt[at : at + 5]) for at in range(len(prompt) - 4)]
        for sample in range(samples):
            hit = 0
            while hit + 4 < len(prompt) and tuple(prompt[: hit + 4]) in prefixes:
                hit += 4
            prefixes |= {tuple(prompt[:end]) for end in range(4, len(prompt) + 1, 4)}
            if number >= first and not log.skips[row] and not study.result.refused[row]:
                starts += len(shingles[hit:])
                cold += 0 if sample else sum(shingle not in known for shingle in shingles[hit:])
            number += 1
        known |= set(shingles)
    return cold, starts


def test_a_cache_in_which_nothing_runs_misses_nothing() -> None:
    misses = Log([TEXT, TEXT]).misses(blocks=2)
    assert misses.tokens == 0
    assert misses.cold is None
    assert misses.evicted == 0
