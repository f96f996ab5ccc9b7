"""What ``kvtools normalize`` promises is what vLLM counts: the log before and after, every request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from conftest import BLOCK_TOKENS, kvtools, replayed

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 5_000


def _counted(log: Path) -> dict[str, Any]:
    """Return what vLLM counted, once it is what the simulator says, request by request."""
    report = replayed(log, "--engine", "simulator,vllm")
    predicted, observed = report["replays"]
    assert report["compare"]["different_requests"] == 0, report["compare"]["differences"]
    assert report["compare"]["equal_requests"] == REQUESTS
    for figure in ("queried_tokens", "hit_tokens", "hit_rate"):
        assert predicted[figure] == observed[figure]
    assert observed["engine"].startswith("vllm 0.")
    assert observed["notes"] == []  # its own counters agree with its requests
    figures: dict[str, Any] = observed
    return figures


def test_the_shop_assistant_before_and_after(data: Path, tmp_path: Path) -> None:
    """The gain is the engine's: what ``normalize`` reports is what vLLM counts, before and after."""
    log, out, back = data / "shop-assistant.jsonl", tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    page = kvtools("normalize", log, "-o", out, "--block-size", str(BLOCK_TOKENS), "--format", "json")
    report = json.loads(page)
    assert report["requests"]["changed"] == REQUESTS
    before, after = _counted(log), _counted(out)
    assert (before["hit_rate"], after["hit_rate"]) == (
        report["hit_rate"]["before"],
        report["hit_rate"]["after"],
    )
    assert after["hit_rate"] > before["hit_rate"]
    kvtools("restore", out, "-o", back)
    assert back.read_bytes() == log.read_bytes()
