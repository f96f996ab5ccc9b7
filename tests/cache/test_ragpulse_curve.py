"""RAGPulse by the rules of KVCache.AI: hits of prompt components, each counted as one block of its own length."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kvtools.blocks import block_keys
from kvtools.cache import Interner
from kvtools.cache.curve import HitCurve, stack_distances
from kvtools.cache.lru import lru_hits
from kvtools.readers.ragpulse import RagPulseRecord, components
from kvtools.table import Ragged, offsets_of

MEASURED_TOKENS = 10_535_055
PREFIX_REUSE = 1_877_444
ANY_REUSE = 7_658_936


@dataclass(frozen=True)
class Trace:
    """Requests as lists of components; ``counted``: tokens of each component, 0 in the first half of the requests."""

    components: Ragged
    counted: np.ndarray

    def prefix_ids(self) -> np.ndarray:
        """Dense ids of each component *and all before it*."""
        chained = block_keys(self.components, [None] * len(self.components), 1)
        return Interner().intern(chained.values)


@pytest.fixture(scope="module")
def trace(shared: Path) -> Trace:
    lines = (shared / "data/ragpulse/0_trace.jsonl").read_bytes().split(b"\n")
    records = [msgspec.json.decode(line, type=RagPulseRecord) for line in lines if line.strip()]
    records.sort(key=lambda record: int(record.timestamp))
    ids = [[one for kind in components(record).values() for one in kind] for record in records]
    lengths = np.array([len(listed) for listed in ids])
    shares = [record.input_length / len(listed) for record, listed in zip(records, ids, strict=True)]
    tokens = np.minimum(512, np.floor(np.array(shares) + 0.5)).astype(np.int64)
    tokens[: len(records) // 2] = 0
    flat = np.array([one for listed in ids for one in listed], dtype=np.int32)
    return Trace(Ragged(flat, offsets_of(lengths)), np.repeat(tokens, lengths))


@pytest.fixture(scope="module")
def curve(trace: Trace) -> HitCurve:
    ids = trace.prefix_ids()
    distances = stack_distances(ids, trace.components.offsets, trace.components.lengths())
    return HitCurve.from_distances(distances, trace.counted, int(ids.max()) + 1)


def test_without_a_limit(trace: Trace, curve: HitCurve) -> None:
    assert int(trace.counted.sum()) == MEASURED_TOKENS
    assert curve.at(None) == PREFIX_REUSE


def test_any_component_that_was_seen_before(trace: Trace) -> None:
    # Each component is a request of its own: no prefix has to match.
    ids = Interner().intern(trace.components.values.astype(np.uint64))
    alone = np.arange(len(ids) + 1)
    distances = stack_distances(ids, alone, np.ones(len(ids), dtype=np.int64))
    any_reuse = HitCurve.from_distances(distances, trace.counted, int(ids.max()) + 1)
    assert any_reuse.unique_blocks == 21_857
    assert any_reuse.at(None) == ANY_REUSE


def test_the_published_lru_curve(shared: Path, curve: HitCurve) -> None:
    published = json.loads((shared / "data/kvcache_lab_published/precomputed_by_blocks.json").read_text())
    assert published["metadata"]["policies"] == ["fifo", "lru", "optimal"]
    points = {
        int(blocks): hits for blocks, hits in published["traces"]["ragpulse"]["capacityResults"].items()
    }
    # An older rule counted any component seen before: there the best policy hits more than all prefix reuse.
    usable = {blocks: lru for blocks, (_, lru, best) in points.items() if best <= PREFIX_REUSE}
    assert (len(usable), len(points) - len(usable)) == (204, 161)
    # 1 and 8 are small enough to pass by that mark, and yet between capacities of the older rule.
    assert [blocks for blocks in sorted(usable) if curve.at(blocks) != usable[blocks]] == [1, 8]


@pytest.mark.parametrize("capacity", [7, 1_000, 20_000])
def test_the_curve_is_that_of_single_caches(trace: Trace, curve: HitCurve, capacity: int) -> None:
    offsets = trace.components.offsets
    hits, _ = lru_hits(trace.prefix_ids(), offsets, trace.components.lengths(), capacity)
    assert int((hits * trace.counted[offsets[:-1]]).sum()) == curve.at(capacity)
