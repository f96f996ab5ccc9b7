"""What only a process of its own shows: pipes, signals, streams, and what is imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

KVTOOLS = (sys.executable, "-m", "kvtools")
BYTES = ("--tokenizer", "bytes")
HEAVY = {
    "pandas",
    "numpy",
    "pyarrow",
    "sklearn",
    "numba",
    "plotly",
    "rich",
    "tokenizers",
    "jinja2",
    "vllm",
    "dask",
}


def run(
    *args: str | Path, stdout: int | IO[bytes] = subprocess.PIPE, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    command = [*KVTOOLS, *map(str, args)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=120, **more)


@pytest.mark.parametrize(
    "args", [("--help",), ("analyze", "LOG", *BYTES), ("analyze", "LOG", *BYTES, "--format", "json")]
)
def test_a_closed_pipe_ends_quietly(log: Path, args: tuple[str, ...]) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as nobody_reads:  # noqa: PTH123 - a file descriptor
        ended = run(*(log if arg == "LOG" else arg for arg in args), stdout=nobody_reads)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device without room")
def test_no_room_for_the_result_is_one_sentence(log: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = run("analyze", log, *BYTES, stdout=full)
    assert ended.returncode == 3
    assert ended.stderr.startswith(b"kvtools: ")
    assert ended.stderr.count(b"\n") == 1
    assert b"No space left" in ended.stderr


def test_interrupted_is_130_and_leaves_no_file(tmp_path: Path) -> None:
    here, temporary = tmp_path / "here", tmp_path / "tmp"
    here.mkdir()
    temporary.mkdir()
    command = [*KVTOOLS, "analyze", "-", *BYTES, "-o", "report", "--rejects", "rejects"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=here,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as process:
        deadline = time.monotonic() + 60
        # Standard input stays open: the process waits for its end, the report begun beside its place.
        while not (list(here.iterdir()) and list(temporary.iterdir())) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == b""
    assert err.split() == [b"kvtools:", b"interrupted."]
    assert list(here.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_streams_of_other_encodings_and_piped_input(log: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    stored = log.read_bytes().replace(b"desk", "柜台".encode())
    report = run("analyze", "-", *BYTES, "--format", "json", input=stored, env=environment)
    assert (report.returncode, report.stderr) == (0, b"")
    assert {route["route"] for route in json.loads(report.stdout)["routes"]} == {"shop", "柜台"}
    text = run("analyze", "/dev/stdin", *BYTES, input=stored, env=environment)
    assert (text.returncode, text.stderr) == (0, b"")
    assert text.stdout.startswith(b"26.7 % of prompt tokens hit")
    assert text.stdout.isascii()


@pytest.mark.parametrize(
    "args", [["--help"], ["analyze", "--help"], ["analyze", "logs", "--help"], ["bogus"]], ids=" ".join
)
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['kvtools', *{args!r}]\n"
        "from kvtools.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(ended.stderr.split())
    assert "click" in loaded
    assert not loaded & HEAVY
