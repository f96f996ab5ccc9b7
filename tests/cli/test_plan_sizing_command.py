"""``kvtools plan sizing``: the JSON names, the page, and bad input in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

LLAMA3_8B = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA3_8B))
    return path


def test_sizes_of_a_small_log(kvtools: Run, log: Path, config: Path) -> None:
    """Requests a and b share 32 of 40 bytes: two blocks, for which three blocks have to fit beside each other."""
    done = kvtools(
        "plan",
        "sizing",
        log,
        "--tokenizer",
        "bytes",
        "--model-config",
        config,
        "--no-classes",
        "--format",
        "json",
    )
    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)
    assert report["kv"] == {
        "attention": "full attention",
        "bytes_per_token": 131_072,
        "bytes_per_block": 2 << 20,
    }
    assert [(one["share_of_ceiling"], one["capacity_blocks"], one["gib"]) for one in report["sizing"]] == [
        (share, 3, 4 / 512) for share in (0.5, 0.8, 0.9, 0.95, 0.99)
    ]
    assert {(one["hit_tokens"], one["optimal_hit_tokens"]) for one in report["sizing"]} == {(32, 32)}
    assert report["ceiling"] == {"hit_tokens": 32, "hit_rate": 32 / 120}
    assert (report["current"], report["offload"]) == (None, [])
    assert (report["largest_prompt_blocks"], report["mean_prompt_blocks"], report["unique_blocks"]) == (
        3,
        3.0,
        4,
    )
    assert report["working_set"]["peak_live_blocks"] == 2
    assert [one["name"] for one in report["formulas"]] == [
        "max_num_seqs", "warmup_tokens", "cold_slots", "hot_to_cold_slots", "cold_quota", "hot_headroom",
    ]  # fmt: skip


def test_the_page_of_a_known_cache(kvtools: Run, log: Path, config: Path) -> None:
    """8 MiB hold four blocks of 2 MiB, one of which is the null block."""
    done = kvtools(
        "plan", "sizing", log, "--tokenizer", "bytes", "--model-config", config, "--kv-memory", "8MiB",
        "--offload-blocks", "5", "--no-classes",
    )  # fmt: skip
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "90 % of the hits within reach take 3 blocks (0.01 GiB): 26.7 % hit rate."
    assert "This cache      3 blocks (0.01 GiB): 26.7 %; best order 26.7 %" in lines
    assert "99 %                       3      0.01     26.7 %       26.7 %" in lines
    assert any(line.split() == ["5", "0.01", "26.7", "%", "26.7", "%"] for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_the_next_step_names_the_size(kvtools: Run, log: Path) -> None:
    done = kvtools("plan", "sizing", log, "--tokenizer", "bytes", "--no-classes")
    assert done.out.splitlines()[-1].endswith("--no-classes --capacity-blocks 3")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--offload-blocks", "5"], "a tier behind a cache of known size"),
        (["--kv-memory", "1GiB"], "go together"),
        (["--kv-dtype", "fp8"], "it goes with --model-config"),
        (["--capacity-blocks", "5", "--offload-blocks", "0"], "at least 1"),
    ],
)
def test_wrong_use_is_one_sentence(kvtools: Run, log: Path, options: list[str], said: str) -> None:
    done = kvtools("plan", "sizing", log, *options)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_model_that_is_not_modelled_is_refused_before_the_log_is_read(kvtools: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA3_8B | {"sliding_window": 4096}))
    done = kvtools("plan", "sizing", tmp_path / "nowhere.jsonl", "--model-config", config)
    assert done.code == 3
    assert "a sliding window" in done.err
