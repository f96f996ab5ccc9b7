"""Every exit code of the installed command, and that 1 is a failed gate and nothing else.

Each code is shown once by a process of its own; what else leads to it runs through the same boundary in this one.
"""

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
    from known_log import Command, Inside

BYTES = ("--tokenizer", "bytes")
STABLE = "Answer from the records below, shortly and politely, and never make anything up. " * 4


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


def test_2_where_the_call_is_wrong(command: Command, log: Path) -> None:
    ended = command("check", log, *BYTES)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no limit is set" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("LOG", "--min-hit-rate", "60"), "--min-hit-rate: min-hit-rate is 60; write a share from 0 to 1"),
        (("LOG", "--max-drop", "0.02"), "name one with --baseline"),
        (("LOG", "--min-hit-rate", "0.5", "--report", "pdf=x"), "write KIND=FILE"),
        (("LOG", "--config", "CONFIG"), "broken.toml: [check]: there is no key min-hit-rat; did you mean min-hit-rate?"),
        (("LOG", "--history", "LOG"), "--history judges what is stored by itself"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)  # fmt: skip
def test_2_in_other_words(
    inside: Inside, log: Path, tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    config = tmp_path / "broken.toml"
    config.write_text("[check]\nmin-hit-rat = 0.5\n")
    ended = inside("check", *({"LOG": log, "CONFIG": config}.get(arg, arg) for arg in args), *BYTES)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert ended.err.count("\n") == 1


def test_3_where_the_input_is_not_there(command: Command, tmp_path: Path, here: Path) -> None:
    # A limit that every log passes: nothing to judge is never a pass, and never a failed gate.
    ended = command(
        "check", tmp_path / "no.jsonl", *BYTES, "--min-hit-rate", "0", "--report", "json=verdict.json"
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "no such file" in ended.stderr
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("wrong", ["empty", "broken", "few", "uncovered"])
def test_3_where_the_input_cannot_be_judged(inside: Inside, log: Path, here: Path, wrong: str) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    path = log.with_name("input.jsonl")
    content = {
        "empty": b"",
        "broken": b"{broken\n" * 40,
        "few": b"".join(lines[:29]),
        # 30 of 61 records have a prompt: below a half.
        "uncovered": b"".join(lines[:30]) + b"{broken\n" * 31,
    }
    path.write_bytes(content[wrong])
    ended = inside("check", path, *BYTES, "--min-hit-rate", "0", "--report", "json=verdict.json")
    assert (ended.code, ended.out) == (3, "")
    told = {
        "empty": "the file is empty", "broken": "known format", "few": "too little to judge: requests 29 (limit 30)",
        "uncovered": "too little to judge: coverage 49.2 %",
    }[wrong]  # fmt: skip
    assert told in ended.err
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
        "def broken(*args, **more):\n    raise ZeroDivisionError('planted')\n"
        "forms.written = broken\n"
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


@pytest.mark.parametrize("gate", ["check", "normalize", "lint-templates"])
def test_a_closed_pipe_changes_no_verdict(command: Command, faulty: Path, tmp_path: Path, gate: str) -> None:
    template = tmp_path / "bad.j2"
    template.write_text("{{ session_id }}\n" + STABLE)
    args = {
        "check": (faulty, "--min-hit-rate", "0.5"),
        "normalize": (faulty, "--check"),
        "lint-templates": (template,),
    }
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb") as nobody_reads:  # noqa: PTH123 - a file descriptor
        ended = command(
            gate, *args[gate], *BYTES, capture_output=False, stdout=nobody_reads, stderr=subprocess.PIPE
        )
    assert ended.returncode == 1
    told = "kvtools: 40 requests would change; run normalize with -o OUT.\n" if gate == "normalize" else ""
    assert ended.stderr == told


def test_json_is_the_same_twice_and_in_any_order_of_files(
    command: Command, inside: Inside, log: Path
) -> None:
    # Without times, the order in which files are read decides who hits whom.
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        del line["ts"]
    halves = [log.with_name("a.jsonl"), log.with_name("b.jsonl")]
    for half, part in zip(halves, (lines[:25], lines[25:]), strict=True):
        half.write_text("".join(json.dumps(line) + "\n" for line in part))
    args = (*BYTES, "--min-hit-rate", "0.9", "--min-stable-prefix", "10", "--format", "json")
    # Another process: hashes of strings, and so the order of sets, are others there.
    other = command("check", *halves, *args, env=os.environ | {"PYTHONHASHSEED": "1"})
    ended = [inside("check", *paths, *args) for paths in (halves, halves[::-1])]
    assert {other.returncode, *(one.code for one in ended)} == {1}
    assert {one.out for one in ended} == {other.stdout}
    verdict = Verdict.from_json(other.stdout)
    assert verdict.to_json() == other.stdout
    assert [one.requests for one in verdict.inputs] == [25, 15]


def test_case_098_a_missing_log_is_never_replaced_by_another(
    inside: Inside, shared: Path, here: Path
) -> None:
    # The case wants 2 for a missing file; here 2 is wrong usage alone, and an input that is not there is 3.
    case = shared / "cases" / "098-missing-input-falls-back"
    expected = json.loads((case / "expected.json").read_text())
    assert expected == {"missing": 2, "empty": "nonzero"}
    for name in ("does-not-exist.jsonl", str(case / "empty.jsonl")):
        for verb in (("check", "--min-hit-rate", "0"), ("baseline", "-o", "out.json")):
            ended = inside(verb[0], name, *verb[1:], *BYTES)
            assert (ended.code, ended.out) == (3, "")
            assert name in ended.err
    assert list(here.iterdir()) == []


def test_the_other_gates_end_with_the_same_codes(
    inside: Inside, log: Path, faulty: Path, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.j2", tmp_path / "bad.j2"
    good.write_text(STABLE + "{{ session_id }}")
    bad.write_text("{{ session_id }}" + STABLE)
    for args, code in (
        (("lint-templates", good, *BYTES), 0),
        (("lint-templates", bad, *BYTES), 1),
        (("lint-templates", tmp_path / "none.j2", *BYTES), 3),
        (("lint-templates",), 2),
        (("normalize", faulty, *BYTES, "--check"), 1),
        (("normalize", log, *BYTES, "--check"), 0),
        (("normalize", tmp_path / "none.jsonl", *BYTES, "--check"), 3),
        (("normalize", faulty, *BYTES), 2),
    ):
        assert inside(*args).code == code, args


def _path_with(folder: Path) -> dict[str, str]:
    known = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), *([known] if known else [])))}
