"""Record a real vLLM on the CPU: mixed traffic at given times, and when each request got its first and last token.

    make fit-schedule         (runs this in the environment of make test-vllm, then benchmarks/schedule_fit.py)

One process, steps one after another, a small model with random weights: hits, steps and waiting do not depend on what
the model says. Arrivals are random (Poisson, with bursts of cold requests). The clock is the CPU time of the engine's
process and jumps to the next arrival when nothing is left to do: what else runs on the machine takes no time on it. A
request is handed over when its time has come, as soon as the step before has ended.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

REQUESTS, RATE_S, SEED = 1_200, 8.0, 13
HEADS, HEAD_TOKENS, VOCABULARY = 6, 128, 2_048
BLOCK_SIZE, BLOCKS, SEATS, BUDGET = 32, 400, 16, 1_024
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 256,
    "intermediate_size": 512,
    "max_position_embeddings": 4_096,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": True,
    "vocab_size": VOCABULARY,
}
BEGIN_US = 1_784_073_600_000_000


def requests() -> list[dict[str, Any]]:
    """Return the traffic: short hot requests that share heads, and bursts of long cold ones of their own text."""
    chance = random.Random(SEED)
    heads = [[chance.randrange(3, VOCABULARY) for _ in range(HEAD_TOKENS)] for _ in range(HEADS)]
    at, rows, burst = 0.0, [], 0
    for number in range(REQUESTS):
        at += chance.expovariate(RATE_S)
        if burst == 0 and chance.random() < 0.03:
            burst = chance.randint(3, 10)
        cold = burst > 0
        burst -= int(cold)
        head = [] if cold else chance.choice(heads)
        own = chance.randint(400, 1_600) if cold else chance.randint(16, 200)
        rows.append(
            {
                "request_id": f"run-{number:05d}",
                "arrival_us": round(1e6 * at),
                "token_ids": head + [chance.randrange(3, VOCABULARY) for _ in range(own)],
                "output_tokens": chance.randint(16, 48) if cold else chance.randint(2, 16),
                "route": "report" if cold else "chat",
            }
        )
    return rows


def engine(folder: str) -> Any:
    """Return vLLM's own engine, in this process."""
    from vllm import LLM  # noqa: PLC0415 - reads the environment when it is imported

    (Path(folder) / "config.json").write_text(json.dumps(MODEL))
    llm = LLM(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        block_size=BLOCK_SIZE,
        num_gpu_blocks_override=BLOCKS + 1,
        max_num_seqs=SEATS,
        max_num_batched_tokens=BUDGET,
        max_model_len=MODEL["max_position_embeddings"],
        async_scheduling=False,
    )
    return llm.llm_engine


def drive(running: Any, rows: list[dict[str, Any]]) -> None:
    """Send the requests at their times; add ``ttft_us``, ``latency_us`` and ``cached_tokens`` to each."""
    from vllm import SamplingParams  # noqa: PLC0415

    by_id = {row["request_id"]: row for row in rows}
    waiting, now = list(reversed(rows)), 0
    while waiting or running.has_unfinished_requests():
        if not running.has_unfinished_requests():
            now = max(now, waiting[-1]["arrival_us"])
        begun = time.process_time()
        while waiting and waiting[-1]["arrival_us"] <= now:
            row = waiting.pop()
            sampling = SamplingParams(
                max_tokens=row["output_tokens"], ignore_eos=True, detokenize=False, temperature=0
            )
            running.add_request(row["request_id"], {"prompt_token_ids": row["token_ids"]}, sampling)
        outputs = running.step()
        now += round(1e6 * (time.process_time() - begun))
        for output in outputs:
            row = by_id[output.request_id]
            if output.outputs and output.outputs[0].token_ids:
                row.setdefault("ttft_us", now - row["arrival_us"])
            if output.finished:
                row["latency_us"] = now - row["arrival_us"]
                row["cached_tokens"] = output.num_cached_tokens


def main() -> None:
    """Run the traffic as often as files are named, in one engine with its cache emptied in between."""
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        running = engine(folder)
        drive(running, requests()[:60])  # what the first steps set up is not measured
        for path in sys.argv[1:]:
            running.reset_prefix_cache()
            rows = requests()
            drive(running, rows)
            for row in rows:
                row["prompt_tokens"] = len(row["token_ids"])
                row["timestamp"] = (BEGIN_US + row.pop("arrival_us")) / 1e6
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows), path)


if __name__ == "__main__":
    main()
