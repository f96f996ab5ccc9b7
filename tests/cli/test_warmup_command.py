"""``kvtools warmup`` and ``warmup send`` from the command line: edges, exit codes, and a server that is busy."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from kvtools.cli import cli
from kvtools.errors import KvtoolsError

HEAD = "You answer questions about plants. " * 12


def _log(path: Path, texts: list[str]) -> Path:
    rows = [{"id": f"r{n}", "messages": [{"role": "user", "content": text}]} for n, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _run(*arguments: object) -> tuple[int, str]:
    """Exit code and output, with errors as the command line would end on them."""
    result = CliRunner().invoke(cli, [str(one) for one in arguments], standalone_mode=False)
    error = result.exception
    if isinstance(error, KvtoolsError):
        return error.exit_code, str(error)
    if error is not None:
        return getattr(error, "exit_code", 70), getattr(error, "message", repr(error))
    return 0, result.output


@pytest.fixture
def shared_head(tmp_path: Path) -> Path:
    return _log(tmp_path / "log.jsonl", [HEAD + f"Question {n}: and number {n * n}?" for n in range(40)])


def test_a_set_is_written_and_said_in_the_first_line(shared_head: Path, tmp_path: Path) -> None:
    code, page = _run("warmup", shared_head, "-o", tmp_path / "out.jsonl")
    assert code == 0
    assert page.startswith(tuple("0123456789"))
    assert "naive top-K" in page.splitlines()[0]
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert records
    assert all(record["body"]["max_tokens"] == 1 for record in records)
    assert f"kvtools warmup send {tmp_path / 'out.jsonl'}" in page


def test_json_names(shared_head: Path) -> None:
    code, page = _run("warmup", "build", shared_head, "--format", "json", "--budget-queries", "3")
    assert code == 0
    report = json.loads(page)
    assert {"namespace", "tokens", "expected_saved_tokens", "members"} <= report["warmup"]["items"][0].keys()
    assert report["warmup"]["budget"]["queries"] == 3
    for start in ("cold", "topk", "warm"):
        assert {"hit_rate", "saved_tokens"} <= report["evaluation"][start].keys()
    assert report["evaluation"]["curve"][-1]["requests"] == 12


def test_without_holdout_the_figures_are_called_optimistic(shared_head: Path) -> None:
    code, page = _run("warmup", shared_head, "--no-holdout")
    assert code == 0
    assert "optimistic" in page.splitlines()[0]


def test_no_shared_prefix_is_an_empty_set_and_no_error(tmp_path: Path) -> None:
    log = _log(tmp_path / "log.jsonl", [f"{n * 7919} " * 60 for n in range(30)])
    code, page = _run("warmup", log, "-o", tmp_path / "out.jsonl")
    assert code == 0
    assert page.startswith("No warm-up: no block was asked for twice")
    assert (tmp_path / "out.jsonl").read_text() == ""


def test_an_empty_log_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    code, sentence = _run("warmup", tmp_path / "log.jsonl", "--input-format", "chat-jsonl")
    assert code == 3
    assert "no request" in sentence


def test_one_request_is_too_few_to_judge_by(tmp_path: Path) -> None:
    code, sentence = _run("warmup", _log(tmp_path / "log.jsonl", [HEAD]))
    assert code == 3
    assert "--no-holdout" in sentence


@pytest.mark.parametrize("budget", ["queries", "tokens", "blocks"])
def test_a_budget_of_nothing_is_a_usage_error(shared_head: Path, budget: str) -> None:
    code, _ = _run("warmup", shared_head, f"--budget-{budget}", "0")
    assert code == 2


def test_a_budget_larger_than_the_log_takes_what_there_is(shared_head: Path) -> None:
    code, page = _run("warmup", shared_head, "--budget-queries", "1000000", "--format", "json")
    assert code == 0
    assert 1 <= json.loads(page)["warmup"]["budget"]["used_queries"] <= 28  # of 28 requests to build from


def test_a_budget_of_tokens_is_kept_by_what_is_sent(shared_head: Path) -> None:
    code, page = _run("warmup", shared_head, "--budget-tokens", "200", "--format", "json")
    budget = json.loads(page)["warmup"]["budget"]
    assert code == 0
    assert 0 < budget["used_tokens"] <= 200


def test_block_ids_cannot_be_sent(data: Path, tmp_path: Path) -> None:
    code, sentence = _run("warmup", data / "canonical.mooncake.jsonl", "-o", tmp_path / "out.jsonl")
    assert code == 3
    assert "nothing to send" in sentence


@pytest.mark.parametrize(("option", "value"), [("--horizon", "soon"), ("--holdout", "1.5")])
def test_wrong_values(shared_head: Path, option: str, value: str) -> None:
    assert _run("warmup", shared_head, option, value)[0] == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [(("--ahead", "soon"), 2), (("--ahead", "2h"), 2), (("--time-of-day",), 3)],
    ids=["no-time", "too-long", "no-clock"],
)
def test_bursts_and_the_time_of_day_need_a_clock(
    shared_head: Path, options: tuple[str, ...], code: int
) -> None:
    assert _run("warmup", shared_head, *options)[0] == code


def test_without_a_clock_nothing_is_sent_ahead_of_a_burst(
    shared_head: Path, tmp_path: Path, server: str
) -> None:
    out = tmp_path / "out.jsonl"
    code, page = _run("warmup", shared_head, "-o", out, "--budget-queries", "2", "--ahead", "15s")
    assert code == 0
    assert "Ahead of a burst nothing is sent: no forecast: the log has no clock." in page
    code, sentence = _run("warmup", "send", out, "--url", server, "--ahead")
    assert (code, "none of its lines is to be sent ahead of a burst" in sentence) == (3, True)
    assert _Server.seen == []


def test_send_ahead_sends_only_the_lines_of_the_burst(five_heads: Path, tmp_path: Path, server: str) -> None:
    out = tmp_path / "out.jsonl"
    _run("warmup", five_heads, "-o", out, "--budget-queries", "3")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == 3
    lines[1]["kvtools"]["ahead"] = True
    out.write_text("\n".join(map(json.dumps, lines)))
    code, page = _run("warmup", "send", out, "--url", server, "--ahead", "--format", "json")
    assert (code, [item["id"] for item in json.loads(page)["items"]]) == (0, [lines[1]["custom_id"]])
    assert [body["messages"] for body in _Server.seen] == [lines[1]["body"]["messages"]]


def test_what_was_sent_is_said_in_chinese(five_heads: Path, tmp_path: Path, server: str) -> None:
    out = tmp_path / "out.jsonl"
    _run("warmup", five_heads, "-o", out, "--budget-queries", "2")
    send = ("warmup", "send", out, "--url", server, "--verify", "--lang", "zh")
    code, page = _run(*send)
    assert code == 0
    assert "再次询问：2 个中有 2 个的前缀全部在缓存中。" in page
    assert set(re.findall("[A-Za-z]+", page.replace(server, ""))) == {"token", "warmup"}
    _, page = _run(*send, "--members", five_heads)
    assert "询问每组的一个成员：2 个中有 0 个的前缀全部在缓存中。" in page


class _Server(BaseHTTPRequestHandler):
    """Serves one model, is busy at first, and caches by the whole prompt: enough to see what is sent."""

    seen: ClassVar[list[dict[str, Any]]] = []
    busy: ClassVar[int] = 0

    def log_message(self, *_: object) -> None:
        pass

    def _say(self, code: int, body: Any, **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._say(200, {"data": [{"id": "served"}]})
        else:
            self._say(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if _Server.busy:
            _Server.busy -= 1
            self._say(503, {}, retry_after="0")
            return
        known = body in _Server.seen
        _Server.seen.append(body)
        usage = {"prompt_tokens": 1_000, "prompt_tokens_details": {"cached_tokens": 992 if known else 0}}
        self._say(200, {"usage": usage})


@pytest.fixture
def server() -> Any:
    _Server.seen, _Server.busy = [], 2
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()


def test_send_retries_keeps_the_order_and_verifies(shared_head: Path, tmp_path: Path, server: str) -> None:
    out = tmp_path / "out.jsonl"
    _run("warmup", shared_head, "-o", out, "--budget-queries", "5")
    bodies = [json.loads(line)["body"] for line in out.read_text().splitlines()]
    code, page = _run(
        "warmup", "send", out, "--url", server, "--verify", "--in-flight", "1", "--format", "json"
    )
    assert code == 0
    report = json.loads(page)
    assert [body["messages"] for body in _Server.seen[: len(bodies)]] == [body["messages"] for body in bodies]
    assert {body["model"] for body in _Server.seen} == {"served"}
    assert report["requests"] == report["verified_as_expected"] == len(bodies)
    assert {item["verified_tokens"] for item in report["items"]} == {992}
    assert "no counters" in _run("warmup", "send", out, "--url", server)[1]


def test_verify_asks_for_a_member_of_each_group(shared_head: Path, tmp_path: Path, server: str) -> None:
    out = tmp_path / "out.jsonl"
    _run("warmup", shared_head, "-o", out, "--budget-queries", "5")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    logged = {row["id"]: row["messages"] for row in map(json.loads, shared_head.read_text().splitlines())}
    options = ("--url", server, "--verify", "--members", shared_head, "--in-flight", "1")
    code, page = _run("warmup", "send", out, *options, "--format", "json")
    assert code == 0
    report = json.loads(page)
    asked = [body["messages"] for body in _Server.seen[len(lines) :]]
    assert asked == [logged[line["kvtools"]["member"]["id"]] for line in lines]
    assert all(body["max_tokens"] == 1 for body in _Server.seen)
    assert report["verified_by"] == "member"
    assert [item["member"] for item in report["items"]] == [
        f"log.jsonl:{int(line['kvtools']['member']['id'][1:]) + 1}" for line in lines
    ]
    # This server knows only what it was sent word for word, so members hit nothing: that is said, not hidden.
    assert report["verified_as_expected"] == 0
    code, page = _run("warmup", "send", out, *options)
    assert "A member of each group asked:" in page
    assert "log.jsonl:" in page


def test_members_of_another_log_are_not_found(shared_head: Path, tmp_path: Path, server: str) -> None:
    out = tmp_path / "out.jsonl"
    _run("warmup", shared_head, "-o", out, "--budget-queries", "2")
    other = _log(tmp_path / "other.jsonl", ["hello"])
    send = ("warmup", "send", out, "--url", server)
    code, sentence = _run(*send, "--verify", "--members", other)
    assert (code, "warmup-0001" in sentence, "--members" in sentence) == (3, True, True)
    assert _Server.seen == []  # nothing was sent
    assert _run(*send, "--members", shared_head)[0] == 2
    bare = [json.loads(line) for line in out.read_text().splitlines()]
    for line in bare:
        del line["kvtools"]["member"]
    out.write_text("\n".join(map(json.dumps, bare)))
    code, sentence = _run(*send, "--verify", "--members", shared_head)
    assert (code, "build the set again" in sentence) == (3, True)


class _Slow(_Server):
    """Answers the first two requests, and lets all others wait."""

    asked: ClassVar[list[int]] = []
    waiting: ClassVar[threading.Event] = threading.Event()
    over: ClassVar[threading.Event] = threading.Event()

    def do_POST(self) -> None:
        _Slow.asked.append(1)
        if len(_Slow.asked) > 2:
            _Slow.waiting.set()
            _Slow.over.wait(300)
            return
        self.rfile.read(int(self.headers["content-length"]))
        self._say(200, {"usage": {"prompt_tokens": 100}})


@pytest.fixture
def five_heads(tmp_path: Path) -> Path:
    return _log(
        tmp_path / "heads.jsonl", [f"{n % 5} " + HEAD + f"Question {n}: {n * n}?" for n in range(100)]
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_stops_sending_at_once_and_says_how_far_it_came(
    five_heads: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out.jsonl"
    _run("warmup", five_heads, "-o", out, "--budget-queries", "5")
    count = len(out.read_text().splitlines())
    _Slow.asked.clear()
    _Slow.waiting.clear()
    _Slow.over.clear()
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    running.daemon_threads = True
    threading.Thread(target=running.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{running.server_address[1]}"
    program = [sys.executable, "-m", "kvtools", "warmup", "send", str(out), "--url", url, "--in-flight", "1"]
    try:
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sender:
            assert _Slow.waiting.wait(300), "the third request never came"
            sender.send_signal(number)
            page, errors = sender.communicate(timeout=120)
    finally:
        _Slow.over.set()
        running.shutdown()
        running.server_close()
    assert count > 3
    assert sender.returncode == 130
    assert f"stopped: 2 of {count} warm-up requests were answered." in errors
    assert "Traceback" not in errors
    assert page == ""
    assert len(_Slow.asked) == 3  # and no further one was begun


def test_send_without_a_server_or_a_set(tmp_path: Path, shared_head: Path) -> None:
    out = tmp_path / "out.jsonl"
    _run("warmup", shared_head, "-o", out)
    assert _run("warmup", "send", out, "--url", "http://127.0.0.1:9")[0] == 4
    assert _run("warmup", "send", out, "--url", "nowhere")[0] == 2
    assert _run("warmup", "send", tmp_path / "none.jsonl", "--url", "http://127.0.0.1:9")[0] == 3
    out.write_text("")
    code, sentence = _run("warmup", "send", out, "--url", "http://127.0.0.1:9")
    assert (code, "nothing to send" in sentence) == (3, True)
