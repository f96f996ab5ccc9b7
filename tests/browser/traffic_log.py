"""A small log that has something for every figure: two classes, two routes, conversations, a clock, reported hits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HEAD = "You are the assistant of a small garden shop. Answer in two sentences and name the plant first. " * 3
LONG = "Summarise the diary of the greenhouse for the head gardener, week by week, plant by plant. " * 40
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
"""Of a token: 32 layers, keys and values, 8 heads of 128, two bytes each: 131,072 bytes."""


def lines(hot: int = 240, cold: int = 40) -> list[dict[str, Any]]:
    """Return short questions every three seconds, with a user id in front, and long jobs every twenty."""
    asked = [
        {
            "id": f"hot-{n}", "timestamp": 1_784_000_000 + 3 * n, "tenant": "shop" if n % 3 else "desk",
            "session_id": f"s-{n // 2}", "model": "demo",
            "prompt": f"User {7919 * (n + 3) % 90_000 + 10_000}. {HEAD}Question {n % 11}: does plant {n % 5} like shade?",
            "usage": {"prompt_tokens": 350, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 0}},
        }
        for n in range(hot)
    ]  # fmt: skip
    jobs = [
        {
            "id": f"cold-{n}", "timestamp": 1_784_000_001 + 18 * n, "tenant": "jobs", "session_id": f"j-{n}", "model": "demo",
            "prompt": f"{LONG}Diary {n}: " + f"day {n} rain {13 * n % 7} " * 90,
            "usage": {"prompt_tokens": 5_200, "completion_tokens": 400, "prompt_tokens_details": {"cached_tokens": 0}},
        }
        for n in range(cold)
    ]  # fmt: skip
    return sorted([*asked, *jobs], key=lambda line: line["timestamp"])


def write_traffic(folder: Path) -> tuple[Path, Path]:
    """Write the log and a model's ``config.json`` into ``folder`` and return where they are."""
    log, config = folder / "traffic.jsonl", folder / "config.json"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines()), encoding="utf-8")
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    return log, config
