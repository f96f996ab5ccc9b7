from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import lru_hits as naive_hits

from kvtools.cache import Interner, Prompts, study_cache
from kvtools.cache.curve import HitCurve, stack_distances
from kvtools.cache.lru import lru_hits
from kvtools.model import CacheSpec
from kvtools.table import offsets_of


def _columns(requests: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(blocks) for blocks in requests], dtype=np.int64)
    flat = [block for blocks in requests for block in blocks]
    return Interner().intern(np.array(flat, dtype=np.uint64)), offsets_of(lengths)


# Any lists of ids, not only prefix trees: LRU and its stack distances do not need one.
_LOGS = st.lists(st.lists(st.integers(0, 12), max_size=9, unique=True), min_size=1, max_size=25)


@settings(max_examples=300, deadline=None)
@given(_LOGS, st.integers(1, 14), st.data())
def test_lru_equals_the_naive_oracle(requests: list[list[int]], capacity: int, data: st.DataObject) -> None:
    lookups = [data.draw(st.integers(0, len(blocks))) for blocks in requests]
    ids, offsets = _columns(requests)
    hits, _ = lru_hits(ids, offsets, np.array(lookups, dtype=np.int64), capacity)
    assert hits.tolist() == naive_hits(requests, lookups, capacity)


@settings(max_examples=300, deadline=None)
@given(_LOGS, st.data())
def test_the_curve_equals_a_separate_lru_run_at_every_size(
    requests: list[list[int]], data: st.DataObject
) -> None:
    lookups = [data.draw(st.integers(0, len(blocks))) for blocks in requests]
    ids, offsets = _columns(requests)
    distances = stack_distances(ids, offsets, np.array(lookups, dtype=np.int64))
    unique = len(set(ids.tolist()))
    curve = HitCurve.from_distances(distances, np.ones(len(ids), dtype=np.int64), unique)
    for capacity in range(1, unique + 3):
        assert curve.at(capacity) == sum(naive_hits(requests, lookups, capacity)), capacity


def test_touch_times_that_outgrow_the_tree_are_moved_together() -> None:
    # 3 distinct blocks, 200 requests of 3: the tree (9 places) is compacted dozens of times.
    requests = [[0, 1, 2], [1], [2, 0]] * 70
    lookups = [len(blocks) for blocks in requests]
    ids, offsets = _columns(requests)
    distances = stack_distances(ids, offsets, np.array(lookups, dtype=np.int64))
    curve = HitCurve.from_distances(distances, np.ones(len(ids), dtype=np.int64), 3)
    assert [curve.at(size) for size in (1, 2, 3)] == [
        sum(naive_hits(requests, lookups, size)) for size in (1, 2, 3)
    ]


def test_blocks_for_is_the_smallest_sufficient_cache() -> None:
    # Distances 1, 1, 2, 4 with 16 tokens each: 32 hits at 1 block, 48 at 2, 64 from 4 on.
    curve = HitCurve.from_distances(np.array([0, 1, 1, 2, 4]), np.full(5, 16), 5)
    assert curve.hit_tokens.tolist() == [0, 32, 48, 48, 64, 64]
    assert [curve.blocks_for(share) for share in (0.5, 0.75, 0.76, 1.0)] == [1, 2, 4, 4]
    assert curve.at(None) == curve.at(1000) == 64


def _mooncake(shared, name: str) -> Prompts:
    lines = (shared / "data/mooncake" / f"{name}_trace.jsonl").read_bytes().strip().split(b"\n")
    rows = [msgspec.json.decode(line) for line in lines]
    ids, offsets = _columns([row["hash_ids"] for row in rows])
    tokens = np.array([row["input_length"] for row in rows], dtype=np.int64)
    return Prompts(tokens, ids, offsets, skip_lookup=np.zeros(len(rows), dtype=np.bool_))


@pytest.mark.parametrize(
    ("name", "blocks", "ceiling", "lru"),
    [
        # Published figures of the traces: hit tokens over all prompt tokens, LRU at shares of the unique blocks.
        ("conversation", 182_790, 0.3736, [0.0535, 0.1996, 0.2844, 0.3604, 0.3703]),
        ("synthetic", 43_924, 0.6512, [0.0388, 0.1596, 0.2673, 0.4522, 0.5996]),
    ],
)
def test_mooncake_traces(shared, name: str, blocks: int, ceiling: float, lru: list[float]) -> None:
    prompts = _mooncake(shared, name)
    study = study_cache(prompts, CacheSpec(512, None, "trace"))
    total = int(prompts.tokens.sum())
    assert study.curve.unique_blocks == blocks
    assert round(study.result.total_hit_tokens / total, 4) == ceiling
    sizes = [int(blocks * share) for share in (0.01, 0.05, 0.10, 0.25, 0.50)]
    assert [round(study.curve.at(size) / total, 4) for size in sizes] == lru
    # The curve equals a separate run at ten sizes, hit for hit.
    for size in [1, 7, 64, 500, *sizes, blocks - 1]:
        run = study_cache(prompts, CacheSpec(512, size, "trace")).result
        assert run.total_hit_tokens == study.curve.at(size), size


@pytest.mark.parametrize(
    ("name", "total", "unlimited", "lru"),
    [
        # Output of an independent simulator, second half of each trace.
        (
            "conversation", 67_915_607, 27_038_068,
            {128: 3_080_581, 1024: 3_194_814, 8192: 12_781_765, 16384: 18_940_960},
        ),
        (
            "synthetic", 36_552_394, 31_535_563,
            {128: 468_280, 1024: 4_804_282, 8192: 20_028_313, 16384: 26_518_144},
        ),
    ],
)  # fmt: skip
def test_mooncake_second_half(shared, name: str, total: int, unlimited: int, lru: dict[int, int]) -> None:
    prompts = _mooncake(shared, name)
    for capacity, hits in lru.items():
        study = study_cache(prompts, CacheSpec(512, capacity, "trace"), measure_from=0.5)
        assert study.result.total_queried_tokens == total
        assert study.result.total_hit_tokens == study.curve.at(capacity) == hits
        assert int(study.ceiling.sum()) == unlimited
