"""The optimal order: against every order there is, against published figures, and its laws."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_oracle import BLOCK, Request, best_hit_blocks, prompts_of, requests

from kvtools.blocks import block_keys
from kvtools.cache import Interner, Prompts, replay_prompts, unlimited_hits
from kvtools.model import CacheSpec
from kvtools.plan.optimal import optimal_hits
from kvtools.readers.ragpulse import RagPulseRecord, components
from kvtools.table import Ragged, offsets_of

small = st.lists(
    st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=3).map(tuple), st.integers(0, 1)),
    min_size=1,
    max_size=7,
)


@given(small, st.integers(1, 5))
@settings(max_examples=60)
def test_no_order_of_eviction_hits_more_by_vllm_rules(log: list[Request], capacity: int) -> None:
    hits = optimal_hits(prompts_of(log), CacheSpec(BLOCK, capacity))
    assert int(hits.sum()) == BLOCK * best_hit_blocks(log, capacity, resident=True)


@given(small, st.integers(1, 4))
@settings(max_examples=60)
def test_no_order_of_eviction_hits_more_by_trace_rules(log: list[Request], capacity: int) -> None:
    whole = [(path, 0) for path, _ in log]  # so that every block counts alike
    hits = optimal_hits(prompts_of(whole), CacheSpec(BLOCK, capacity, "trace"))
    assert int(hits.sum()) == BLOCK * best_hit_blocks(whole, capacity, resident=False)


@given(requests, st.integers(1, 12), st.sampled_from(["vllm", "trace"]))
def test_it_is_never_below_lru_and_never_above_the_ceiling(
    log: list[Request], capacity: int, rules: str
) -> None:
    prompts = prompts_of(log if rules == "vllm" else [(path, 0) for path, _ in log])
    spec = CacheSpec(BLOCK, capacity, rules)
    ceiling = unlimited_hits(prompts, CacheSpec(BLOCK, None, rules))
    best = optimal_hits(prompts, spec)
    assert replay_prompts(prompts, spec, ceiling).total_hit_tokens <= best.sum()
    assert (best <= ceiling).all()
    assert (optimal_hits(prompts, CacheSpec(BLOCK, None, rules)) == ceiling).all()


@given(requests, st.integers(5, 12))
def test_more_memory_never_hits_less(log: list[Request], capacity: int) -> None:
    """One request at a time, in a cache that refuses none: the longest prompt takes five blocks."""
    prompts = prompts_of(log)
    ceiling = unlimited_hits(prompts, CacheSpec(BLOCK))
    hits = [
        (replay_prompts(prompts, spec, ceiling).total_hit_tokens, int(optimal_hits(prompts, spec).sum()))
        for spec in (CacheSpec(BLOCK, capacity), CacheSpec(BLOCK, capacity + 1))
    ]
    assert hits[0][0] <= hits[1][0]
    assert hits[0][1] <= hits[1][1]


def test_a_cache_that_begins_to_run_a_prompt_may_hit_less() -> None:
    """Why the law leaves refusals out: at 2 blocks the long prompt is refused, at 3 it pushes the others out."""
    log = [((0,), 1), ((1, 1), 1), ((0,), 1)]
    spec = [CacheSpec(BLOCK, capacity) for capacity in (2, 3)]
    prompts = prompts_of(log)
    hits = [
        replay_prompts(prompts, one, unlimited_hits(prompts, CacheSpec(BLOCK))).total_hit_tokens
        for one in spec
    ]
    assert hits == [BLOCK, 0]


@dataclass(frozen=True)
class Trace:
    prompts: Prompts
    measured: np.ndarray


def mooncake(shared: Path, name: str) -> Trace:
    lines = (shared / f"data/mooncake/{name}_trace.jsonl").read_bytes().strip().split(b"\n")
    rows = [json.loads(line) for line in lines]
    lengths = np.array([len(row["hash_ids"]) for row in rows])
    ids = Interner().intern(np.array([key for row in rows for key in row["hash_ids"]], dtype=np.uint64))
    tokens = np.array([row["input_length"] for row in rows])
    everyone = np.zeros(len(rows), dtype=np.bool_)
    return Trace(Prompts(tokens, ids, offsets_of(lengths), everyone), np.arange(len(rows)) >= len(rows) // 2)


@pytest.mark.parametrize(("name", "points"), [("conversation", 14), ("synthetic", 13)])
def test_published_optimal_figures_of_mooncake(shared: Path, name: str, points: int) -> None:
    """KVCache.AI's simulator, second half of the trace: equal to the token at every size it prints."""
    trace = mooncake(shared, name)
    folder = shared / "data/kvcache_lab_published"
    published = json.loads(
        (folder / f"oracle_kvcache_simulator_0.1.3_{name}_qwen3-32b_bs512.json").read_text()
    )
    expected = {
        point["cacheBlocks"]: point["results"]["optimal"]["hitTokens"] for point in published["points"]
    }
    assert len(expected) == points
    found = {
        blocks: int(optimal_hits(trace.prompts, CacheSpec(512, blocks, "trace"))[trace.measured].sum())
        for blocks in expected
    }
    assert found == expected


def test_published_optimal_figures_of_ragpulse(shared: Path) -> None:
    """Every usable point but one block, which like LRU's follows an older rule (any component seen before counts)."""
    lines = (shared / "data/ragpulse/0_trace.jsonl").read_bytes().split(b"\n")
    records = [msgspec.json.decode(line, type=RagPulseRecord) for line in lines if line.strip()]
    records.sort(key=lambda record: int(record.timestamp))
    ids = [[one for kind in components(record).values() for one in kind] for record in records]
    lengths = np.array([len(listed) for listed in ids])
    listed = Ragged(np.array([one for row in ids for one in row], dtype=np.int32), offsets_of(lengths))
    keys = Interner().intern(block_keys(listed, [None] * len(listed), 1).values)
    shares = np.array([record.input_length / len(row) for record, row in zip(records, ids, strict=True)])
    tokens = np.minimum(512, np.floor(shares + 0.5)).astype(np.int64)
    tokens[: len(records) // 2] = 0
    # A component is a block of its own length: hits are counted in components, then weighed.
    prompts = Prompts(lengths, keys, listed.offsets, np.zeros(len(records), dtype=np.bool_))
    published = json.loads((shared / "data/kvcache_lab_published/precomputed_by_blocks.json").read_text())
    points = published["traces"]["ragpulse"]["capacityResults"]
    usable = {int(blocks): best for blocks, (_, _, best) in points.items() if best <= 1_877_444}
    assert len(usable) == 204
    different = [
        blocks
        for blocks, best in usable.items()
        if int((optimal_hits(prompts, CacheSpec(1, blocks, "trace")) * tokens).sum()) != best
    ]
    assert different == [1]
