"""The log that other tools are measured on: exact figures, worked out by vLLM's rules outside this project."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvtools.flow import AnalyzeOptions, analyze


def _log(shared: Path, folder: Path, requests: int) -> Path:
    target = folder / f"peers-{requests}.jsonl"
    program = [sys.executable, str(shared / "peers/make_log.py"), "--n", str(requests), "--seed", "7"]
    subprocess.run([*program, "--out", str(target)], check=True)
    return target


@pytest.fixture(scope="module")
def small(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _log(shared, tmp_path_factory.mktemp("peers"), 2_000)


def test_unlimited_2000(small: Path) -> None:
    report = analyze(small, AnalyzeOptions(curve_blocks=(500, 2_000, 8_000)))
    assert report.cache.queried_tokens == report.prompt_tokens.total == 1_601_840
    assert report.cache.hit_tokens == report.ceiling.hit_tokens == 909_344
    assert round(100 * report.cache.hit_rate, 2) == 56.77
    # The curve is LRU; the pool at 500 blocks hits a little less, as a running request holds a partial block.
    assert report.curve[0].hit_tokens == 397_296
    assert sum(route.requests for route in report.routes) == report.requests == 2_000
    assert sum(route.cache.hit_tokens for route in report.routes) == 909_344


@pytest.mark.parametrize(
    ("blocks", "hit_tokens", "percent"),
    [(500, 396_832, 24.77), (2_000, 731_136, 45.64), (8_000, 861_344, 53.77)],
)
def test_limited_2000(small: Path, blocks: int, hit_tokens: int, percent: float) -> None:
    report = analyze(small, AnalyzeOptions(capacity_blocks=blocks))
    assert report.cache.hit_tokens == hit_tokens
    assert round(100 * report.cache.hit_rate, 2) == percent
    assert report.cache.capacity_blocks == blocks


def test_20000(shared: Path, tmp_path: Path) -> None:
    log = _log(shared, tmp_path, 20_000)
    unlimited = analyze(log)
    assert unlimited.cache.queried_tokens == 16_150_375
    assert unlimited.cache.hit_tokens == 9_988_848
    assert round(100 * unlimited.cache.hit_rate, 2) == 61.85
    for blocks, hit_tokens in ((8_000, 8_977_600), (32_000, 9_611_136)):
        assert analyze(log, AnalyzeOptions(capacity_blocks=blocks)).cache.hit_tokens == hit_tokens
