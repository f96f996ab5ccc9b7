"""Which zero it is, one kind after another, and which comes first; flushes that a server shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.cache import Prompts
from kvtools.cache.study import replay_prompts, unlimited_hits
from kvtools.diagnosis.flushes import UNKNOWN, Flush, find_flushes
from kvtools.diagnosis.misses import Misses
from kvtools.diagnosis.verdict import (
    Bound,
    Figures,
    Namespaces,
    ServerSaid,
    hybrid_bound,
    verdict,
)
from kvtools.model import CacheSpec
from kvtools.report.verdict import bound_sentence, miss_figures, verdict_figures
from kvtools.report.verdict_text import misses_line, verdict_lines

# 1,000 requests of 1,000 tokens; 60 % hit, and 62 % would without a limit.
GOOD = Figures(
    requests=1_000,
    prompt_tokens=1_000_000,
    queried_tokens=1_000_000,
    hit_tokens=600_000,
    ceiling_queried_tokens=1_000_000,
    ceiling_tokens=620_000,
    match_unit=16,
    capacity_blocks=2_000,
    needed_blocks=1_500,
    shared_prefix_tokens=700,
    diverged_tokens=100_000,
    cold_tokens=280_000,
)
NOTHING = replace(
    GOOD, hit_tokens=0, ceiling_tokens=0, shared_prefix_tokens=0, diverged_tokens=0, cold_tokens=1_000_000
)
ZERO = ServerSaid(
    requests=900, with_usage=1_000, hit_tokens=0, queried_tokens=900_000, predicted_tokens=540_000
)
SILENT = ServerSaid(requests=0, with_usage=1_000, hit_tokens=0, queried_tokens=0, predicted_tokens=0)

KINDS = [
    (GOOD, "healthy"),
    (NOTHING, "no_shared_prefix"),
    (replace(NOTHING, shared_prefix_tokens=3), "no_shared_prefix"),  # a template's first tokens
    (replace(NOTHING, shared_prefix_tokens=None, diverged_tokens=None, cold_tokens=None), "no_shared_prefix"),
    (replace(NOTHING, match_unit=784, shared_prefix_tokens=240), "below_block_floor"),
    (replace(NOTHING, match_unit=784, shared_prefix_tokens=784), "below_block_floor"),
    (replace(NOTHING, shared_prefix_tokens=10, diverged_tokens=700_000, cold_tokens=300_000), "diverged"),
    (replace(GOOD, hit_tokens=100_000, ceiling_tokens=100_000, diverged_tokens=600_000), "diverged"),
    (
        replace(
            GOOD, hit_tokens=100_000, ceiling_tokens=100_000, cold_tokens=850_000, diverged_tokens=50_000
        ),
        "cold_log",
    ),
    (replace(NOTHING, requests=1, prompt_tokens=1_000, queried_tokens=1_000, cold_tokens=1_000), "cold_log"),
    (replace(GOOD, server=ZERO), "engine_side"),
    (replace(GOOD, server=SILENT), "metric_off"),
    (replace(GOOD, hit_tokens=0), "cache_too_small"),
    (replace(GOOD, hit_tokens=300_000), "cache_too_small"),
    (
        replace(GOOD, hit_tokens=9_999, ceiling_tokens=30_000, diverged_tokens=None, cold_tokens=None),
        "cache_too_small",
    ),
    (replace(GOOD, queried_tokens=0, hit_tokens=0, refused_requests=1_000), "cache_too_small"),
    (replace(GOOD, flushes=1, flushed_tokens=10_000), "flushed"),
    (replace(GOOD, skipping_requests=250, skipping_tokens=250_000), "lookup_skipped"),
    (
        replace(GOOD, queried_tokens=0, hit_tokens=0, skipping_requests=1_000, skipping_tokens=1_000_000),
        "lookup_skipped",
    ),
    (replace(GOOD, namespaces=Namespaces(600, 500)), "namespaces_too_fine"),
]


@pytest.mark.parametrize("figures, kind", KINDS, ids=[f"{i}-{kind}" for i, (_, kind) in enumerate(KINDS)])
def test_kinds(figures: Figures, kind: str) -> None:
    found = verdict(figures)
    assert found.kind == kind
    told = verdict_figures(found, figures)
    assert told.sentence.endswith(".")
    assert any(character.isdigit() for character in told.sentence)
    assert "None" not in told.sentence + " ".join(told.advice)
    assert bool(told.advice) == (kind != "healthy" and not (kind == "cold_log" and figures.requests == 1_000))
    assert told.prompts_can_help == (kind != "engine_side")


NEAR_MISSES = [
    replace(GOOD, server=replace(ZERO, hit_tokens=16)),  # the server hit something
    replace(GOOD, server=replace(ZERO, predicted_tokens=89_999)),  # under a tenth was to be hit
    replace(GOOD, server=replace(ZERO, requests=1)),
    replace(GOOD, hit_tokens=310_001),  # more than half of the ceiling
    replace(GOOD, ceiling_tokens=40_000, hit_tokens=20_000),  # 2 points are no thrash
    replace(GOOD, skipping_requests=249, skipping_tokens=249_999),
    replace(GOOD, namespaces=Namespaces(500, 499)),
    replace(GOOD, namespaces=Namespaces(1_000, 1_000, shared_across_tokens=15)),  # nothing to share across
    replace(GOOD, diverged_tokens=249_999),
    replace(GOOD, flushes=1, flushed_tokens=9_999),
]


@pytest.mark.parametrize("figures", NEAR_MISSES)
def test_a_little_less_is_no_cause(figures: Figures) -> None:
    assert verdict(figures).kind == "healthy"


def test_the_engine_comes_first_and_the_others_are_named_too() -> None:
    found = verdict(
        replace(
            GOOD,
            hit_tokens=0,
            server=ZERO,
            flushes=1,
            flushed_tokens=50_000,
            skipping_tokens=500_000,
            namespaces=Namespaces(900, 800),
            diverged_tokens=400_000,
        )
    )
    assert found.kind == "engine_side"
    assert found.also == ("flushed", "cache_too_small", "namespaces_too_fine", "lookup_skipped", "diverged")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_figures_leave_a_zero_alone(data: st.DataObject) -> None:
    def upto(most: int) -> int:
        return data.draw(st.integers(0, most))

    prompt = upto(2_000)
    queried = upto(prompt)
    ceiling = upto(queried)
    blocks = data.draw(st.sampled_from([None, 5]))
    hits = ceiling if blocks is None else upto(ceiling)
    diverged = data.draw(st.one_of(st.none(), st.integers(0, queried - ceiling)))
    requests = 1 + upto(20)
    figures = Figures(
        requests=requests,
        prompt_tokens=prompt,
        queried_tokens=queried,
        hit_tokens=hits,
        ceiling_queried_tokens=prompt,
        ceiling_tokens=ceiling,
        match_unit=1 + upto(800),
        capacity_blocks=blocks,
        refused_requests=upto(requests),
        shared_prefix_tokens=data.draw(st.one_of(st.none(), st.integers(0, 900))),
        skipping_requests=upto(requests),
        skipping_tokens=prompt - queried,
        diverged_tokens=diverged,
        cold_tokens=None if diverged is None else queried - ceiling - diverged,
    )
    found = verdict(figures)
    told = verdict_figures(found, figures)
    assert len(told.sentence) > 40
    if hits < queried // 200:
        assert found.kind != "healthy"


def test_the_sentences_of_the_target_screens() -> None:
    zero = replace(NOTHING, match_unit=784, shared_prefix_tokens=240, shared_by_all_tokens=240)
    told = verdict_figures(verdict(zero), zero)
    assert told.sentence == "0.0 % hit rate: every request shares 240 tokens, but one match unit is 784."
    assert "Lengthen the stable head by 544 tokens, or use a smaller match unit." in told.advice
    assert verdict_lines(told)[1] == f"  {told.advice[0]}"
    pair = replace(zero, shared_by_all_tokens=0)
    assert "no two requests share more than 240 tokens" in verdict_figures(verdict(pair), pair).sentence
    small = replace(GOOD, hit_tokens=0, evictions=77)
    assert verdict_figures(verdict(small), small).sentence == (
        "0.0 % hit rate in 2,000 blocks: too small for this traffic; 62.0 % without a limit. 77 blocks were evicted."
    )
    assert verdict_lines(verdict_figures(verdict(GOOD), GOOD)) == []


def test_a_flush_is_told_with_its_time() -> None:
    figures = replace(GOOD, flushes=1, flushed_tokens=40_960, flushed_at_us=(1_784_102_400_000_000,))
    told = verdict_figures(verdict(figures), figures, utc_offset_min=120)  # 2026-07-15 08:00 UTC
    assert told.sentence == (
        "The server's cache was emptied 1 time (15 Jul 2026 10:00:00): prefixes that it had held were computed "
        "again, 40,960 tokens in all."
    )
    trace = replace(figures, flushed_at_us=(90_000_000,))
    assert "(at 90 s)" in verdict_figures(verdict(trace), trace).sentence


def test_misses_on_a_terminal() -> None:
    figures = miss_figures(Misses(evicted=10, diverged=60, cold=30, other=0, sampling_level=0))
    assert (
        misses_line(figures)
        == "100 tokens: 60.0 % behind another prefix · 30.0 % first seen · 10.0 % evicted"
    )
    sampled = miss_figures(Misses(0, 50, 50, 0, 3))
    assert "(measured on every 8th shingle)" in str(misses_line(sampled))
    assert (
        misses_line(miss_figures(Misses(4, None, None, 12, None)))
        == "16 tokens: 75.0 % not known why · 25.0 % evicted"
    )
    assert misses_line(miss_figures(Misses(0, None, None, 0, None))) is None


def test_a_hybrid_model_hits_an_interval() -> None:
    # 2 units of 2,096 lie within 4,300. An earlier prompt of 6,500 in one step keeps its state at 6,288 only.
    assert hybrid_bound(4300, 2096, 4800, 6500, 8192) == Bound(0, 4192, "hybrid_align", 0)
    # In steps of 4,192 (two units) a state stands at 4,192; in steps of 2,096 at 2,096 too.
    assert hybrid_bound(4300, 2096, 4800, 6500, 5000).one_at_a_time == 4192
    assert hybrid_bound(4000, 2096, 4800, 6500, 5000).one_at_a_time == 0
    assert hybrid_bound(4000, 2096, 4800, 6500, 3000).one_at_a_time == 2096
    # The same prompt again: one token is left to compute.
    assert hybrid_bound(4192, 2096, 4192) == Bound(0, 2096, "hybrid_align", None)
    assert hybrid_bound(100, 2096, 100).at_most_tokens == 0
    assert bound_sentence(hybrid_bound(4300, 2096, 4800)).startswith("Between 0 and 4,192 tokens hit:")


SPEC = CacheSpec(4)


def _prompts(rows: list[list[int]]) -> Prompts:
    """Prompts of whole blocks and one token, given by dense block ids."""
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    return Prompts(
        counts * 4 + 1,
        np.array([block for row in rows for block in row], dtype=np.int32),
        np.concatenate(([0], np.cumsum(counts))),
        np.zeros(len(rows), dtype=np.bool_),
    )


# Three prompts of one block and an own one, again and again: block ids are numbered at first sight.
ROWS = [[0, 1], [2, 3], [4, 5], *([block, 6 + n] for n, block in enumerate([0, 2, 4] * 4))]
# By hand: every prompt after the first three hits its first block, 4 tokens.
PREDICTED = np.array([0, 0, 0, *[4] * 12])


def test_a_flush_shows_in_the_hits() -> None:
    prompts = _prompts(ROWS)
    assert (
        replay_prompts(prompts, SPEC, unlimited_hits(prompts, SPEC)).hit_tokens.tolist() == PREDICTED.tolist()
    )
    # Emptied in front of the eighth: each of the three heads is missed once more.
    flushed = PREDICTED.copy()
    flushed[7:10] = 0
    assert find_flushes(prompts, SPEC, PREDICTED, flushed) == [Flush(7, 12)]
    # Twice, the second one in front of the thirteenth; of one request nothing is known.
    flushed[12:15] = 0
    flushed[5] = UNKNOWN
    assert find_flushes(prompts, SPEC, PREDICTED, flushed) == [Flush(7, 12), Flush(12, 12)]


def test_what_is_no_flush() -> None:
    prompts = _prompts(ROWS)
    assert find_flushes(prompts, SPEC, PREDICTED, PREDICTED) == []
    assert (
        find_flushes(prompts, SPEC, PREDICTED, np.zeros(15, dtype=np.int64)) == []
    )  # the engine reuses nothing
    assert find_flushes(prompts, SPEC, PREDICTED, np.full(15, UNKNOWN)) == []
    one = PREDICTED.copy()
    one[7] = 0  # a single block was evicted
    assert find_flushes(prompts, SPEC, PREDICTED, one) == []
    # One head for all: a flush and an eviction would look the same.
    alike = _prompts([[0, 1 + n] for n in range(9)])
    single = np.array([0, 4, 4, 4, 0, 4, 4, 4, 4])
    assert find_flushes(alike, SPEC, np.array([0, *[4] * 8]), single) == []
    alternating = PREDICTED.copy()
    alternating[4::2] = 0  # half of the requests went elsewhere
    assert find_flushes(prompts, SPEC, PREDICTED, alternating) == []
    cold_at_first = PREDICTED.copy()
    cold_at_first[:5] = 0
    assert find_flushes(prompts, SPEC, PREDICTED, cold_at_first) == []
