"""Every exit code of the installed command, and that 1 is a failed gate and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvtools.gate.verdict import Verdict

if TYPE_CHECKING:
    from known_log import Command

BYTES = ("--tokenizer", "bytes")


def test_0_where_the_gate_passes_and_1_where_it_fails(command: Command, log: Path, faulty: Path) -> None:
    good = command("check", log, *BYTES, "--min-hit-rate", "0.78")
    assert (good.returncode, good.stderr) == (0, "")
    # 39 * 64 / (40 * 80) is 0.78, which is not below 0.78.
    assert good.stdout.startswith("ok    hit rate 78.0 % (limit 78 %)\n")
    bad = command("check", faulty, *BYTES, "--min-hit-rate", "0.78", "--report", "json=verdict.json")
    assert (bad.returncode, bad.stderr) == (1, "")
    first, second = bad.stdout.splitlines()[:2]
    assert first == "FAIL  hit rate 0.0 % (limit 78 %)"
    assert second.startswith("      cause: ")
    assert second.endswith(f", {faulty}:1")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("LOG",), "no limit is set"),
        (("LOG", "--min-hit-rate", "60"), "--min-hit-rate: min-hit-rate is 60; write a share from 0 to 1"),
        (("LOG", "--max-drop", "0.02"), "name one with --baseline"),
        (("LOG", "--min-hit-rate", "0.5", "--report", "pdf=x"), "write KIND=FILE"),
        (("LOG", "--config", "CONFIG"), "broken.toml: [check]: there is no key min-hit-rat; did you mean min-hit-rate?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_2_where_the_call_is_wrong(
    command: Command, log: Path, tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    config = tmp_path / "broken.toml"
    config.write_text("[check]\nmin-hit-rat = 0.5\n")
    ended = command("check", *({"LOG": log, "CONFIG": config}.get(arg, arg) for arg in args), *BYTES)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("wrong", ["missing", "empty", "broken", "few", "uncovered"])
def test_3_where_the_input_cannot_be_judged(command: Command, log: Path, here: Path, wrong: str) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    path = log.with_name("input.jsonl")
    content = {
        "empty": b"",
        "broken": b"{broken\n" * 40,
        "few": b"".join(lines[:29]),
        # 30 of 61 records have a prompt: below a half.
        "uncovered": b"".join(lines[:30]) + b"{broken\n" * 31,
    }
    if wrong != "missing":
        path.write_bytes(content[wrong])
    # A limit that every log passes: too little is never a pass, and never a failed gate.
    ended = command("check", path, *BYTES, "--min-hit-rate", "0", "--report", "json=verdict.json")
    assert (ended.returncode, ended.stdout) == (3, "")
    told = {
        "missing": "no such file", "empty": "the file is empty", "broken": "known format",
        "few": "too little to judge: requests 29 (limit 30)", "uncovered": "too little to judge: coverage 49.2 %",
    }[wrong]  # fmt: skip
    assert told in ended.stderr
    assert list(here.iterdir()) == []


def test_4_where_a_package_is_missing(command: Command, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['s3fs'] = None\n")
    ended = command("check", "s3://bucket/log.jsonl", "--min-hit-rate", "0.5", env=_path_with(hidden))
    assert (ended.returncode, ended.stdout) == (4, "")
    assert "pip install 'kvtools[s3]'" in ended.stderr


def test_70_where_we_have_a_bug(command: Command, log: Path, tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(
        "import kvtools.report.gate_formats as forms\n"
        "def broken(verdict):\n    raise ZeroDivisionError('planted')\n"
        "forms.KINDS['text'] = broken\n"
    )
    ended = command("check", log, *BYTES, "--min-hit-rate", "0.5", env=_path_with(planted))
    assert (ended.returncode, ended.stdout) == (70, "")
    assert ended.stderr.startswith("kvtools: a bug of ours: ZeroDivisionError: planted")


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)], ids=["ctrl-c", "term", "kill"]
)  # fmt: skip
def test_a_stopped_gate_is_not_a_failed_one(here: Path, sent: signal.Signals, code: int) -> None:
    from known_log import KVTOOLS

    args = ["check", "-", *BYTES, "--min-hit-rate", "0.9", "-o", "page"]
    with subprocess.Popen(
        [*KVTOOLS, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=here
    ) as process:
        deadline = time.monotonic() + 60
        while not list(here.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(sent)
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, b"")
    assert not (here / "page").exists()


@pytest.mark.parametrize(("name", "code"), [("log", 0), ("faulty", 1)])
def test_a_closed_pipe_changes_no_verdict(
    request: pytest.FixtureRequest, command: Command, name: str, code: int
) -> None:
    path = request.getfixturevalue(name)
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as nobody_reads:  # noqa: PTH123 - a file descriptor
        ended = command(
            "check", path, *BYTES, "--min-hit-rate", "0.5",
            capture_output=False, stdout=nobody_reads, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (code, "")


def test_json_is_the_same_twice_and_in_any_order_of_files(command: Command, log: Path) -> None:
    # Without times, the order in which files are read decides who hits whom.
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        del line["ts"]
    halves = [log.with_name("a.jsonl"), log.with_name("b.jsonl")]
    for half, part in zip(halves, (lines[:25], lines[25:]), strict=True):
        half.write_text("".join(json.dumps(line) + "\n" for line in part))
    args = (*BYTES, "--min-hit-rate", "0.9", "--min-stable-prefix", "10", "--format", "json")
    ended = [command("check", *paths, *args) for paths in (halves, halves, halves[::-1])]
    assert {one.returncode for one in ended} == {1}
    assert len({one.stdout for one in ended}) == 1
    verdict = Verdict.from_json(ended[0].stdout)
    assert verdict.to_json() == ended[0].stdout
    assert [one.requests for one in verdict.inputs] == [25, 15]


def test_case_098_a_missing_log_is_never_replaced_by_another(
    command: Command, shared: Path, here: Path
) -> None:
    # The case wants 2 for a missing file; here 2 is wrong usage alone, and an input that is not there is 3.
    case = shared / "cases" / "098-missing-input-falls-back"
    for name in ("does-not-exist.jsonl", str(case / "empty.jsonl")):
        for verb in (("check", "--min-hit-rate", "0"), ("baseline", "-o", "out.json")):
            ended = command(verb[0], name, *verb[1:], *BYTES)
            assert (ended.returncode, ended.stdout) == (3, "")
            assert name in ended.stderr
    assert list(here.iterdir()) == []


def test_the_other_gates_end_with_the_same_codes(
    command: Command, log: Path, faulty: Path, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.j2", tmp_path / "bad.j2"
    stable = "Answer from the records below, shortly and politely, and never make anything up. " * 4
    good.write_text(stable + "{{ session_id }}")
    bad.write_text("{{ session_id }}" + stable)
    assert command("lint-templates", good, *BYTES).returncode == 0
    assert command("lint-templates", bad, *BYTES).returncode == 1
    assert command("lint-templates", tmp_path / "none.j2", *BYTES).returncode == 3
    assert command("lint-templates").returncode == 2
    assert command("normalize", faulty, *BYTES, "--check").returncode == 1
    assert command("normalize", log, *BYTES, "--check").returncode == 0
    assert command("normalize", tmp_path / "none.jsonl", *BYTES, "--check").returncode == 3
    assert command("normalize", faulty, *BYTES).returncode == 2


def _path_with(folder: Path) -> dict[str, str]:
    known = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), *([known] if known else [])))}
