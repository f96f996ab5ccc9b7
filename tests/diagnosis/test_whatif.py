"""Replays with other prompts, against the study of the cache and against a log written anew."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvtools.blocks import block_keys
from kvtools.cache import Interner, Prompts, study_cache, unlimited_hits
from kvtools.diagnosis.whatif import Prompted, WhatIf
from kvtools.model import CacheSpec
from kvtools.table import Ragged, offsets_of

BLOCK = 4


def tokens_of(rows: list[list[int]]) -> Ragged:
    values = np.array([token for row in rows for token in row], dtype=np.int32)
    return Ragged(values, offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))


def prompts_of(seed: int, count: int) -> list[list[int]]:
    """Prompts that share beginnings of a few trees."""
    chosen = random.Random(seed)
    heads = [[chosen.randrange(9) for _ in range(chosen.randrange(4, 24))] for _ in range(5)]
    return [
        chosen.choice(heads)[: chosen.randrange(1, 24)]
        + [chosen.randrange(9) for _ in range(chosen.randrange(9))]
        for _ in range(count)
    ]


def whatif(rows: list[list[int]], capacity: int | None, samples: list[int], measure_from: float) -> WhatIf:
    tokens = tokens_of(rows)
    return WhatIf(
        prompt_tokens=tokens.lengths(),
        keys=block_keys(tokens, [None] * len(rows), BLOCK),
        samples=np.array(samples, dtype=np.int64),
        skip_lookup=np.arange(len(rows)) % 7 == 3,
        order=np.arange(len(rows))[::-1].copy(),
        spec=CacheSpec(BLOCK, capacity),
        measure_from=measure_from,
    )


@pytest.mark.parametrize("capacity", [None, 8, 20, 60])
@pytest.mark.parametrize("seed", range(5))
def test_the_log_as_it_was_is_what_the_study_counts(seed: int, capacity: int | None) -> None:
    rows = prompts_of(seed, 60)
    samples = [1 + (n % 5 == 0) for n in range(60)]
    log = whatif(rows, capacity, samples, 0.25)
    each = [n for n in reversed(range(60)) for _ in range(samples[n])]
    tokens = tokens_of([rows[n] for n in each])
    keys = block_keys(tokens, [None] * len(each), BLOCK)
    prompts = Prompts(
        tokens.lengths(), Interner().intern(keys.values), keys.offsets, np.array([n % 7 == 3 for n in each])
    )
    study = study_cache(prompts, log.spec, 0.25)
    outcome = log.replayed()
    assert outcome.hit_tokens == study.result.total_hit_tokens
    assert outcome.queried_tokens == study.result.total_queried_tokens
    measured = np.arange(len(each)) >= len(each) // 4
    assert (unlimited_hits(prompts, log.spec) * measured).tolist() == study.ceiling.tolist()


@pytest.mark.parametrize("capacity", [None, 20])
def test_a_change_is_the_log_written_anew(capacity: int | None) -> None:
    rows, other = prompts_of(1, 40), prompts_of(2, 40)
    changed = [2, 5, 11, 30]
    log = whatif(rows, capacity, [1] * 40, 0.0)
    tokens = tokens_of([other[n] for n in changed])
    change = Prompted(np.array(changed), tokens.lengths(), block_keys(tokens, [None] * 4, BLOCK))
    anew = whatif([other[n] if n in changed else row for n, row in enumerate(rows)], capacity, [1] * 40, 0.0)
    assert log.replayed([change]) == anew.replayed()
    assert log.replayed([Prompted.joined([])]) == log.replayed()
    # A later change of one request wins.
    back = tokens_of([rows[n] for n in changed])
    undo = Prompted(np.array(changed), back.lengths(), block_keys(back, [None] * 4, BLOCK))
    assert log.replayed([change, undo]) == log.replayed()
