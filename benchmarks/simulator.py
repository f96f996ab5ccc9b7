"""CPU time of the simulator against vLLM's own scheduler, on the same 2,000 prompts of 1,000 tokens, in one run.

    make bench-simulator      (needs the environment of make test-oracle, and ../shared/vllm/oracle.py)

Both sides begin with token ids: hashing blocks is part of the work. The simulator is compiled before it is measured.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from pathlib import Path

import numpy as np

from kvtools.blocks import block_keys
from kvtools.cache import Interner, Workload, simulate
from kvtools.model import Arrivals, CacheSpec, SchedulerSpec
from kvtools.table import Ragged, offsets_of

ORACLE = Path(__file__).resolve().parents[2] / "shared/vllm/oracle.py"
REQUESTS, TOKENS, BLOCKS = 2_000, 1_000, 4_000


def prompts() -> list[list[int]]:
    """Return prompts of five families that share 300 to 900 tokens."""
    chance = random.Random(3)
    heads = [[chance.randrange(3, 50_000) for _ in range(chance.randint(300, 900))] for _ in range(5)]
    rows = []
    for _ in range(REQUESTS):
        head = chance.choice(heads)
        rows.append(head + [chance.randrange(3, 50_000) for _ in range(TOKENS - len(head))])
    return rows


def simulated(rows: list[list[int]], arrivals: Arrivals) -> tuple[float, int]:
    """Return CPU seconds from token ids to hits, and the hit tokens."""
    lengths = np.full(len(rows), TOKENS, dtype=np.int64)
    tokens = Ragged(np.array(rows, dtype=np.int32).reshape(-1), offsets_of(lengths))
    begun = time.process_time()
    keys = block_keys(tokens, [None] * len(rows), 16)
    ids = Interner().intern(keys.values).astype(np.int64)
    zeros = np.zeros(len(rows), dtype=np.int64)
    work = Workload(lengths, zeros + 1, ids, keys.offsets, zeros, zeros, zeros.astype(np.bool_))
    scheduler = SchedulerSpec(arrivals, max_num_seqs=128, max_num_batched_tokens=8192)
    hits = simulate(work, CacheSpec(16, BLOCKS), scheduler).hit_tokens
    return time.process_time() - begun, int(hits.sum())


def main() -> None:
    if not ORACLE.is_file():
        sys.exit("../shared/vllm/oracle.py is not here: nothing to compare with")
    spec = importlib.util.spec_from_file_location("oracle", ORACLE)
    oracle = importlib.util.module_from_spec(spec)
    sys.modules["oracle"] = oracle
    spec.loader.exec_module(oracle)
    rows = prompts()
    engine = oracle.VllmOracle(16, BLOCKS + 1, max_num_seqs=128, max_num_batched_tokens=8192)
    begun = time.process_time()
    result = engine.run([oracle.Req(row) for row in rows])
    theirs = time.process_time() - begun
    simulated(rows, "closed")  # compiles
    ours, hits = simulated(rows, "closed")
    assert hits == result.hits, (hits, result.hits)
    print(
        f"vLLM's scheduler: {theirs:.2f} CPU s · simulator: {ours:.4f} CPU s · {theirs / ours:.0f} times faster"
    )
    print(f"equal: {hits:,} hit tokens, block keys included on both sides")


if __name__ == "__main__":
    main()
