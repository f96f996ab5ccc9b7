"""What the simulator predicts is what vLLM counts: every request, through ``kvtools replay --engine simulator,vllm``."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import kvtools, replayed


def _equal(report: dict, requests: int) -> tuple[dict, dict]:
    predicted, observed = report["replays"]
    assert report["compare"]["different_requests"] == 0, report["compare"]["differences"]
    assert report["compare"]["equal_requests"] == requests
    assert (predicted["queried_tokens"], predicted["hit_tokens"]) == (
        observed["queried_tokens"],
        observed["hit_tokens"],
    )
    assert predicted["preemptions"] == observed["preemptions"]
    assert observed["engine"].startswith("vllm 0.")
    assert observed["notes"] == []  # its own counters agree with its requests
    return predicted, observed


def test_the_shop_assistant_whole(data: Path) -> None:
    predicted, _ = _equal(replayed(data / "shop-assistant.jsonl", "--engine", "simulator,vllm"), 5_000)
    assert predicted["hit_tokens"] > 0


def test_the_first_300_requests_of_the_common_log(peers: Path) -> None:
    _equal(replayed(peers, "--engine", "simulator,vllm"), 300)


@pytest.mark.parametrize("arrivals", ["sequential", "closed"])
def test_a_small_cache_with_evictions(peers: Path, arrivals: str) -> None:
    small = ["--capacity-blocks", "150", "--max-num-seqs", "8", "--max-num-batched-tokens", "1024"]
    predicted, _ = _equal(replayed(peers, "--engine", "simulator,vllm", "--arrivals", arrivals, *small), 300)
    assert predicted["evictions"] > 1_000


def test_priority_and_recorded_lengths(tmp_path: Path) -> None:
    # 40 requests over 3 shared heads; every third is urgent; answers of 1 to 40 tokens; 24 blocks preempt.
    log = tmp_path / "log.jsonl"
    lines = []
    for n in range(40):
        ids = [100 + n % 3] * 70 + [1_000 + 50 * n + k for k in range(20 + n % 7)]
        row = {
            "id": f"r{n}",
            "prompt_token_ids": ids,
            "output_tokens": 1 + 13 * n % 40,
            "priority": 0 if n % 3 else -1,
        }
        lines.append(str(row).replace("'", '"'))
    log.write_text("\n".join(lines))
    report = replayed(
        log, "--engine", "simulator,vllm", "--arrivals", "closed", "--policy", "priority", "--outputs", "lengths",
        "--capacity-blocks", "24", "--max-num-seqs", "6", "--max-num-batched-tokens", "256",
    )  # fmt: skip
    predicted, _ = _equal(report, 40)
    assert predicted["evictions"] > 0


def test_a_block_size_that_the_cpu_engine_does_not_take(data: Path) -> None:
    kvtools("replay", data / "canonical.tokens.jsonl", "--engine", "vllm", "--block-size", "16", code=2)


def test_a_request_over_the_length_is_refused_and_the_rest_runs(data: Path) -> None:
    report = replayed(data / "canonical.tokens.jsonl", "--engine", "simulator,vllm", "--max-model-len", "100")
    assert [replay["refused_requests"] for replay in report["replays"]] == [1, 1]  # c-4 has 163 tokens
    _equal(report, 5)
