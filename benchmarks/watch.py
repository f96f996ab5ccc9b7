"""``kvtools watch`` on a log that is written at a given rate, rotated and cut: what is lost, what memory it takes.

    python benchmarks/watch.py                                  (200,000 lines at 1,000 a second: 200 s)
    python benchmarks/watch.py --lines 20000 --rate 0           (as fast as it goes)

The writer renames its file every 15,000 lines and, between, copies and cuts it every 22,000, as logrotate does it
(``create``, ``copytruncate``; the writer waits while the file is copied, for what is written then no reader finds).
Every third line is written in two halves. Printed: lines written and read, resident memory at 25 and 100 % of the
lines, CPU seconds of the watcher per second of the log.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RENAME_EVERY = 15_000
CUT_EVERY = 22_000
SHARED = "You are the assistant of a shop. Answer in one sentence, and only about orders. "


def line(number: int) -> bytes:
    prompt = SHARED * 4 + f"Customer {number * 7919 % 1_000_003}: where is order {number}?"
    return json.dumps({"id": f"r{number}", "prompt": prompt}).encode() + b"\n"


def write(path: Path, lines: int, rate: float) -> None:
    """Write the log; ``rate`` in lines a second, 0 as fast as it goes (with a rest before each rotation)."""
    file = path.open("ab", buffering=0)
    begun = time.monotonic()
    for number in range(lines):
        text = line(number)
        if number % 3 == 0:
            file.write(text[:40])
            text = text[40:]
        file.write(text)
        if rate and number % 20 == 0:
            time.sleep(max(begun + number / rate - time.monotonic(), 0))
        rename, cut = (number + 1) % RENAME_EVERY == 0, (number + 1) % CUT_EVERY == 0
        if rename or cut:
            for old in range(9, 0, -1):
                if path.with_name(f"log.jsonl.{old}").exists():
                    path.with_name(f"log.jsonl.{old}").rename(path.with_name(f"log.jsonl.{old + 1}"))
        if rename:
            path.rename(path.with_name("log.jsonl.1"))
            file.close()
            file = path.open("ab", buffering=0)
        elif cut:
            shutil.copy(path, path.with_name("log.jsonl.1"))
            os.truncate(path, 0)
        if (rename or cut) and not rate:
            time.sleep(1)  # a look may see one kind of rotation, not both
    file.close()


def resident_bytes(pid: int) -> int:
    return 1024 * int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--rate", type=float, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        path.touch()
        program = [sys.executable, "-m", "kvtools", "watch", path, "--interval", "1s", "--format", "json"]
        watcher = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        writer = subprocess.Popen(
            [sys.executable, __file__, "write", path, str(given.lines), str(given.rate)]
        )
        memory, read, begun, tick = {}, 0, time.monotonic(), {}
        while read < given.lines and time.monotonic() - begun < 60 + 4 * given.lines / (given.rate or 1_000):
            tick = json.loads(watcher.stdout.readline())
            read = tick["read"]
            for share in (0.25, 0.5, 0.75, 1.0):
                if read >= share * given.lines and share not in memory:
                    memory[share] = resident_bytes(watcher.pid)
        seconds, cpu = time.monotonic() - begun, cpu_seconds(watcher.pid)
        writer.wait()
        watcher.terminate()
        watcher.communicate()
    print(f"written {given.lines:,}, read {tick['read']:,}, requests {tick['total']['requests']:,}, ", end="")
    print(f"rejected {tick['rejected']:,}, logged twice {tick['duplicates']:,}")
    print(
        f"rotations {tick['rotations']}, truncations {tick['truncations']}, maybe lost {tick['maybe_lost']}"
    )
    print(f"hit rate {tick['total']['hit_rate']:.4f}, worst {tick['worst'] and tick['worst']['what']}")
    print("resident MB at " + ", ".join(f"{100 * s:.0f} %: {size / 1e6:,.0f}" for s, size in memory.items()))
    print(f"{seconds:,.0f} s, {cpu:,.1f} CPU s of the watcher")
    assert tick["read"] == tick["total"]["requests"] == given.lines


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
