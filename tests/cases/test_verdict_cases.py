"""Cases of ``shared/cases`` whose right answer is which zero it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared_case import Case

from kvtools.blocks import block_keys
from kvtools.cache import CacheStudy, Interner, Prompts, study_cache
from kvtools.diagnosis.misses import Misses, split_misses
from kvtools.diagnosis.verdict import Figures, Namespaces, ServerSaid, hybrid_bound, verdict
from kvtools.model import CacheSpec
from kvtools.report.verdict import verdict_figures
from kvtools.similarity.seen import SeenText
from kvtools.table import Ragged, digest64, namespace_of, offsets_of


@pytest.fixture(scope="module")
def cases(shared: Path) -> Path:
    return shared / "cases"


def _studied(
    case: Case, block_size: int | None = None, blocks: int | None = None
) -> tuple[CacheStudy, Misses, Figures]:
    """Replay a case and gather the figures of its verdict."""
    size = block_size or case.config["block_size"]
    rows = case.prompts()
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tokens = Ragged(np.array([token for row in rows for token in row], dtype=np.int32), offsets_of(lengths))
    names = [namespace_of(None, None, request.get("cache_salt")) for request in case.requests]
    digests = np.array([digest64(name) for name in names], dtype=np.uint64)
    skips = np.array([request.get("prompt_logprobs") is not None for request in case.requests])
    keys = block_keys(tokens, names, size)
    study = study_cache(
        Prompts(lengths, Interner().intern(keys.values), keys.offsets, skips), CacheSpec(size, blocks)
    )
    seen = SeenText()
    seen.add(tokens, digests, np.array([request["ts"] for request in case.requests]))
    misses = split_misses(study, lengths, np.ones_like(lengths), seen)
    _, uses = np.unique(digests, return_counts=True)
    everyone = np.ones(len(rows), dtype=np.bool_)
    figures = Figures(
        requests=len(rows),
        prompt_tokens=int(lengths.sum()),
        queried_tokens=study.result.total_queried_tokens,
        hit_tokens=study.result.total_hit_tokens,
        ceiling_queried_tokens=int(study.queried.sum()),
        ceiling_tokens=study.ceiling_tokens(everyone),
        match_unit=size,
        capacity_blocks=blocks,
        needed_blocks=study.curve.blocks_for(0.9),
        evictions=study.result.evictions or 0,
        refused_requests=int(study.result.refused.sum()),
        shared_prefix_tokens=_longest_shared(rows, names),
        shared_by_all_tokens=_shared_by_all(rows),
        skipping_requests=int(skips.sum()),
        skipping_tokens=int(lengths[skips].sum()),
        namespaces=Namespaces(len(uses), int((uses == 1).sum())),
        server=_server(case, study),
        diverged_tokens=misses.diverged,
        cold_tokens=misses.cold,
    )
    return study, misses, figures


def _longest_shared(rows: list[list[int]], names: list[str | None]) -> int:
    pairs = [_shared(rows[i], rows[j]) for i in range(len(rows)) for j in range(i) if names[i] == names[j]]
    return max(pairs, default=0)


def _shared(one: list[int], other: list[int]) -> int:
    return next(
        (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _shared_by_all(rows: list[list[int]]) -> int:
    return min(_shared(rows[0], row) for row in rows)


def _server(case: Case, study: CacheStudy) -> ServerSaid | None:
    usages: list[dict[str, Any]] = [request["usage"] for request in case.requests if "usage" in request]
    if not usages:
        return None
    return ServerSaid(
        requests=len(usages),
        with_usage=len(usages),
        hit_tokens=sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages),
        queried_tokens=sum(usage["prompt_tokens"] for usage in usages),
        predicted_tokens=study.result.total_hit_tokens,
    )


def test_016_the_shared_prefix_is_shorter_than_a_block(cases: Path) -> None:
    case = Case.load(cases, "016")
    study, misses, figures = _studied(case)
    assert study.result.hit_tokens.tolist() == case.expected["hits_bs784"]
    found = verdict(figures)
    assert found.kind == case.expected["verdict"] == "below_block_floor"
    told = verdict_figures(found, figures)
    assert told.sentence == "0.0 % hit rate: every request shares 240 tokens, but one match unit is 784."
    assert "Lengthen the stable head by 544 tokens, or use a smaller match unit." in told.advice
    # 336 shingles each: all of r1; of r2 and r3 the 4 that reach into their own text and the 96 of it.
    assert misses.cold == round(1020 * (336 + 2 * 100) / (3 * 336))
    assert misses.tokens == 1020
    # In blocks of 16 nothing is wrong with the cache, and 480 of 1,020 tokens hit.
    assert _studied(case, block_size=16)[2].hit_tokens == 480


def test_017_a_hybrid_model_gets_an_interval(cases: Path) -> None:
    case = Case.load(cases, "017")
    earlier, later = case.prompts()
    bound = hybrid_bound(
        _shared(earlier, later),
        case.config["block_size"],
        len(later),
        len(earlier),
        case.config["max_num_batched_tokens"],
    )
    assert (bound.at_least_tokens, bound.at_most_tokens) == (0, case.expected["r2_upper"]) == (0, 4192)
    assert bound.one_at_a_time == case.expected["r2_expected_align"] == 0
    assert bound.reason == "hybrid_align"


def test_018_the_engine_reuses_nothing(cases: Path) -> None:
    case = Case.load(cases, "018")
    study, _, figures = _studied(case)
    assert study.result.hit_tokens.tolist() == case.expected["potential"] == [0, 1600, 1600, 1600]
    assert figures.server is not None
    assert figures.server.hit_tokens == case.expected["observed"] == 0
    found = verdict(figures)
    assert found.kind == case.expected["verdict"] == "engine_side"
    assert not found.prompts_can_help
    told = verdict_figures(found, figures)
    assert "73.2 %" in told.sentence
    assert "not a prompt problem" in told.sentence
    assert len(told.advice) > 3


def test_022_a_salt_for_each_request(cases: Path) -> None:
    case = Case.load(cases, "022")
    study, _, figures = _studied(case)
    assert study.result.hit_tokens.tolist() == case.expected["hits"] == [0, 0, 0, 96]
    assert figures.namespaces == Namespaces(case.expected["distinct_salts"], 2)
    found = verdict(figures)
    assert found.kind == "namespaces_too_fine"
    assert "24.0 %" in verdict_figures(found, figures).sentence


def test_023_requests_that_do_not_read_the_cache(cases: Path) -> None:
    case = Case.load(cases, "023")
    study, misses, figures = _studied(case)
    assert study.result.hit_tokens.tolist() == case.expected["hits"] == [0, 0, 96]
    assert figures.queried_tokens == case.expected["queries"] == 200
    found = verdict(figures)
    assert found.kind == "lookup_skipped"
    assert "48.0 %" in verdict_figures(found, figures).sentence
    # r1 is all new; the 4 tokens that r3 misses begin no shingle.
    assert (misses.cold, misses.diverged, misses.tokens) == (104, 0, 104)


def test_100_a_ceiling_is_no_hit_rate(cases: Path) -> None:
    case = Case.load(cases, "100")
    study, misses, figures = _studied(case, blocks=8)
    assert study.ceiling.tolist() == case.expected["ceiling"] == [0, 0, 0, 64, 64, 64]
    assert study.result.hit_tokens.tolist() == case.expected["blocks_8"] == [0] * 6
    found = verdict(figures)
    assert found.kind == "cache_too_small"
    told = verdict_figures(found, figures)
    assert told.sentence.startswith(
        "0.0 % hit rate in 8 blocks: too small for this traffic; 44.4 % without a limit."
    )
    # The gap is capacity; the rest of the 432 tokens are first uses.
    assert (misses.evicted, misses.cold, misses.diverged) == (192, 240, 0)
    enough, misses, figures = _studied(case, blocks=20)
    assert enough.result.hit_tokens.tolist() == case.expected["blocks_20"]
    assert (misses.evicted, verdict(figures).kind) == (0, "healthy")
