"""The figures of the audit are those worked out by hand in ``conftest.py``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from audited import BLOCK_BYTES, Audited, faults, finding

ModelFile = Callable[..., Path]


def test_block_sizes_at_unlimited_memory(audited: Audited) -> None:
    report = audited("vllm serve m")
    hits = {step.block_size: step.hit_tokens for step in report.block_sizes}
    assert hits == {16: 7_200, 32: 5_760, 64: 5_760, 128: 0, 256: 0}
    assert finding(report, "block-size").severity == "ok"
    assert (report.configuration.hit_tokens, report.configuration.queried_tokens) == (7_200, 10_000)


def test_the_folklore_that_a_block_has_as_many_tokens_as_the_model_layers(
    audited: Audited, model_file: ModelFile
) -> None:
    report = audited("vllm serve m --block-size 32", model_config=model_file(num_hidden_layers=32))
    found = finding(report, "block-size")
    assert found.severity == "high"
    assert found.value == pytest.approx(0.72 - 0.576)
    assert "16: 72.0 %, 32: 57.6 %" in found.measured
    assert "that it is the number of layers (32) means nothing" in found.measured


def test_sixty_one_layers_give_a_block_that_no_kernel_takes(audited: Audited, model_file: ModelFile) -> None:
    report = audited("vllm serve m --block-size 61", model_config=model_file(num_hidden_layers=61))
    # The head of 80 bytes holds one block of 61: 90 requests hit it.
    assert {step.block_size: step.hit_tokens for step in report.block_sizes}[61] == 90 * 61
    assert "number of layers (61)" in finding(report, "block-size-kernel").measured


def test_a_cache_switched_off_hits_nothing(audited: Audited) -> None:
    report = audited("vllm serve m --no-enable-prefix-caching")
    assert (report.configuration.hit_tokens, report.configuration.prefix_caching) == (0, False)
    assert finding(report, "prefix-caching").value == 0.72


@pytest.mark.parametrize(
    ("limit", "refused", "cut", "severity"),
    [(100, 100, 0, "high"), (101, 0, 100, "medium"), (109, 0, 100, "medium"), (110, 0, 0, "ok")],
)
def test_lengths_against_the_longest_sequence(
    audited: Audited, limit: int, refused: int, cut: int, severity: str
) -> None:
    found = finding(audited(f"vllm serve m --max-model-len {limit}"), "max-model-len")
    assert (found.value, found.severity) == (refused, severity)
    assert f"{refused} of 100 requests would be refused, {cut} answers cut" in found.measured


def test_requests_in_flight(audited: Audited) -> None:
    # Three or four are in flight from second 2 to second 101 of the 103 between first arrival and last answer.
    found = finding(audited("vllm serve m --max-num-seqs 2"), "max-num-seqs")
    assert found.severity == "high"
    assert found.value == pytest.approx(99 / 103)
    assert "up to 4 requests in flight" in found.measured
    # 100 requests in 99 s, and 0.8 of that.
    assert "0.8 of 1.01 requests/s, as some guides have it, is 0.8" in found.measured
    assert finding(audited("vllm serve m --max-num-seqs 4"), "max-num-seqs").severity == "ok"
    assert finding(audited("vllm serve m"), "max-num-seqs").severity == "ok"


@pytest.mark.parametrize(
    ("line", "room", "blocks"),
    [
        ("--kv-cache-memory-bytes 253952", {}, 30),  # 31 blocks of 8,192 bytes
        ("--kv-cache-memory-bytes 253952 -tp 2", {}, 61),  # each GPU holds one of two KV heads
        ("--kv-cache-memory-bytes 253952 -tp 8", {}, 61),  # and no less than one
        ("--kv-cache-memory-bytes 253952 -pp 2", {}, 61),  # half of the layers
        ("--kv-cache-memory-bytes 253952 --kv-cache-dtype fp8", {}, 61),
        ("--kv-cache-memory-bytes 253952 --block-size 32", {}, 14),  # 15 blocks of 16,384 bytes and a rest
        ("--num-gpu-blocks-override 31", {}, 30),
        ("", {"kv_memory": "253952"}, 30),
        ("", {"capacity_blocks": 77}, 77),
        # 0.5 of 1 MiB are 524,288 bytes; less 270,336 of weights 253,952.
        ("--gpu-memory-utilization 0.5", {"gpu_memory": "1MiB", "weights": "270336"}, 30),
        ("--kv-cache-dtype nvfp4 --kv-cache-memory-bytes 253952", {}, None),
        ("", {}, None),
    ],
)
def test_kv_memory_in_blocks(
    audited: Audited, model_file: ModelFile, line: str, room: dict[str, object], blocks: int | None
) -> None:
    report = audited(f"vllm serve m --max-model-len 200 {line}", model_config=model_file(), **room)
    assert report.configuration.capacity_blocks == blocks
    unjudged = {one.rule for one in report.not_judged}
    assert ("kv-memory" in unjudged) == (blocks is None)


def test_latent_attention_is_on_each_gpu(audited: Audited, model_file: ModelFile) -> None:
    # 4 layers x (kv_lora_rank 24 + rope 8) x 2 bytes = 256 bytes a token, 4,096 a block, with one GPU or with two.
    latent = model_file(model_type="deepseek_v3", kv_lora_rank=24, qk_rope_head_dim=8)
    for line in ("", "-tp 2"):
        report = audited(f"vllm serve m --kv-cache-memory-bytes {31 * 4096} {line}", model_config=latent)
        assert report.configuration.capacity_blocks == 30


def test_what_a_small_cache_loses_and_what_would_be_enough(audited: Audited, model_file: ModelFile) -> None:
    report = audited(
        f"vllm serve m --max-model-len 400 --kv-cache-memory-bytes {31 * BLOCK_BYTES}",
        model_config=model_file(),
    )
    found = finding(report, "kv-memory")
    assert (found.severity, found.value) == ("high", 0.72)
    assert "hit 0.0 % of 72.0 % within reach; 90.0 % of that take 59 blocks" in found.measured
    # Twice the blocks are 60, one more than it takes: all 72 points.
    assert finding(report, "kv-dtype").value == pytest.approx(0.72)


def test_one_sequence_must_fit_the_cache(audited: Audited, model_file: ModelFile) -> None:
    # 30 blocks hold 480 tokens.
    assert not faults(audited("vllm serve m --max-model-len 480", capacity_blocks=30)) - {
        ("kv-memory", "--gpu-memory-utilization", "high")
    }
    found = finding(audited("vllm serve m --max-model-len 481", capacity_blocks=30), "max-model-len-memory")
    assert (found.severity, found.advice) == ("high", "give --max-model-len 480 or less, or more memory")
    # Without the flag it is the model's own 8,192.
    report = audited("vllm serve m", capacity_blocks=30, model_config=model_file())
    assert (
        "8,192 tokens (the model's own limit) takes 512 blocks"
        in finding(report, "max-model-len-memory").measured
    )


def test_more_than_the_model_has_been_made_for(audited: Audited, model_file: ModelFile) -> None:
    config = model_file()
    long = "vllm serve m --max-model-len 16384"
    assert finding(audited(long, model_config=config), "max-model-len-model").severity == "high"
    assert not faults(audited(f"VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 {long}", model_config=config))
    assert not faults(audited(long, model_config=model_file(rope_scaling={"type": "yarn", "factor": 4.0})))


ARTICLE_A_BEFORE = {
    "block_size": 61,
    "gpu_memory_utilization": 0.9,
    "max_num_seqs": 2,
    "enable_prefix_caching": False,
    "max_model_len": 105,
    "quantization": "int8_kv",
}
ARTICLE_A_AFTER = {
    "block_size": 16,
    "gpu_memory_utilization": 0.85,
    "max_num_seqs": 64,
    "enable_prefix_caching": True,
    "max_model_len": 8192,
    "quantization": "fp8",
}


def test_article_as_configuration_before_and_after(
    audited: Audited, tmp_path: Path, model_file: ModelFile
) -> None:
    """The six keys that the article audits; as engine arguments in JSON, false is false."""
    config, model = tmp_path / "engine.json", model_file(num_hidden_layers=61)
    config.write_text(json.dumps(ARTICLE_A_BEFORE))
    assert faults(audited(config=config, model_config=model)) == {
        ("block-size-kernel", "--block-size", "high"),
        ("block-size", "--block-size", "high"),
        ("max-num-seqs", "--max-num-seqs", "high"),
        ("prefix-caching", "--no-enable-prefix-caching", "high"),
        ("max-model-len", "--max-model-len", "medium"),
        ("quantization", "--quantization", "high"),
    }
    config.write_text(json.dumps(ARTICLE_A_AFTER))
    assert faults(audited(config=config, model_config=model)) == set()


def test_a_false_that_vllm_drops_from_yaml(audited: Audited, tmp_path: Path) -> None:
    config = tmp_path / "serve.yaml"
    config.write_text("model: m\nenable_prefix_caching: false\n")
    report = audited(config=config)
    # vLLM 0.32 leaves the cache on: the key has underscores.
    assert report.configuration.prefix_caching
    assert (
        finding(report, "config-dropped").advice == "write the key with hyphens: enable-prefix-caching: false"
    )
    config.write_text("model: m\nenable-prefix-caching: false\n")
    assert faults(audited(config=config)) == {("prefix-caching", "--no-enable-prefix-caching", "high")}


def test_the_line_wins_over_its_config_file(audited: Audited, tmp_path: Path) -> None:
    config = tmp_path / "serve.yaml"
    config.write_text("max-model-len: 50\nmax-num-seqs: 4\n")
    report = audited(f"vllm serve m --config {config} --max-model-len 8192")
    assert faults(report) == set()
    assert report.configuration.set_flags == ["--max-model-len", "--max-num-seqs"]
    missing = audited("vllm serve m --config not-here.yaml")
    assert faults(missing) == {("config-unread", "--config", "medium")}


def test_folklore_is_answered_with_what_the_engine_has(audited: Audited) -> None:
    report = audited("vllm serve m --warmup-tokens 64 --enable-prefix-cache-sharing")
    said = {one.flag: one.advice for one in report.audit if one.rule == "unknown-flag"}
    assert "kvtools warmup" in said["--warmup-tokens"]
    assert "cache_salt" in said["--enable-prefix-cache-sharing"]
    near = finding(audited("vllm serve m --max-num-sequences 64"), "unknown-flag")
    assert near.advice == "leave it out, or write --max-num-seqs if that is meant"


@pytest.mark.parametrize(
    "line",
    [
        "--block-size -5",
        "--block-size 99999999999999999999 --num-gpu-blocks-override 99999999999999999999",
        "-tp 0 -pp 0 --gpu-memory-utilization 0",
        "--block-size 0 --max-num-seqs 0 --max-num-batched-tokens 0 --max-model-len 0",
        "-tp $TP --kv-cache-memory-bytes 253952",
    ],
)
def test_values_out_of_all_range_are_told_not_tripped_over(
    audited: Audited, model_file: ModelFile, line: str
) -> None:
    report = audited(f"vllm serve m {line}", model_config=model_file(), gpu_memory="1GiB")
    assert "$" not in line or any("known to the shell only" in gap.why for gap in report.not_judged)
    assert report.configuration.queried_tokens == 10_000


def test_what_stands_behind_a_flag_is_not_repeated(audited: Audited) -> None:
    report = audited(
        "vllm serve m --api-key=sk-secret --api-key=sk-secret --cold-key=sk-secret --api-k sk-secret"
    )
    assert {one[:2] for one in faults(report)} == {("twice", "--api-key"), ("unknown-flag", "--cold-key")}
    assert "secret" not in report.to_json()


def test_a_model_that_is_not_modelled_leaves_the_rest_to_be_audited(
    audited: Audited, model_file: ModelFile
) -> None:
    mamba = model_file(mamba_d_state=16, num_hidden_layers=32)
    report = audited("vllm serve m --max-model-len 100 --block-size 32", model_config=mamba, kv_memory="1GiB")
    (gap,) = [one for one in report.not_judged if one.rule == "kv-memory"]
    assert "Mamba layers" in gap.why
    assert finding(report, "max-model-len").severity == "high"
    assert audited("vllm serve m", model_config=mamba, capacity_blocks=60).configuration.capacity_blocks == 60
