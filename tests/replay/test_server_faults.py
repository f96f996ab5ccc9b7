"""A server that misbehaves, in every way that servers do: one clear sentence, and nothing finished is lost.

The server is a real one on loopback that speaks the protocol and then breaks it on purpose.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvtools.errors import EngineError, InputError
from kvtools.flow import ReplayOptions, ServerEngine, replay

REQUESTS = 6


class Server(ThreadingHTTPServer):
    """Counts tokens as bytes, hits whole blocks of 4 of prompts seen before, and obeys its orders."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: set[str] = set()
        self.served: list[str] = []
        self.queried = self.hit = 0
        self.busy = 0  # so many answers are 503 with Retry-After first
        self.drop_at: int | None = None  # the connection is cut at this many served requests
        self.details = True
        self.counters = True
        self.can_reset = False
        self.caching = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def _say(self, code: int, body: object, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        server = self.server
        if self.path == "/v1/models":
            self._say(200, {"data": [{"id": "tiny"}]})
        elif self.path == "/metrics" and server.counters:
            self._say(
                200,
                f'vllm:cache_config_info{{block_size="4",enable_prefix_caching="{server.caching}"}} 1.0\n'
                f'vllm:prefix_cache_queries_total{{engine="0"}} {server.queried}\n'
                f'vllm:prefix_cache_hits_total{{engine="0"}} {server.hit}\n',
            )
        else:
            self._say(404, {})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.path == "/reset_prefix_cache":
            if server.can_reset:
                server.seen.clear()
            self._say(200 if server.can_reset else 404, {})
            return
        if server.busy:
            server.busy -= 1
            self._say(503, {"error": {"message": "overloaded"}}, Retry_After="0")
            return
        if server.drop_at is not None and len(server.served) >= server.drop_at:
            self.connection.close()
            return
        prompt = body["prompt"]
        if len(prompt) > 100:
            self._say(400, {"error": {"message": "maximum context length is 100 tokens"}})
            return
        hit = 0
        while hit + 4 < len(prompt) and prompt[: hit + 4] in server.seen:
            hit += 4
        server.seen |= {prompt[: end + 4] for end in range(0, len(prompt) - 3, 4)}
        server.served.append(prompt)
        server.queried += len(prompt)
        server.hit += hit
        usage: dict[str, object] = {"prompt_tokens": len(prompt)}
        if server.details and hit:  # vLLM leaves the details out where nothing was hit
            usage["prompt_tokens_details"] = {"cached_tokens": hit}
        self._say(200, {"usage": usage})


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    # Prompts of 12 bytes, block 4. The first misses, each later one hits "same" and "head": 8 of 12.
    path = tmp_path / "log.jsonl"
    lines = [{"id": f"r{n}", "prompt": f"samehead{n:04d}"} for n in range(REQUESTS)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _options(server: Server, **more: object) -> ReplayOptions:
    engine = ServerEngine(server.url, timeout_s=5.0)
    return ReplayOptions(engines=("server",), server=engine, tokenizer="bytes", block_size=4, **more)


def test_figures_and_the_cross_check(server: Server, log: Path) -> None:
    report = replay(log, _options(server))
    (figures,) = report.replays
    assert (figures.queried_tokens, figures.hit_tokens, figures.prefill_tokens) == (72, 40, 32)
    assert figures.start_state == "cold"  # its counters stood at 0
    assert figures.notes == ["the server's counters agree: 40 of 72 tokens."]


def test_a_used_server_is_not_called_cold(server: Server, log: Path) -> None:
    replay(log, _options(server))
    warm = replay(log, _options(server)).replays[0]
    assert warm.start_state == "warm"
    assert warm.hit_tokens == 48  # the first hits 8 too: at most 11 of its 12 tokens, whole blocks
    server.can_reset = True
    again = replay(log, _options(server)).replays[0]
    assert (again.start_state, again.hit_tokens) == ("cold", 40)
    server.counters = False
    server.can_reset = False
    assert replay(log, _options(server)).replays[0].start_state == "unknown"


def test_without_details_the_total_is_from_the_counters(server: Server, log: Path, tmp_path: Path) -> None:
    server.details = False
    lines = tmp_path / "lines.jsonl"
    figures = replay(log, _options(server, per_request=lines)).replays[0]
    assert (figures.hit_tokens, figures.hit_rate) == (40, 40 / 72)
    assert "no cached tokens per request" in figures.notes[0]
    assert json.loads(lines.read_text().split("\n")[1])["hit_tokens"] is None
    server.counters = False
    with pytest.raises(EngineError, match="neither cached tokens nor counters"):
        replay(log, _options(server))


def test_a_busy_server_is_waited_for(server: Server, log: Path) -> None:
    server.busy = 3
    assert replay(log, _options(server)).replays[0].hit_tokens == 40
    server.busy = 10**6
    with pytest.raises(EngineError, match=r"stays busy \(HTTP 503 after 6 tries\) at request 1"):
        replay(log, _options(server))


def test_a_dropped_connection_keeps_what_is_finished_and_resumes(
    server: Server, log: Path, tmp_path: Path
) -> None:
    lines = tmp_path / "lines.jsonl"
    server.drop_at = 4
    with pytest.raises(EngineError, match=r"the server is gone at request 5.*4 of 6 requests are finished"):
        replay(log, _options(server, per_request=lines))
    assert not lines.exists()
    assert (tmp_path / "lines.jsonl.part").exists()
    server.drop_at = None
    report = replay(log, _options(server, per_request=lines, resume=True))
    assert len(server.served) == REQUESTS  # nothing was sent twice
    assert report.replays[0].hit_tokens == 40
    assert report.replays[0].start_state == "cold"
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"r{n}" for n in range(REQUESTS)]
    assert [row["hit_tokens"] for row in rows] == [0, 8, 8, 8, 8, 8]
    assert not (tmp_path / "lines.jsonl.part").exists()


def test_a_restarted_server_is_not_resumed_on(server: Server, log: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    replay(log, _options(server))  # so that the counters do not stand at 0
    server.drop_at = REQUESTS + 2
    with pytest.raises(EngineError, match="is gone"):
        replay(log, _options(server, per_request=lines))
    server.queried = server.hit = 0
    server.drop_at = None
    with pytest.raises(EngineError, match="was restarted and its cache is gone"):
        replay(log, _options(server, per_request=lines, resume=True))


def test_resume_refuses_another_run_and_none(server: Server, log: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    with pytest.raises(InputError, match="there is no unfinished replay to resume"):
        replay(log, _options(server, per_request=lines, resume=True))
    server.drop_at = 2
    with pytest.raises(EngineError, match="is gone"):
        replay(log, _options(server, per_request=lines))
    other = tmp_path / "other.jsonl"
    other.write_text('{"id": "x", "prompt": "another log"}\n')
    with pytest.raises(InputError, match="another log, engine or setting"):
        replay(other, _options(server, per_request=lines, resume=True))


def test_a_request_over_the_servers_length_is_refused_and_counted(server: Server, log: Path) -> None:
    with log.open("a") as file:
        file.write(json.dumps({"id": "long", "prompt": "x" * 101}) + "\n")
    figures = replay(log, _options(server)).replays[0]
    assert (figures.requests, figures.refused_requests) == (6, 1)
    assert (figures.queried_tokens, figures.hit_tokens) == (72, 40)


def test_a_server_without_prefix_caching_says_so(server: Server, log: Path) -> None:
    server.caching = False
    with pytest.raises(EngineError, match="runs without prefix caching"):
        replay(log, _options(server))


def test_no_server_and_a_server_of_another_kind(log: Path, server: Server) -> None:
    gone = ReplayOptions(engines=("server",), server=ServerEngine("http://127.0.0.1:9"), tokenizer="bytes")
    with pytest.raises(EngineError, match=r"no server answers .*check --url"):
        replay(log, gone)
    wrong = ServerEngine(server.url + "/elsewhere")
    with pytest.raises(EngineError, match="/v1/models answers HTTP 404"):
        replay(log, ReplayOptions(engines=("server",), server=wrong, tokenizer="bytes"))


def test_many_at_once_and_by_the_logs_clock(server: Server, log: Path, tmp_path: Path) -> None:
    from kvtools.flow import SchedulerSpec

    closed = replay(log, _options(server, scheduler=SchedulerSpec(arrivals="closed")))
    assert len(server.served) == REQUESTS
    assert closed.replays[0].queried_tokens == 72
    timed = tmp_path / "timed.jsonl"
    timed.write_text("".join(json.dumps({"ts": n, "prompt": f"samehead{n:04d}"}) + "\n" for n in range(3)))
    with pytest.raises(InputError, match="some requests have no time"):
        replay(log, _options(server, scheduler=SchedulerSpec(arrivals="log")))
    engine = ServerEngine(server.url, speed=20.0)
    options = ReplayOptions(
        engines=("server",),
        server=engine,
        tokenizer="bytes",
        block_size=4,
        scheduler=SchedulerSpec(arrivals="log"),
    )
    replay(timed, options)
    assert server.served[-3:] == [f"samehead{n:04d}" for n in range(3)]


def test_predicted_against_observed_names_the_reason(server: Server, log: Path) -> None:
    options = ReplayOptions(
        engines=("simulator", "server"), server=ServerEngine(server.url), tokenizer="bytes", block_size=4
    )
    same = replay(log, options).compare
    assert (same.equal_requests, same.different_requests) == (6, 0)
    again = replay(log, options).compare  # the server is warm now: the first request hits 8
    assert (again.equal_requests, again.different_requests) == (5, 1)
    assert again.differences[0].id == "r0"
    assert (
        again.differences[0].reason
        == "the engine hit more: its cache was warm, larger, or held recorded answers"
    )
