from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvtools import __version__

if TYPE_CHECKING:
    from conftest import Run

BYTES = ("--tokenizer", "bytes")


@pytest.mark.parametrize(
    "args",
    [
        (), ("bogus",), ("--bogus",), ("analyze",), ("analyze", "logs"), ("analyze", "LOG", "--bogus"),
        ("analyze", "LOG", "--input-format", "xml"), ("analyze", "LOG", "--format", "xml"),
        ("analyze", "LOG", "--rules", "mine"), ("analyze", "LOG", "--outputs", "mine"),
        ("analyze", "LOG", "--block-size", "0"), ("analyze", "LOG", "--block-size", "x"),
        ("analyze", "LOG", "--block-size", "9" * 5000), ("analyze", "LOG", "--capacity-blocks", "0"),
        ("analyze", "LOG", "--capacity-blocks", "-5"), ("analyze", "LOG", "--capacity-blocks", "1.5"),
        ("analyze", "LOG", "--capacity-blocks", "9" * 30), ("analyze", "LOG", "--measure-from", "1.5"),
        ("analyze", "LOG", "--measure-from", "1"), ("analyze", "LOG", "--measure-from", "-0.1"),
        ("analyze", "LOG", "--measure-from", "nan"), ("analyze", "LOG", "--curve-blocks", "0"),
        ("analyze", "LOG", "--curve-blocks", "a,b"), ("analyze", "LOG", "--curve-blocks", ""),
        ("analyze", "LOG", "--route-key", 'a"b'), ("sample",), ("sample", "canonical"),
        ("sample", "bogus", "-o", "x"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_is_2(kvtools: Run, log: Path, args: tuple[str, ...]) -> None:
    ended = kvtools(*(str(log) if arg == "LOG" else arg for arg in args))
    assert (ended.code, ended.out) == (2, "")
    assert_one_sentence(ended.err)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("missing.jsonl",), "missing.jsonl: no such file"),
        (("a" * 300,), "File name too long"),
        (("",), "path is empty"),
        (("*.jsonl",), "no file matches"),
        (("EMPTY",), "the file is empty"),
        (("FOLDER",), "holds no files"),
        (("OTHER",), "not in a known format"),
        (("LOG", "EMPTY"), "the file is empty"),
        (("EMPTY", "--input-format", "chat-jsonl"), "no request with a prompt"),
        (("LOG", "--input-format", "mooncake"), "no request with a prompt"),
        (("LOG", "--tokenizer", "missing"), "--tokenizer missing"),
        (("LOG", "--chat-template", "missing"), "no chat template 'missing'"),
        (("LOG", "--chat-template", "missing.j2"), "missing.j2"),
        (("LOG", "-o", "FOLDER"), "cannot be written (it is a folder)"),
        (("LOG", "-o", "missing/report"), "missing/report: cannot be written"),
        (("LOG", "--rejects", "FOLDER"), "cannot be written (it is a folder)"),
        (("LOG", "--rejects", "missing/rejects"), "missing/rejects: cannot be written"),
        (("BROKEN", "--strict"), "BROKEN:2: not JSON"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_input_that_cannot_be_read_is_3(kvtools: Run, log: Path, args: tuple[str, ...], told: str) -> None:
    files = {
        "EMPTY": b"",
        "OTHER": b"a,b\n1,2\n",
        "BROKEN": log.read_bytes().split(b"\n")[0] + b"\n{broken\n",
    }
    for name, content in files.items():
        (log.parent / name).write_bytes(content)
    (log.parent / "FOLDER").mkdir()
    named = {name: str(log.parent / name) for name in (*files, "FOLDER")} | {"LOG": str(log)}
    tokenizer = () if "--tokenizer" in args else BYTES
    ended = kvtools("analyze", *(named.get(arg, arg) for arg in args), *tokenizer)
    assert (ended.code, ended.out) == (3, "")
    assert told in ended.err
    assert_one_sentence(ended.err.splitlines(keepends=True)[-1])
    assert list(Path().iterdir()) == []
    assert sorted(path.name for path in (log.parent / "FOLDER").iterdir()) == []


def assert_one_sentence(err: str) -> None:
    assert err.startswith("kvtools: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert "bug of ours" not in err


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("-h",),
        ("analyze", "--help"),
        ("analyze", "-h"),
        ("analyze", "logs", "--help"),
        ("sample", "--help"),
    ],
    ids=" ".join,
)
def test_help(kvtools: Run, args: tuple[str, ...]) -> None:
    ended = kvtools(*args)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: kvtools {' '.join(args[:-1])}".rstrip())


def test_version(kvtools: Run) -> None:
    assert kvtools("--version").out == f"kvtools {__version__}\n"


def test_help_names_every_option_of_analyze(kvtools: Run) -> None:
    out = kvtools("analyze", "logs", "--help").out
    for option in (
        "--input-format", "--route-key", "--chat-template", "--tokenizer", "--block-size", "--capacity-blocks",
        "--rules", "--outputs", "--measure-from", "--curve-blocks", "--rejects", "--strict", "--format", "--output",
    ):  # fmt: skip
        assert option in out


def test_a_sample_is_written_and_can_be_analyzed(kvtools: Run, log: Path) -> None:
    ended = kvtools("sample", "canonical", "-o", "small")
    assert (ended.code, ended.out) == (0, "")
    assert len(list(Path("small").iterdir())) == 16
    assert kvtools("analyze", "small/canonical.chat.jsonl", *BYTES).code == 0
    assert kvtools("sample", "canonical", "-o", log).code == 3  # a file stands where the folder should
    assert kvtools("sample", "shop-assistant", "-o", "missing/log.jsonl").code == 3


def test_a_bug_of_ours_is_70_in_one_sentence(
    kvtools: Run, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("kvtools.flow.analyze", fail)
    ended = kvtools("analyze", log)
    assert (ended.code, ended.out) == (70, "")
    assert ended.err.startswith("kvtools: a bug of ours: ZeroDivisionError: by zero")
    assert ended.err.count("\n") == 1
    assert "Traceback (most recent call last)" in kvtools("--traceback", "analyze", log).err


def test_closed_standard_input_is_3(kvtools: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert kvtools("analyze", "-", *BYTES).code == 3


def test_case_098_a_missing_log_is_never_replaced_by_another(kvtools: Run, log: Path, shared: Path) -> None:
    # The case wants 2 for a missing file; here 2 is wrong usage alone, and an input that is not there is 3.
    case = shared / "cases" / "098-missing-input-falls-back"
    log.rename("other.jsonl")
    for name in ("does-not-exist.jsonl", str(case / "empty.jsonl")):
        ended = kvtools("analyze", name, *BYTES)
        assert (ended.code, ended.out) == (3, "")
        assert name in ended.err


def test_an_engine_that_is_not_there_ends_with_4(kvtools: Run, log: Path) -> None:
    if importlib.util.find_spec("vllm") is None:
        ended = kvtools("replay", log, *BYTES, "--engine", "vllm", "--block-size", "32")
        assert ended.code == 4
        assert "vLLM is not installed; pip install 'kvtools[vllm]'" in ended.err
    ended = kvtools("replay", log, *BYTES, "--engine", "server", "--url", "http://127.0.0.1:9")
    assert ended.code == 4
    assert "no server answers" in ended.err


def test_replay_options_that_contradict_each_other_end_with_2(kvtools: Run, log: Path) -> None:
    for wrong in (
        ["--engine", "server"],
        ["--engine", "vllm,vllm"],
        ["--engine", "engine"],
        ["--resume"],
        ["--kv-memory", "1GiB"],
        ["--policy", "random"],
        ["--limit-sessions", "0"],
        ["--arrivals", "log", "--decode-step-ms", "0", "--prefill-tokens-per-s", "1"],
    ):
        ended = kvtools("replay", log, *BYTES, *wrong)
        assert ended.code == 2, (wrong, ended.err)


def test_options_that_the_chosen_engine_would_not_hear_end_with_2(kvtools: Run, log: Path) -> None:
    for wrong in (
        ["--url", "http://127.0.0.1:9"],
        ["--in-flight", "4"],
        ["--model", "folder"],
        ["--decode-step-ms", "3"],
        ["--per-request", "lines", "--resume"],
        ["--per-request", "-"],
        ["--engine", "server", "--url", "127.0.0.1:9"],
        ["--engine", "server", "--url", "http://"],
        ["--engine", "server", "--url", "http://127.0.0.1:9", "--speed", "0"],
        ["--kv-dtype", "fp8"],
    ):
        ended = kvtools("replay", log, *BYTES, *wrong)
        assert ended.code == 2, (wrong, ended.err)
        assert_one_sentence(ended.err)


def test_a_replay_in_which_nothing_runs_ends_with_3(kvtools: Run, log: Path) -> None:
    ended = kvtools("replay", log, *BYTES, "--max-model-len", "1", "--per-request", "lines")
    assert ended.code == 3
    assert "none of the 3 requests can run" in ended.err
    assert list(Path().iterdir()) == []


def test_a_trace_that_is_cut_otherwise_ends_with_3_and_the_right_size(kvtools: Run, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    # 1,100 tokens in 3 ids and 600 in 2: blocks of 367 to 549 tokens, and the power of two among them is 512.
    rows = [
        {"timestamp": 0, "input_length": 1100, "hash_ids": [0, 1, 2]},
        {"timestamp": 1, "input_length": 600, "hash_ids": [0, 3]},
    ]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = kvtools("analyze", trace, "--block-size", "16")
    assert ended.code == 3
    assert "give --block-size 512" in ended.err
    assert kvtools("analyze", trace).code == 0
