"""What is watched line by line comes to what ``analyze`` says of the whole log, and a server's counters to their growth."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from metrics_pages import page

from kvtools.errors import EngineError, InputError, KvtoolsError, RejectedInput, UsageError
from kvtools.flow import AnalyzeOptions, LogWatch, ServerWatch, WatchOptions, analyze, watch
from kvtools.report.watch import LogTick, ServerTick
from kvtools.report.watch_text import line

PLAIN: dict[str, Any] = {"tokenizer": "bytes", "chat_template": "plain"}


def watched(path: Path, **given: Any) -> LogWatch:
    found = watch(str(path), WatchOptions(findings=False, **(PLAIN | given)))
    assert isinstance(found, LogWatch)
    return found


def whole(path: Path, parts: int = 7, **given: Any) -> LogTick:
    """Watch a log that is written in parts, cut anywhere."""
    data = path.read_bytes()
    growing = path.with_name("growing.log")
    growing.write_bytes(b"")
    found = watched(growing, **given)
    size = len(data) // parts + 1
    for start in range(0, len(data), size):
        with growing.open("ab") as file:
            file.write(data[start : start + size])
        found.look()
    found.close()
    return found.tick(1.0)


def matches(path: Path, tick: LogTick, **given: Any) -> None:
    report = analyze(path, AnalyzeOptions(findings=False, classes=False, **(PLAIN | given)))
    assert report.cache is not None
    assert (tick.total.requests, tick.total.queried, tick.total.hit) == (
        report.requests,
        report.cache.queried_tokens,
        report.cache.hit_tokens,
    )
    assert tick.total.hit_rate == report.cache.hit_rate
    for name in ("read", "rejected", "without_prompt", "duplicates", "not_sent"):
        assert getattr(tick, name) == getattr(report.coverage, name), name
    assert tick.evictions == 0


@pytest.mark.parametrize("name", ["shop-assistant.jsonl"])
def test_a_log_comes_to_what_analyze_says(data: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"".join((data / name).read_bytes().splitlines(keepends=True)[:400]))
    matches(path, whole(path, 7), tokenizer="bytes")


def test_what_is_special_comes_to_what_analyze_says(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    text = "the same head of all requests, and more of it " * 3
    lines: list[dict[str, Any]] = [
        {"id": "a", "prompt": text},
        {"id": "a", "prompt": text},  # logged twice
        {"id": "b", "prompt": text, "n": 3},
        {"id": "c", "prompt": text, "prompt_logprobs": 1},
        {"id": "d", "prompt": text + "x", "status": "connection_error"},
        {"id": "e", "prompt": text + "y"},
        {"id": "f", "usage": {"prompt_tokens": 5}},
        {
            "id": "g",
            "prompt": text,
            "usage": {"prompt_tokens": 138, "prompt_tokens_details": {"cached_tokens": 96}},
        },
        {"id": "h", "prompt": text, "usage": {"prompt_tokens_details": {"cached_tokens": 96}}},
    ]
    encoded = [json.dumps(one).encode() for one in lines]
    path.write_bytes(b"\n".join((*encoded[:4], b"no json", encoded[4] + encoded[5], *encoded[6:])))
    tick = whole(path, 5)
    matches(path, tick)
    # Only the request of which the server told both sides is a rate of its own.
    assert tick.reported is not None
    assert (tick.reported.requests, tick.reported.queried, tick.reported.hit) == (1, 138, 96)
    assert tick.last_reject is not None
    assert tick.last_reject.startswith(f"{path.with_name('growing.log')}:5: ")


def test_a_trace_of_block_ids_comes_to_what_analyze_says(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    blocks = [[1, 2, 3], [1, 2, 3], [1, 2, 4], [5], [1, 2, 3, 6]]
    path.write_text(
        "\n".join(
            json.dumps(
                {"timestamp": n, "input_length": 512 * len(ids) - 100, "output_length": 1, "hash_ids": ids}
            )
            for n, ids in enumerate(blocks)
        )
    )
    matches(path, whole(path, 3))


def test_a_prompt_of_a_server_log_waits_for_its_requests_line(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    head = "{} 08-01 12:00:0{} [logger.py:39] "
    lines = []
    for number in range(4):
        prompt = "a shared head of some length, then " + "abcd"[number]
        lines.append(
            head.format("DEBUG", number)
            + f"Request r{number} details: prompt: '{prompt}', prompt_token_ids: None."
        )
        lines.append(
            head.format("INFO", number)
            + f"Received request r{number}: params: SamplingParams(n=1), lora_request: None."
        )
    path.write_text("\n".join(lines) + "\n")
    for parts in (1, 9, 40):
        tick = whole(path, parts)
        matches(path, tick)
        assert tick.total.requests == 4


def test_intervals_recent_requests_and_classes(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("")
    found = watched(path, recent=2)

    def add(*prompts: str) -> LogTick:
        with path.open("a") as file:
            file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
        found.look()
        return found.tick(1.0)

    first = add("a" * 40, "a" * 40)
    assert (first.now.hit, first.recent.hit_rate, first.cold_share) == (32, 32 / 80, 0)
    second = add("b" * 1001)
    assert (second.now.queried, second.now.hit, second.total.queried) == (1001, 0, 1081)
    assert (second.recent.queried, second.recent.hit, second.cold_share) == (1041, 32, 0.5)
    idle = add()
    assert (idle.now.requests, idle.now.hit_rate, idle.total.hit) == (0, None, 32)
    found.close()


def test_a_cache_with_a_limit_forgets_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"prompt": letter * 33}) + "\n" for letter in "aba"))
    limited = watched(path, capacity_blocks=2)
    limited.look()
    tick = limited.tick(1.0)
    assert (tick.total.hit, tick.evictions) == (0, 4)
    assert "worst: left out: --no-findings" in line(tick, "12:00:00")
    limited.close()


def test_the_worst_finding_is_that_of_analyze(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join((data / "shop-assistant.jsonl").read_bytes().splitlines(keepends=True)[:200]))
    found = watch(str(path), WatchOptions(**PLAIN))
    assert isinstance(found, LogWatch)
    found.look()
    tick = found.tick(3.0)
    report = analyze(path, AnalyzeOptions(**PLAIN))
    assert report.findings is not None
    assert tick.worst is not None
    assert (tick.worst.of_requests, tick.worst.age_s, tick.worst_missing) == (200, 0, None)
    assert tick.worst.hit_rate_if_fixed == report.findings[0].hit_rate_if_fixed
    assert tick.worst.where == f"{report.findings[0].section}, char {report.findings[0].position_chars}"
    again = found.tick(10.0)
    assert again.worst is not None
    assert again.worst.age_s == 7  # nothing new: not looked at again
    found.close()


@pytest.mark.parametrize(
    ("text", "given", "error", "message"),
    [
        pytest.param("what is this\n", {}, InputError, r"log:1: not in a known format", id="unknown"),
        pytest.param("a,b\n1,2\n", {"input_format": "csv"}, InputError, "no format of lines", id="csv"),
        pytest.param("", {"input_format": "no"}, UsageError, "not a format", id="no-format"),
        pytest.param("", {"block_size": 0}, UsageError, "at least 1 token", id="block-size"),
        pytest.param('{"prompt":"a"}\nx\n', {"strict": True}, RejectedInput, "log:2", id="strict"),
    ],
)
def test_what_cannot_be_watched_is_one_sentence(
    tmp_path: Path, text: str, given: dict[str, Any], error: type[KvtoolsError], message: str
) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(error, match=message):
        watched(path, **given).look()


def test_memory_of_calls_that_were_logged_twice_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvtools.monitor.tally._REQUESTS_REMEMBERED", 2)
    path = tmp_path / "log.jsonl"
    path.write_text("")
    found = watched(path)
    for name in ("a", "b", "a", "c", "d", "e", "f", "a"):
        with path.open("a") as file:
            file.write(json.dumps({"id": name, "prompt": "x" * 20}) + "\n")
        found.look()
    tick = found.tick(1.0)
    assert (tick.read, tick.duplicates, tick.total.requests) == (8, 1, 7)
    found.close()


def test_a_pipe_is_watched_to_its_end() -> None:
    reading, writing = os.pipe()
    found = watch("-", WatchOptions(findings=False, **PLAIN), reading)
    assert isinstance(found, LogWatch)
    os.write(writing, b'{"prompt":"' + b"a" * 40 + b'"}\n{"prompt":"' + b"a" * 40 + b'"}')
    found.look()
    os.close(writing)
    found.look()
    ended = found.ended
    found.close()
    os.close(reading)
    assert ended
    assert found.tick(1.0).total.hit == 32


class Metrics:
    """A server whose page a test sets; ``None`` is HTTP 500."""

    def __init__(self) -> None:
        self.text: str | None = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = outer.text if self.path == "/metrics" else None
                self.send_response(500 if text is None else 200)
                self.end_headers()
                self.wfile.write((text or "").encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    found = Metrics()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def polled(url: str) -> ServerWatch:
    found = watch(url, WatchOptions())
    assert isinstance(found, ServerWatch)
    return found


def test_a_server_is_what_its_counters_grew_by(metrics: Metrics) -> None:
    def scrape(queries: int, hits: int, *, external: int, **further: Any) -> ServerTick:
        metrics.text = page(queries, hits, external_prefix_cache_hits_total=external, **further)
        return found.tick(1.0)

    found = polled(metrics.url)
    metrics.text = page(5000, 4500, external_prefix_cache_hits_total=100)
    found.start()
    first = scrape(
        5100, 4520, external=120, num_preemptions_total=2, kv_cache_usage_perc=0.5, num_requests_running=3
    )
    assert (first.now.queried, first.now.hit, first.external_hit, first.now.hit_rate) == (100, 20, 20, 0.4)
    assert (first.kv_usage, first.running, first.preemptions, first.unit) == (0.5, 3, 2, "tokens")
    second = scrape(6100, 4520, external=120)
    assert (second.now.hit_rate, second.queried_since_hit, second.total.hit_rate) == (0, 1000, 40 / 1100)
    assert "no hit in the last 1,000 queried tokens" in line(second, "12:00:00")
    restarted = scrape(50, 30, external=0)
    assert (restarted.now.queried, restarted.now.hit, restarted.restarts) == (50, 30, 1)
    metrics.text = None
    failed = found.tick(1.0)
    assert (failed.now.queried, failed.failed_polls) == (0, 1)
    assert failed.trouble is not None
    assert failed.trouble.startswith("HTTP 500")
    late = scrape(80, 45, external=0)  # what was counted meanwhile is not lost
    assert (late.now.queried, late.total.queried, late.trouble) == (30, 1100 + 50 + 30, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "HTTP 500"),
        ("hello", "no prefix-cache counters"),
        ("vllm:num_requests_running 1\n", "no prefix"),
    ],
)
def test_a_server_without_the_counters_is_one_sentence(
    metrics: Metrics, text: str | None, message: str
) -> None:
    metrics.text = text
    with pytest.raises(EngineError, match=message):
        polled(metrics.url).start()


def test_nobody_there_is_one_sentence_without_the_password(metrics: Metrics) -> None:
    with pytest.raises(EngineError, match="no server answers") as failure:
        polled(f"http://me:secret@127.0.0.1:1/{metrics.server.server_port}").start()
    assert "secret" not in str(failure.value)
