"""Sizing: the smallest caches by trying all, the working set and a second tier by plain lists, sizes by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_oracle import BLOCK, Request, prompts_of, requests

from kvtools.cache import Prompts, replay_prompts, unlimited_hits
from kvtools.cache.memory import kv_size
from kvtools.flow.plan_sizing import SizingOptions, plan_sizing
from kvtools.flow.sizing import CacheMemory
from kvtools.model import CacheSpec
from kvtools.plan.sizing import (
    SHARES,
    SizeSearch,
    largest_prompt_blocks,
    lru_curve,
    second_tier,
    window_bounds,
    working_sets,
)

LLAMA3_8B = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA3_70B = LLAMA3_8B | {"num_hidden_layers": 80, "num_attention_heads": 64, "hidden_size": 8192}
QWEN3_8B = {
    "model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "head_dim": 128, "torch_dtype": "bfloat16", "use_sliding_window": False,
    "sliding_window": None,
}  # fmt: skip
QWEN3_32B = QWEN3_8B | {"num_hidden_layers": 64, "num_attention_heads": 64, "hidden_size": 5120}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
    "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "block_size", "bytes_per_block", "gib_of_1023"),
    [
        (LLAMA3_8B, 16, 2 * 1024**2, 2.0),  # 2 (K, V) x 32 layers x 8 heads x 128 x 2 bytes = 131,072 a token
        (LLAMA3_70B, 16, 5 * 1024**2, 5.0),  # 2 x 80 x 8 x 128 x 2 = 327,680 a token
        (QWEN3_8B, 16, 2_359_296, 2.25),  # 2 x 36 x 8 x 128 x 2 = 147,456 a token
        (QWEN3_32B, 512, 134_217_728, 128.0),  # 2 x 64 x 8 x 128 x 2 = 262,144 a token
        (DEEPSEEK_V3, 64, 4_497_408, 4_497_408 / 1024**2),  # MLA: 61 layers x (512 + 64) x 2 = 70,272 a token
    ],
    ids=["llama3-8b", "llama3-70b", "qwen3-8b", "qwen3-32b", "deepseek-v3"],
)
def test_gib_per_block_by_hand(
    tmp_path: Path, config: dict, block_size: int, bytes_per_block: int, gib_of_1023: float
) -> None:
    """1,023 usable blocks are 1,024 of the engine's, whose first is the null block."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    block = SizingOptions(model_config=path).block(block_size)
    assert block.bytes_per_block == bytes_per_block
    assert block.gib(1_023) == gib_of_1023
    # The way back: that memory holds these blocks.
    assert kv_size(path).blocks(1024 * bytes_per_block, block_size) == 1_023


def test_the_block_of_the_published_figures(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/kvcache_lab_published"
    published = json.loads(
        (folder / "oracle_kvcache_simulator_0.1.3_conversation_qwen3-32b_bs512.json").read_text()
    )
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_32B))
    block = SizingOptions(model_config=tmp_path).block(512)
    assert block.bytes_per_token == published["metadata"]["bytesPerToken"]
    assert block.bytes_per_block == published["metadata"]["bytesPerBlock"]


@given(requests)
@settings(max_examples=40)
def test_the_smallest_cache_is_found_by_trying_all(log: list[Request]) -> None:
    prompts, spec = prompts_of(log), CacheSpec(BLOCK)
    curve = lru_curve(prompts, spec)
    ceiling = unlimited_hits(prompts, spec)
    assert curve.at(None) == ceiling.sum()
    search = SizeSearch(prompts, spec, curve)
    least = largest_prompt_blocks(prompts, spec)
    for share in SHARES if ceiling.sum() else ():
        need = search.smallest(share)
        enough = least
        while True:
            hits = replay_prompts(prompts, CacheSpec(BLOCK, enough), ceiling).total_hit_tokens
            if hits >= share * ceiling.sum():
                break
            enough += 1
        assert (need.capacity_blocks, need.hit_tokens) == (enough, hits)
        assert need.hit_tokens <= need.optimal_hit_tokens <= ceiling.sum()


@given(requests, st.integers(1, 6), st.integers(1, 6))
def test_a_second_tier_is_what_two_lists_do(log: list[Request], first: int, second: int) -> None:
    """Both tiers as lists, the newest block last: copies of all blocks, or only those that the first gives up."""
    prompts, spec = prompts_of(log), CacheSpec(BLOCK)
    gpu: list[int] = []
    copies: list[int] = []
    victims: list[int] = []
    hits = [0, 0]
    lookups = prompts.lookups(spec)
    for row in range(len(log)):
        blocks = prompts.ids[prompts.offsets[row] : prompts.offsets[row + 1]].tolist()
        for kind, tier in enumerate((copies, victims)):
            found = 0
            while found < lookups[row] and (blocks[found] in gpu or blocks[found] in tier):
                found += 1
            hits[kind] += found * BLOCK
        for block in reversed(blocks):
            for tier in (gpu, copies, victims):
                if block in tier:
                    tier.remove(block)
            gpu.append(block)
            copies.append(block)
            victims += gpu[:-first]
            del gpu[:-first], copies[:-second], victims[:-second]
    (tier,) = second_tier(lru_curve(prompts, spec), first, [second])
    assert [tier.copies_hit_tokens, tier.victims_hit_tokens] == hits


