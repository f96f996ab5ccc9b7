"""Progress on a terminal: phase, amount, rate and time left on stderr; nothing where stderr is none."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvtools.cli.progress import amount

BYTES = ("--tokenizer", "bytes")


@pytest.mark.parametrize(
    ("done", "total", "speed", "unit", "shown"),
    [
        (3_100_000, 8_900_000, 12_000_000.0, "bytes", "3.1 of 8.9 MB, 12.0 MB/s"),
        (3_100_000, None, None, "bytes", "3.1 of 3.1 MB"),
        (1_500, 20_000, 7.25, "requests", "1,500 of 20,000 requests, 7.25/s"),
        (5, None, 2.0, "", ""),
    ],
    ids=["bytes", "no-total", "requests", "uncounted"],
)
def test_the_amount(done: float, total: float | None, speed: float | None, unit: str, shown: str) -> None:
    assert amount(done, total, speed, unit) == shown


def on_a_terminal(program: list[str], **environment: str) -> tuple[str, bytes]:
    """Run a program whose stderr is a terminal; return what it wrote there without control sequences, and stdout."""
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100"} | environment
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=theirs, env=env) as running:
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # Linux tells the end of a terminal so
            pass
        out = running.stdout.read() if running.stdout else b""
    os.close(ours)
    assert running.returncode == 0, seen.decode()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()), out


def test_phase_amount_rate_and_time_left_are_shown() -> None:
    program = (
        "import time\n"
        "from kvtools.cli.progress import watched\n"
        "with watched('starting') as watcher:\n"
        "    time.sleep(0.2)\n"
        "    watcher.phase('sending', 'requests')\n"
        "    watcher.begin(1000)\n"
        "    for _ in range(6):\n"
        "        watcher.advance(100)\n"
        "        time.sleep(0.2)\n"
    )
    seen, _ = on_a_terminal([sys.executable, "-c", program])
    assert "starting" in seen
    assert re.search(r"sending .*600 of 1,000 requests, [\d.,]+/s 0:00:0\d", seen)


@pytest.mark.parametrize(
    "verb", [["analyze"], ["replay"], ["normalize", "--dry-run"], ["warmup", "--no-holdout"], ["check", "--min-hit-rate", "0.1", "--min-requests", "1"]],
    ids=lambda verb: verb[0],
)  # fmt: skip
def test_every_long_verb_tells_its_phases_on_a_terminal_only(log: Path, verb: list[str]) -> None:
    program = [sys.executable, "-m", "kvtools", verb[0], str(log), *verb[1:], *BYTES, "--format", "json"]
    seen, out = on_a_terminal(program)
    # Each phase is shorter than a picture here; the last one stands until the end.
    assert re.search("reading|replaying|rewriting|pricing", seen)
    assert out.startswith(b"{")
    piped = subprocess.run(program, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (out, b"")


def test_no_color_is_honoured_on_a_terminal(log: Path) -> None:
    def page(**environment: str) -> bytes:
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "kvtools", "analyze", str(log), *BYTES]
        env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
        with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=env | environment):
            os.close(theirs)
            seen = b""
            try:
                while part := os.read(ours, 65536):
                    seen += part
            except OSError:
                pass
        os.close(ours)
        return seen

    assert b"\x1b[1m" in page()
    assert b"\x1b" not in page(NO_COLOR="1")
    assert b"\x1b" not in page(TERM="dumb")
