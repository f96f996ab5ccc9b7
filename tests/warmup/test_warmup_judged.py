"""Held-out savings against the naive set and against nothing, one at a time and in the pool with concurrent arrivals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kvtools.cache import Interner, StepTime, Workload, simulate
from kvtools.flow import WarmupOptions, warmup
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.report.warmup_text import render_warmup
from kvtools.table import offsets_of
from kvtools.warmup.replaying import Sent, as_sent, sending_order
from kvtools.warmup.sizing import Budget, plan
from kvtools.warmup.tree import History, tree_of


@pytest.fixture(scope="module")
def peers(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("peers") / "log.jsonl"
    program = [
        sys.executable,
        str(shared / "peers/make_log.py"),
        "--n",
        "2000",
        "--seed",
        "7",
        "--out",
        str(log),
    ]
    subprocess.run(program, check=True)
    return log


@pytest.mark.parametrize("queries", [20, 50])
def test_unlimited_on_the_common_log_a_fifth_more_than_the_naive_set(peers: Path, queries: int) -> None:
    report = warmup(peers, WarmupOptions(budget_queries=queries))
    judged = report.evaluation
    assert report.warmup.chosen_by == "expected saving"
    assert judged.warm.queries == judged.topk.queries == queries
    assert judged.warm.saved_tokens >= 1.2 * judged.topk.saved_tokens > 0
    assert judged.cold.saved_tokens == 0
    # What was expected came: the sum over the set, on traffic that it was not built from.
    assert report.warmup.expected_saved_tokens == pytest.approx(judged.warm.saved_tokens, rel=0.35)


@pytest.mark.parametrize("blocks", [None, 8_000, 2_000, 500])
@pytest.mark.parametrize("log", ["shop", "synthetic"])
def test_never_below_the_naive_set_and_never_worse_than_nothing(
    data: Path, shared: Path, log: str, blocks: int | None
) -> None:
    path = {
        "shop": data / "shop-assistant.jsonl",
        "synthetic": shared / "data/mooncake/synthetic_trace.jsonl",
    }[log]
    report = warmup(path, WarmupOptions(budget_queries=50, capacity_blocks=blocks))
    judged = report.evaluation
    assert judged.warm.saved_tokens >= judged.topk.saved_tokens >= 0
    points = judged.curve
    assert points[-1].requests == judged.requests
    assert points[-1].warm_saved_tokens == judged.warm.saved_tokens
    assert judged.warm.hit_tokens - judged.cold.hit_tokens == judged.warm.saved_tokens
    assert all(point.warm_saved_tokens >= 0 for point in points)


def test_how_the_set_was_chosen_is_told_and_the_later_part_had_no_say(data: Path) -> None:
    report = warmup(data / "shop-assistant.jsonl", WarmupOptions(budget_queries=10, capacity_blocks=500))
    made = report.warmup
    assert made.rehearsed_restarts == 24
    assert [way.by for way in made.ways] == ["expected saving"] * 6 + ["frequency"]
    (taken,) = [way for way in made.ways if way.taken]
    assert taken.by == made.chosen_by
    assert "restarts within the first part" in render_warmup(report)


def _history() -> History:
    """300 requests: 6 tenants with heads of 10 blocks, sessions of up to 4 turns, tails of their own. Block 16."""
    chance = np.random.default_rng(3)
    rows, tokens = [], []
    turns: dict[int, list[int]] = {}
    for n in range(300):
        tenant = int(chance.integers(6))
        session = turns.get(tenant, [])
        grown = [*session, *(10_000 + 20 * n + k for k in range(int(chance.integers(1, 6))))]
        turns[tenant] = [] if len(grown) > 14 else grown
        rows.append([100 * tenant + k for k in range(10)] + grown)
        tokens.append(16 * len(rows[-1]) + int(chance.integers(1, 16)))
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    ids = Interner().intern(np.array([key for row in rows for key in row], dtype=np.uint64))
    whole = np.arange(300, dtype=np.uint64)
    return History(ids, offsets_of(lengths), lengths, np.array(tokens), whole, np.zeros(300, dtype=np.bool_))


def _pool(
    log: History, sent: list[Sent], begin: int, scheduler: SchedulerSpec, blocks: int | None, gap_us: int
) -> int:
    """Hit tokens of the requests from ``begin``, which arrive ``gap_us`` apart once the set has been computed."""
    rows = [one.blocks for one in sent] + [log.blocks(n) for n in range(begin, len(log))]
    tokens = np.array([one.tokens for one in sent] + log.tokens[begin:].tolist(), dtype=np.int64)
    count, later = len(rows), len(log) - begin
    start = 1_000_000 * len(sent)
    arrival = np.concatenate((1_000_000 * np.arange(len(sent)), start + gap_us * np.arange(later)))
    ids = Interner().intern(np.concatenate(rows).astype(np.uint64)).astype(np.int64)
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    zeros = np.zeros(count, dtype=np.int64)
    work = Workload(
        tokens, zeros + 1, ids, offsets_of(lengths), arrival.astype(np.int64), zeros, zeros.astype(np.bool_)
    )
    done = simulate(work, CacheSpec(16, blocks), scheduler, StepTime(5_000, 20_000))
    assert not done.refused.any()
    return int(done.hit_tokens[len(sent) :].sum())


@pytest.mark.parametrize("gap_us", [0, 4_000, 60_000])
@pytest.mark.parametrize("seats", [1, 8, 64])
def test_never_worse_than_no_warm_up_in_the_pool_with_concurrent_arrivals(seats: int, gap_us: int) -> None:
    log = _history()
    scheduler = SchedulerSpec("log", max_num_seqs=seats, max_num_batched_tokens=512)
    saved = {}
    for blocks in (None, 30, 40, 60, 90, 130, 200, 300, 500, 800):
        found = plan(tree_of(log, 200), 100, Budget(20), blocks)
        sent = as_sent(log, sending_order(found.choice.prefixes), 16)
        cold = _pool(log, [], 200, scheduler, blocks, gap_us)
        saved[blocks] = _pool(log, sent, 200, scheduler, blocks, gap_us) - cold
    assert min(saved.values()) >= 0, saved
    assert saved[None] > 0
