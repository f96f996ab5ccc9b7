"""Held-out savings of a warm-up set against the most frequent whole prompts, and the time to build from 1 M requests.

    python benchmarks/warmup.py            (needs ../shared; prints the tables of docs/warmup.md)
    python benchmarks/warmup.py --scale    (synthetic keys only)

Built on the first 70 % of each log, the way to choose too, and replayed on the rest, one request at a time. Per cell:
tokens saved by the set / by top-K, their ratio; tokens spent on warming in thousands.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from kvtools.cache import Interner
from kvtools.flow.intake import IntakeOptions, Watcher, take_in
from kvtools.flow.warmup_log import Gathering
from kvtools.model import CacheSpec
from kvtools.table import offsets_of
from kvtools.warmup.judge import judge
from kvtools.warmup.rehearsal import Way, made_by, rehearse
from kvtools.warmup.replaying import as_sent, most_frequent
from kvtools.warmup.sizing import Budget
from kvtools.warmup.tree import History, tree_of

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
QUERIES = (10, 20, 50, 100, 500)
BLOCKS = (None, 8_000, 2_000, 500)
RESTARTS = 12


def gathered(path: Path) -> tuple[History, CacheSpec]:
    def run(intake):  # noqa: ANN001, ANN202
        found = Gathering()
        size, rules = intake.settled(found.counts, found.read(intake))
        spec = CacheSpec(size, None, rules)
        return found.log(spec).history, spec

    return take_in(path, IntakeOptions(), Watcher(), run)


def cell(
    history: History, stretch: tuple[int, int], queries: int, spec: CacheSpec
) -> tuple[int, int, int, int]:
    """Tokens saved by the set, chosen without a look at the stretch, and by top-K; tokens spent by both."""
    begin, end = stretch
    budget = Budget(queries)
    way = rehearse(history, begin, end - begin, budget, spec).best
    tree = tree_of(history, begin)
    made = () if way is None else made_by(way, tree, end - begin, budget, spec.capacity_blocks).ordered
    sent = as_sent(history, made, spec.block_size)
    naive = most_frequent(history, begin, queries, spec.capacity_blocks)
    judged = judge(history, stretch, sent, naive, spec)
    return (
        judged.saved(judged.warm), judged.saved(judged.naive), judged.warm.spent_tokens, judged.naive.spent_tokens
    )  # fmt: skip


def tables(logs: dict[str, Path]) -> None:
    for name, path in logs.items():
        history, unlimited = gathered(path)
        begin = len(history) - round(0.3 * len(history))
        for blocks in BLOCKS:
            spec = CacheSpec(unlimited.block_size, blocks, unlimited.rules)
            for queries in QUERIES:
                warm, naive, spent, naive_spent = cell(history, (begin, len(history)), queries, spec)
                size = "unlimited" if blocks is None else f"{blocks:,}"
                ratio = f"{warm / naive:.2f}" if naive else "-"
                print(
                    f"| {name} | {size} | {queries} | {warm:,} | {naive:,} | {ratio} | {spent:,} | {naive_spent:,} |",
                    flush=True,
                )


def restarts(logs: dict[str, Path]) -> None:
    """Print the mean ratio of sums over restarts in the second half of each log."""
    for name, path in logs.items():
        history, unlimited = gathered(path)
        count = len(history)
        moments = np.linspace(count // 2, count - count // 10, RESTARTS).astype(int).tolist()
        for blocks in BLOCKS[1:]:
            spec = CacheSpec(unlimited.block_size, blocks, unlimited.rules)
            sums = np.zeros(2)
            for moment in moments:
                sums += cell(history, (moment, moment + count // 10), 100, spec)[:2]
            print(
                f"| {name} | {blocks:,} | {sums[0]:,.0f} | {sums[1]:,.0f} | {sums[0] / sums[1]:.2f} |",
                flush=True,
            )


def scale(requests: int = 1_000_000) -> None:
    """Time the way from a million requests' keys to the set: 40 blocks each on average, 2,000 shared heads."""
    chance = np.random.default_rng(1)
    heads = chance.integers(10, 40, 2_000)
    which = np.minimum((chance.pareto(0.8, requests) * 5).astype(np.int64), 1_999)
    tails = chance.integers(5, 30, requests)
    lengths = heads[which] + tails
    offsets = offsets_of(lengths)
    place = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], lengths)
    owner = np.repeat(np.arange(requests), lengths)
    own_head = place < heads[which][owner]
    keys = np.where(own_head, which[owner] * 64 + place, (owner + 4_000) * 64 + place).astype(np.uint64)
    keys = keys * np.uint64(0x9E3779B97F4A7C15)
    del place, owner, own_head
    print(f"{requests:,} requests, {len(keys):,} blocks")
    for blocks in (None, 8_000):
        begun = time.process_time()
        ids = Interner().intern(keys)
        history = History(
            ids, offsets, lengths, lengths * 16 + 3, keys[offsets[1:] - 1], np.zeros(requests, dtype=np.bool_)
        )
        spec, budget, horizon = CacheSpec(16, blocks), Budget(100), requests // 2
        way = rehearse(history, requests, horizon, budget, spec).best or Way()
        made = made_by(way, tree_of(history, requests), horizon, budget, blocks)
        spent = time.process_time() - begun
        print(f"  {blocks or 'unlimited'} blocks: {len(made.ordered)} prefixes, {spent:.1f} CPU s")


def main() -> None:
    if "--scale" not in sys.argv[1:]:
        if not SHARED.is_dir():
            sys.exit("../shared is not here: the logs to compare on are missing")
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "peers.jsonl"
            program = [sys.executable, str(SHARED / "peers/make_log.py"), "--n", "2000", "--seed", "7"]
            subprocess.run([*program, "--out", str(log)], check=True)
            logs = {
                "peers 2,000": log,
                "shop-assistant": ROOT / "data/shop-assistant.jsonl",
                "mooncake synthetic": SHARED / "data/mooncake/synthetic_trace.jsonl",
                "mooncake conversation": SHARED / "data/mooncake/conversation_trace.jsonl",
            }
            tables(logs)
            restarts(logs)
    scale()


if __name__ == "__main__":
    main()
