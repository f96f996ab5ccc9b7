"""The counters of a running ``vllm serve``, as ``analyze metrics`` and ``watch`` read them, against the log that it served."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from conftest import BLOCK_TOKENS, kvtools, replayed

REQUESTS = 100


def scraped(server: str, path: Path) -> Path:
    with urllib.request.urlopen(f"{server}/metrics", timeout=30) as page:  # noqa: S310 - our own http
        path.write_bytes(page.read())
    return path


def test_the_engine_counts_what_the_log_predicts(server: str, data: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\n".join((data / "shop-assistant.jsonl").read_bytes().split(b"\n")[:REQUESTS]))
    before = scraped(server, tmp_path / "before.prom")
    program = [sys.executable, "-m", "kvtools", "watch", server, "--interval", "1s", "--format", "json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        first = json.loads(watcher.stdout.readline())
        report = replayed(log, "--engine", "simulator,server", "--url", server)
        predicted = report["replays"][0]
        tick = first
        while tick["total"]["queried"] < predicted["queried_tokens"]:
            tick = json.loads(watcher.stdout.readline())
        watcher.kill()
    after = scraped(server, tmp_path / "after.prom")
    said = json.loads(
        kvtools("analyze", "metrics", before, after, "--log", log, "--block-size", str(BLOCK_TOKENS), "--format", "json")
    )  # fmt: skip
    assert (said["verdict"]["kind"], said["unit"]) == ("agrees", "tokens")
    counted = (predicted["queried_tokens"], predicted["hit_tokens"])
    assert (said["queried"], said["hit"]) == counted
    assert (said["predicted"]["queried_tokens"], said["predicted"]["hit_tokens"]) == counted
    assert (said["finished_requests"], said["prompt_tokens"]) == (REQUESTS, predicted["queried_tokens"])
    assert {name: count for name, count in said["by_source"].items() if count} == {"device": said["hit"]}
    assert len(said["engines"]) == 1
    assert said["kv_usage"]["scrapes"] == 2  # no request runs: 0 %, and the cache is full of prefixes
    assert said["kv_usage"]["max"] == 0
    # The watch began before the replay and saw the same.
    assert (tick["total"]["queried"], tick["total"]["hit"], tick["restarts"]) == (*counted, 0)
