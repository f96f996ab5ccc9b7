"""A real Prometheus scrapes a real vLLM under load: the recorded hit ratio is the truth told per request."""

from __future__ import annotations

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import yaml
from conftest import kvtools
from monitor.prometheus_tools import ask, needs_prometheus, prometheus

ROUNDS = 12
SCRAPE_S = 1
AT_ONCE = 4


def cached_of(url: str, prompt: str) -> tuple[int, int]:
    """Send a prompt and return its tokens and those that vLLM says were cached."""
    model = json.load(urllib.request.urlopen(f"{url}/v1/models", timeout=60))["data"][0]["id"]  # noqa: S310
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/completions", body, headers)  # noqa: S310 - our own http
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
        usage = json.load(answer)["usage"]
    return usage["prompt_tokens"], (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0


def prompts(name: str, count: int, alone: int) -> list[str]:
    """Prompts that share a long head, but every ``alone``-th, which shares nothing."""
    head = f"{name} rosemary survives frost where the soil is dry. " * 20
    return [
        f"{head} Question {number}?" if number % alone else f"{name} {number} " + f"thyme {number} " * 60
        for number in range(count)
    ]


@needs_prometheus
def test_the_recorded_ratio_equals_the_truth_per_request(server: str, data: Path, tmp_path: Path) -> None:
    kvtools("export", "prometheus-rules", data / "canonical.chat.jsonl", "-o", tmp_path)
    # rate() extrapolates a counter to the start of its window, but not below 0: as far for hits as for queries only
    # where both have counted for a while. Half of these share nothing: a lifetime average would show another ratio.
    for prompt in prompts("before", 3 * ROUNDS, 2):
        cached_of(server, prompt)
    config = {
        "global": {"scrape_interval": f"{SCRAPE_S}s", "evaluation_interval": f"{SCRAPE_S}s"},
        "rule_files": [str(tmp_path / "kvtools.rules.yaml")],
        "scrape_configs": [
            {"job_name": "vllm", "static_configs": [{"targets": [server.removeprefix("http://")]}]}
        ],
    }
    with prometheus(tmp_path, config) as url:
        for _ in range(60):
            if ask(url, "vllm:prefix_cache_queries_total"):
                break
            time.sleep(SCRAPE_S)
        time.sleep(2 * SCRAPE_S)
        with ThreadPoolExecutor(AT_ONCE) as senders:
            counted = list(senders.map(partial(cached_of, server), prompts("while", 3 * ROUNDS, 3)))
        time.sleep(4 * SCRAPE_S)
        tokens, cached = (sum(column) for column in zip(*counted, strict=True))
        found = ask(url, "kvtools:prefix_cache_hit_ratio:rate5m")
        assert 0 < cached < tokens
        assert list(found.values()) == [pytest.approx(cached / tokens, rel=1e-9)]
        (labels,) = found
        assert labels.startswith('job="vllm",model_name="')
        assert ask(url, "kvtools:prefix_cache_total_hit_ratio:rate5m") == pytest.approx(found)
        parts = "kvtools:prefix_cache_hits:rate5m / kvtools:prefix_cache_queries:rate5m"
        assert ask(url, parts) == pytest.approx(found)
        rules = yaml.safe_load((tmp_path / "kvtools.rules.yaml").read_text())
        names = [rule["record"] for rule in rules["groups"][0]["rules"]]
        # Every recording rule finds its metric in a real vLLM.
        assert [name for name in names if not ask(url, name)] == []
        assert ask(url, "ALERTS") == {}