def test_the_working_set_by_hand() -> None:
    """0 and 0-0, then 1, then 0, then 0-0 again: both blocks of the first come again, in the second stretch."""
    log = [((0, 0), 1), ((1,), 1), ((0,), 1), ((0, 0), 1)]
    found, peak = working_sets(prompts_of(log), CacheSpec(BLOCK), [0, 2, 4])
    assert [(one.touched_blocks, one.new_blocks, one.live_blocks) for one in found] == [(3, 3, 2), (2, 0, 0)]
    assert peak == 2  # the block of 1 never comes again
    assert (
        working_sets(prompts_of([((0,), 0), ((0,), 0)]), CacheSpec(BLOCK), [0, 2])[1] == 0
    )  # the last token


@pytest.mark.parametrize(
    ("arrivals", "bounds"),
    [(None, [0, 1, 2, 3, 4]), ([0, 1, 2, 40], [0, 3, 4]), ([5, 5, 5, 5], [0, 1, 2, 3, 4])],
)
def test_stretches_of_time(arrivals: list[int] | None, bounds: list[int]) -> None:
    times = None if arrivals is None else np.array(arrivals)
    assert window_bounds(times, 4, 4) == bounds


def test_the_sizes_hold_in_a_replay(data: Path, tmp_path: Path) -> None:
    """Each size, and the memory that is named for it, hits what the row says, by ``replay``."""
    from kvtools.flow import ReplayOptions, replay

    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA3_8B))
    log = data / "shop-assistant.jsonl"
    report = plan_sizing(log, SizingOptions(model_config=config, classes=False))
    for size in (report.sizing[0], report.sizing[2]):
        memory = CacheMemory(kv_memory=str(round(size.gib * 2**30)), model_config=config)
        (found,) = replay(log, ReplayOptions(memory=memory)).replays
        assert (found.capacity_blocks, found.hit_tokens) == (size.capacity_blocks, size.hit_tokens)
        assert size.hit_tokens >= size.share_of_ceiling * report.ceiling.hit_tokens


def token_log(path: Path, lines: list[dict]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_log_without_reuse_has_no_sizes(tmp_path: Path) -> None:
    lines = [{"id": name, "ts": 1, "prompt_token_ids": [start] * 40} for start, name in enumerate("ab")]
    report = plan_sizing(token_log(tmp_path / "log.jsonl", lines), SizingOptions(classes=False))
    assert (report.ceiling.hit_tokens, report.sizing, report.working_set.peak_live_blocks) == (0, [], 0)


def test_hot_and_cold_requests_have_rules_of_their_own(tmp_path: Path) -> None:
    """Every 0.1 s a question of 48 to 54 tokens behind the same 32; every 2 s a report of 1,571 to 1,600 of its own."""
    hot = [
        {
            "ts": 0.1 * n,
            "output_tokens": 10 + n % 3,
            "prompt_token_ids": [*range(32), *range(5000 + 16 * n, 5016 + 16 * n + n % 7)],
        }
        for n in range(600)
    ]
    cold = [
        {
            "ts": 2 * n + 0.05,
            "output_tokens": 400 + n,
            "prompt_token_ids": list(range(50_000 + 1600 * n, 51_600 + 1600 * n - n)),
        }
        for n in range(30)
    ]
    lines = [one | {"id": f"r{n}"} for n, one in enumerate(sorted(hot + cold, key=lambda one: one["ts"]))]
    report = plan_sizing(token_log(tmp_path / "log.jsonl", lines), SizingOptions(capacity_blocks=1_000))
    found = {one.name: one for one in report.formulas}
    # A question has 51 tokens in the median.
    assert (found["warmup_tokens"].low, found["warmup_tokens"].measured) == (51 / 4, 32.0)
    # A report and its answer hold 1,999 tokens, 125 blocks. The questions hit 2 blocks, which an LRU of 2 keeps.
    assert (found["cold_slots"].low, found["cold_slots"].measured) == (120 // 125, (1_000 - 2) // 125)
    assert found["hot_headroom"].measured == 2 / 1_000
    # 1,600 tokens at 20,000/s and 400 x 15 ms are 6.08 s, and the later ones stay longer: four reports at once.
    assert found["cold_quota"].measured == 4 * 125 / 1_000


def test_lookups_of_several_answers_count_each() -> None:
    prompts = prompts_of([((0, 0), 1)])
    twice = Prompts(
        prompts.tokens.repeat(2), np.tile(prompts.ids, 2), np.array([0, 2, 4]), prompts.skip_lookup.repeat(2)
    )
    assert lru_curve(twice, CacheSpec(BLOCK)).at(None) == 8
