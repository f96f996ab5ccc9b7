"""``kvtools watch`` on a long log that is renamed and cut while it is written: nothing is lost, memory stays flat.

The long log is written as fast as it is read, a shorter one at 1,000 lines a second; benchmarks/watch.py writes the long
one at that rate.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

EARLY, LATE = 50_000, 200_000
ROTATE_EVERY = 40_000
AT_ONCE = 10_000
CAPACITY = 4_096
MOST_GROWTH = 0.06

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from Linux's /proc"
)


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def lines(start: int, count: int) -> bytes:
    """Requests of 84 tokens with one byte a token: 64 that all share, the rest their own."""
    return b"".join(
        json.dumps({"id": f"r{number}", "prompt": "a" * 64 + f"{number:06}" + "b" * 14}).encode() + b"\n"
        for number in range(start, start + count)
    )


def read_until(process: subprocess.Popen[str], requests: int) -> dict[str, Any]:
    assert process.stdout is not None
    for text in process.stdout:
        tick: dict[str, Any] = json.loads(text)
        if tick["read"] >= requests:
            return tick
    raise AssertionError(process.wait())


def test_two_hundred_thousand_lines_take_no_more_memory_than_fifty_thousand(tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    path.touch()
    options = ["--interval", "0.2s", "--format", "json", "--no-findings", "--tokenizer", "bytes"]
    options += ["--chat-template", "plain", "--capacity-blocks", str(CAPACITY)]
    program = [sys.executable, "-m", "kvtools", "watch", str(path), *options]
    memory = {}
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            for start in range(0, LATE, AT_ONCE):
                if start and start % ROTATE_EVERY == 0:
                    # Unread as it is: 10,000 lines are renamed or copied with it.
                    beside = path.with_name(f"shop.log.{start}")
                    if start % (2 * ROTATE_EVERY):
                        path.rename(beside)
                    else:
                        shutil.copy(path, beside)
                        os.truncate(path, 0)
                with path.open("ab") as file:
                    file.write(lines(start, AT_ONCE))
                if (start + AT_ONCE) % ROTATE_EVERY:
                    tick = read_until(process, start + AT_ONCE)
                if start + AT_ONCE in {EARLY, LATE - AT_ONCE}:
                    memory[start + AT_ONCE] = resident_bytes(process.pid)
            tick = read_until(process, LATE)
        finally:
            process.kill()
    assert (tick["lines"], tick["read"], tick["total"]["requests"]) == (LATE, LATE, LATE)
    assert (tick["rejected"], tick["duplicates"], tick["maybe_lost"]) == (0, 0, 0)
    assert (tick["rotations"], tick["truncations"]) == (2, 2)
    # All but the first hit the four blocks of 16 that they share.
    assert tick["total"]["hit"] == 64 * (LATE - 1)
    assert tick["evictions"] == 4 + LATE - CAPACITY
    early, late = memory.values()
    assert late <= (1 + MOST_GROWTH) * early, memory


SECONDS = 8
A_SECOND = 1_000
AT_A_TIME = 20


def test_a_log_of_a_thousand_lines_a_second_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "shop.log"
    path.touch()
    options = ["--interval", "0.2s", "--format", "json", "--no-findings", "--tokenizer", "bytes"]
    program = [sys.executable, "-m", "kvtools", "watch", str(path), *options, "--chat-template", "plain"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            begun = time.monotonic()
            for start in range(0, SECONDS * A_SECOND, AT_A_TIME):
                second, rest = divmod(start, A_SECOND)
                beside = path.with_name(f"shop.log.{second}")
                if start and not rest and second % 2:
                    path.rename(beside)
                elif start and not rest:
                    shutil.copy(path, beside)
                    os.truncate(path, 0)
                with path.open("ab", buffering=0) as file:
                    text = lines(start, AT_A_TIME)
                    file.write(text[:-30])  # the last line comes in two halves
                    file.write(text[-30:])
                time.sleep(max(begun + (start + AT_A_TIME) / A_SECOND - time.monotonic(), 0))
            tick = read_until(process, SECONDS * A_SECOND)
        finally:
            process.kill()
    assert (tick["lines"], tick["read"], tick["total"]["requests"]) == (SECONDS * A_SECOND,) * 3
    assert (tick["rejected"], tick["duplicates"], tick["maybe_lost"]) == (0, 0, 0)
    # Those that fall between the same two looks (of a busy machine) are one.
    assert 0 < tick["rotations"] <= 4
    assert 0 < tick["truncations"] <= 3
    assert tick["total"]["hit"] == 64 * (SECONDS * A_SECOND - 1)
    assert tick["evictions"] == 0
