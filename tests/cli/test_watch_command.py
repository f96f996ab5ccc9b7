"""``kvtools watch`` as users run it: in a process of its own, ended by them."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Run

PLAIN = ("--tokenizer", "bytes", "--chat-template", "plain", "--no-findings")
SLOW_S = 120
REQUEST = json.dumps({"prompt": "a" * 40}) + "\n"


@contextmanager
def running(*args: str | Path, **given: Any) -> Iterator[subprocess.Popen[str]]:
    """Yield ``kvtools watch ARGS…`` in a process, and end it."""
    program = [sys.executable, "-m", "kvtools", "watch", *map(str, args)]
    usual: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(program, **(usual | given)) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next line of JSON."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], SLOW_S)[0]
    tick: dict[str, Any] = json.loads(process.stdout.readline())
    return tick


def interrupted(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]], str]:
    """End it with Ctrl-C; return its exit code, its last lines and what it said of errors."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SLOW_S)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


def until(process: subprocess.Popen[str], requests: int) -> dict[str, Any]:
    """Return the first line with so many requests in all."""
    end = time.monotonic() + SLOW_S
    while time.monotonic() < end:
        tick = said(process)
        if tick["total"]["requests"] >= requests:
            return tick
    raise AssertionError(tick)


def test_once_reads_what_is_there(kvtools: Run, log: Path) -> None:
    ended = kvtools("watch", log, "--once", *PLAIN)
    assert (ended.code, ended.out.count("\n")) == (0, 1)
    assert "26.7 % of 120 tokens in 3 requests" in ended.out
    tick = json.loads(kvtools("watch", log, "--once", "--format", "json", *PLAIN).out)
    assert (tick["kind"], tick["total"]["hit"], tick["block_size"], tick["evictions"]) == ("log", 32, 16, 0)


def test_a_line_an_interval_and_an_end_without_error(log: Path) -> None:
    options = ("--interval", "0.2s", "--format", "json", *PLAIN)
    with running(log, *options) as process:
        assert until(process, 3)["total"]["hit_rate"] == 32 / 120
        with log.open("a") as file:
            file.write(REQUEST * 2)
        assert until(process, 5)["total"]["hit"] == 32 * 3  # the log holds 32 times a already
        code, last, err = interrupted(process)
    assert (code, err) == (0, "")
    assert last[-1]["total"]["requests"] == 5


def test_rotation_truncation_and_the_last_line_without_an_end(log: Path) -> None:
    with running(log, "--interval", "0.2s", "--format", "json", *PLAIN) as process:
        until(process, 3)
        log.rename(log.with_name("log.jsonl.1"))
        log.write_text(REQUEST)
        until(process, 4)
        os.truncate(log, 0)
        with log.open("a") as file:
            file.write(REQUEST.replace("a", "b") + REQUEST.rstrip("\n"))
        assert until(process, 5)["truncations"] == 1
        code, last, _ = interrupted(process)
    assert (code, last[-1]["total"]["requests"], last[-1]["rotations"]) == (0, 6, 1)


def test_a_pipe_ends_the_watch(log: Path) -> None:
    with log.open("rb") as given, running("-", "--interval", "1h", *PLAIN, stdin=given) as process:
        out, err = process.communicate(timeout=SLOW_S)
    assert (process.returncode, err) == (0, "")
    assert "26.7 % of 120 tokens in 3 requests" in out


def test_nobody_reads_on(log: Path) -> None:
    with running(log, "--interval", "0.1s", *PLAIN) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(SLOW_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_terminal_shows_a_page_that_renews_itself(log: Path) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with running(log, "--interval", "0.2s", *PLAIN, stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"hit rate") < 3:
            assert select.select([ours], [], [], SLOW_S)[0], shown
            shown += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        try:
            while select.select([ours], [], [], SLOW_S)[0] and (more := os.read(ours, 1 << 16)):
                shown += more
        except OSError:
            pass  # the other side is closed
        assert process.wait(SLOW_S) == 0
    os.close(ours)
    text = shown.decode()
    assert "26.7 % of the last 3 requests" in text
    assert "nothing evicted from 1M blocks: the rate of an unlimited cache" in text
    assert "\x1b[?25h" in text  # the cursor is given back


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        pytest.param(("nowhere.log",), 3, "cannot be read", id="missing"),
        pytest.param(("http://127.0.0.1:1",), 4, "no server answers", id="no-server"),
        pytest.param(("log.jsonl", "--interval", "5"), 2, "not a length of time", id="interval"),
        pytest.param(("log.jsonl", "--rejects", "x"), 2, "kvtools analyze writes the list", id="rejects"),
        pytest.param(("log.jsonl", "--input-format", "parquet"), 3, "no format of lines", id="no-lines"),
    ],
)
def test_what_cannot_be_watched_is_one_sentence(
    kvtools: Run, log: Path, monkeypatch: pytest.MonkeyPatch, args: Sequence[str], code: int, message: str
) -> None:
    monkeypatch.chdir(log.parent)
    ended = kvtools("watch", *args, "--once")
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1
