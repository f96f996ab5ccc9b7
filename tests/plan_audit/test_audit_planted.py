"""Ten command lines with planted mistakes: every mistake is found and nothing else. Ten good ones: nothing is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from audited import BLOCK_BYTES, Audited, faults

PLANTED = {
    "cold-path-article": (
        (
            "vllm serve deepseek-ai/DeepSeek-V4 --max-num-seqs 64 --cold-max-num-seqs 8 --warmup-tokens 256 "
            "--cold_timeout_ms 3000 --enable-cold-path --scheduler-policy priority"
        ),
        {
            ("unknown-flag", "--cold-max-num-seqs", "high"),
            ("unknown-flag", "--warmup-tokens", "high"),
            ("unknown-flag", "--cold_timeout_ms", "high"),
            ("unknown-flag", "--enable-cold-path", "high"),
            ("unknown-flag", "--scheduler-policy", "high"),
        },
    ),
    "cache-off": (
        "vllm serve Qwen/Qwen3-8B --no-enable-prefix-caching --port 8000",
        {("prefix-caching", "--no-enable-prefix-caching", "high")},
    ),
    "too-short-and-too-few": (
        "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --max-model-len=100 --max-num-seqs 2",
        {("max-model-len", "--max-model-len", "high"), ("max-num-seqs", "--max-num-seqs", "high")},
    ),
    "coarse-block": (
        "VLLM_USE_V1=1 vllm serve Qwen/Qwen3-8B --block_size 64 -tp 2",
        {("unknown-variable", "VLLM_USE_V1", "medium"), ("block-size", "--block-size", "high")},
    ),
    "docker-with-true": (
        (
            "docker run --rm --gpus all -p 8000:8000 -e VLLM_ATTENTION_BACKEND=FLASHINFER vllm/vllm-openai:latest "
            "--model Qwen/Qwen3-8B --enable-prefix-caching True --kv-cache-dtype fp16"
        ),
        {
            ("unknown-variable", "VLLM_ATTENTION_BACKEND", "medium"),
            ("takes-no-value", "--enable-prefix-caching", "high"),
            ("bad-value", "--kv-cache-dtype", "high"),
        },
    ),
    "no-chunks": (
        "vllm serve Qwen/Qwen3-8B --no-enable-chunked-prefill --max-num-batched-tokens 2048 --max-model-len 32k",
        {("chunked-prefill-off", "--no-enable-chunked-prefill", "high")},
    ),
    "old-guide": (
        (
            "vllm serve Qwen/Qwen3-8B --swap-space 16 --num-scheduler-steps 8 --disable-log-requests "
            "--gpu-memory-utilization 90"
        ),
        {
            ("unknown-flag", "--swap-space", "high"),
            ("unknown-flag", "--num-scheduler-steps", "high"),
            ("unknown-flag", "--disable-log-requests", "high"),
            ("gpu-memory-utilization", "--gpu-memory-utilization", "high"),
        },
    ),
    "config-key": (
        "vllm serve Qwen/Qwen3-8B --compilation-config.cudagraph_moode FULL --quantization awq_fast --block-size 61",
        {
            ("bad-value", "--compilation-config", "high"),
            ("quantization", "--quantization", "high"),
            ("block-size-kernel", "--block-size", "high"),
            (
                "block-size",
                "--block-size",
                "high",
            ),  # one block of 61 tokens of each head: 5,490 against 7,200
        },
    ),
    "step-too-small": (
        (
            "vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 64 --max-num-seqs 128 --scheduling-policy priority "
            "--disable-log-stats --max-num-seqs 128"
        ),
        {
            ("batched-below-seqs", "--max-num-batched-tokens", "high"),
            ("max-num-batched-tokens", "--max-num-batched-tokens", "medium"),
            ("priority", "--scheduling-policy", "medium"),
            ("counters", "--disable-log-stats", "medium"),
            ("twice", "--max-num-seqs", "medium"),
        },
    ),
    "answers-cut": (
        "vllm serve Qwen/Qwen3-8B --max-num 8 --max-model-len 105 --config=serve.yaml stray",
        {
            ("ambiguous", "--max-num", "high"),
            ("max-model-len", "--max-model-len", "medium"),
            ("config-ignored", "--config", "medium"),
            ("stray", "stray", "high"),
        },
    ),
}

GOOD = [
    "vllm serve Qwen/Qwen3-8B",
    "vllm serve Qwen/Qwen3-8B --enable-prefix-caching --port 8000 --host 0.0.0.0",
    "vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 4 --max-model-len 32k --gpu-memory-utilization 0.95",
    "vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size=8 --enable-expert-parallel --trust-remote-code",
    "CUDA_VISIBLE_DEVICES=0,1 VLLM_LOGGING_LEVEL=INFO vllm serve m -tp=2 --max-num-seqs 64 --max-num-batched-tokens 8K",
    (
        "docker run --runtime nvidia --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface "
        "--env HF_TOKEN=$HF_TOKEN -p 8000:8000 --ipc=host vllm/vllm-openai:v0.32.0 "
        "--model mistralai/Mistral-7B-v0.1 --max_model_len 8192"
    ),
    (
        "python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --served-model-name qwen chat "
        "--kv-cache-dtype fp8 --quantization fp8 -O3"
    ),
    """nohup vllm serve Qwen/Qwen3-8B \\
        --compilation-config '{"mode": 3, "pass_config": {"fuse_norm_quant": true}}' \\
        --speculative-config.method ngram --speculative-config.num_speculative_tokens 3 \\
        --block-size 16 > serve.log 2>&1 &""",
    "vllm serve $MODEL --max-model-len $MAX_LEN --gpu-memory 0.9 --no-enable-log-requests --max-num-seqs 256",
    (
        "vllm serve Qwen/Qwen3-8B --chat-template-content-format openai --enable-auto-tool-choice "
        "--tool-call-parser hermes --limit-mm-per-prompt.image 2 --max-model-len auto "
        "--override-generation-config '{\"temperature\": 0}'"
    ),
]


@pytest.mark.parametrize("name", PLANTED)
def test_every_planted_mistake_is_found_and_nothing_else(audited: Audited, name: str) -> None:
    line, expected = PLANTED[name]
    assert faults(audited(line)) == expected


@pytest.mark.parametrize("place", range(len(GOOD)))
def test_a_good_line_gives_no_alarm(audited: Audited, place: int) -> None:
    assert faults(audited(GOOD[place])) == set()


def test_a_cache_that_is_too_small(audited: Audited, model_file: Callable[..., Path]) -> None:
    line = f"vllm serve m --kv-cache-memory-bytes {31 * BLOCK_BYTES} --max-model-len 400"
    report = audited(line, model_config=model_file())
    assert report.configuration.capacity_blocks == 30  # one of 31 is vLLM's null block
    assert faults(report) == {("kv-memory", "--gpu-memory-utilization", "high")}
