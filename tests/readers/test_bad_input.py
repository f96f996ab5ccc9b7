"""Bad input is counted, and the count always adds up: read = requests + rejected + without prompt + duplicates."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from kvtools.errors import InputError, RejectedInput
from kvtools.flow import AnalyzeOptions, Watcher, analyze

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.model import Report


def good(number: int) -> bytes:
    return b'{"id":"g%d","ts":%d,"prompt":"a prompt of its own"}\n' % (number, number)


GOOD = good(1) + good(2)
LONG = b'{"id":"long","prompt":"' + b"x" * (50 << 20) + b'"}\n'
DEEP = b'{"id":"deep","prompt":"x","extra":' + b"[" * 10_000 + b"]" * 10_000 + b"}\n"
ZSTD = zstandard.compress


def counted(tmp_path: Path, data: bytes, **options: Any) -> tuple[Report, dict[str, int]]:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    report = analyze(path, AnalyzeOptions(tokenizer="bytes", **options))
    coverage = report.coverage
    assert (
        coverage.read == report.requests + coverage.rejected + coverage.without_prompt + coverage.duplicates
    )
    assert coverage.rejected == sum(coverage.rejected_by_reason.values())
    return report, coverage.rejected_by_reason


@pytest.mark.parametrize(
    ("data", "requests", "reasons"),
    [
        (GOOD + good(3)[:-9], 2, {"bad_json": 1}),
        (good(1) + b"{broken\n" + good(2), 2, {"bad_json": 1}),
        (GOOD + b'{"id":"x","prompt":"\xff\xfe"}\n', 2, {"bad_utf8": 1}),
        (GOOD + '{"id":"x","prompt":"a\u2028b\u0085c"}\n'.encode(), 3, {}),
        (good(1) + LONG + good(2), 2, {"line_too_long": 1}),
        (GOOD + DEEP + b"[" * 10_000 + b"\n", 2, {"too_deep": 1, "not_an_object": 1}),
        (GOOD + b'[]\n"text"\n42\nnull\ntrue\n', 2, {"not_an_object": 5}),
        (GOOD + b'{"prompt":{}}\n{"messages":"hi"}\n{"tools":5}\n', 2, {"bad_prompt": 1, "bad_messages": 1, "bad_tools": 1}),
        (GOOD + b'{"prompt":"x","ts":NaN}\n{"prompt":"x","ts":1e400}\n', 2, {"bad_json": 1, "bad_ts": 1}),
        (GOOD + b'{"id":null,"ts":null,"session_id":null,"prompt":"x"}\n', 3, {}),
        (GOOD + b'{"prompt":"x","usage":{"prompt_tokens":-7}}\n', 2, {"bad_prompt_tokens": 1}),
        (GOOD + b'{"prompt":"x","priority":' + b"9" * 30 + b"}\n", 3, {}),
        (GOOD + b'{"id":' + b"9" * 4_000 + b',"prompt":"x"}\n', 3, {}),
        (GOOD + b"\x00" * 100 + b"\n", 2, {"bad_json": 1}),
        (GOOD * 3 + b'{"timestamp":1,"input_length":3,"hash_ids":[1]}\n{"id":"t","token_ids":[1]}\n', 2, {"other_format": 2}),
        (b'{"prompt_token_ids":[1,2]}\n{"prompt_token_ids":[1,2147483648]}\n', 1, {"bad_token_ids": 1}),
        (gzip.compress(GOOD, mtime=0)[:-8], 2, {"damaged_stream": 1}),
        (ZSTD(GOOD) + ZSTD(good(3))[:-3], 2, {"damaged_stream": 1}),
    ],
    ids=[
        "last line cut", "broken JSON", "not UTF-8", "U+2028", "50 MB line", "deep", "not objects", "wrong shapes",
        "no numbers", "null ids", "negative tokens", "huge priority", "huge id", "zero bytes", "mixed formats",
        "large token ids", "gz cut", "zst cut",
    ],
)  # fmt: skip
def test_rejects_are_counted(tmp_path: Path, data: bytes, requests: int, reasons: dict[str, int]) -> None:
    report, found = counted(tmp_path, data)
    assert (report.requests, found) == (requests, reasons)


def test_without_prompt_and_duplicates_are_counted_apart(tmp_path: Path) -> None:
    lines = [
        good(1), good(1), good(2), b'{"id":"none","ts":3}\n', b'{"id":"empty","prompt":""}\n', b"{}\n", b"\n",
        b'{"id":"three","prompt":["x","","y"]}\n',
    ]  # fmt: skip
    report, reasons = counted(tmp_path, b"".join(lines))
    # Six lines with one record each, one with three, one that is blank.
    assert report.coverage.read == 9
    assert (report.requests, report.coverage.without_prompt, report.coverage.duplicates) == (4, 3, 1)
    assert reasons == {"empty_object": 1}


def test_every_reject_is_listed_with_its_path_and_line(tmp_path: Path) -> None:
    listed = tmp_path / "rejects.jsonl"
    counted(tmp_path, good(1) + b"\n{broken\n" + good(2) + b"[]\n", rejects=listed)
    rejects = [json.loads(line) for line in listed.read_text().split("\n")[:-1]]
    assert [(r["source"], r["reason"]) for r in rejects] == [
        (f"{tmp_path}/log.jsonl:3", "bad_json"),
        (f"{tmp_path}/log.jsonl:5", "not_an_object"),
    ]
    assert all(set(r) == {"source", "reason", "detail"} for r in rejects)


def test_strict_ends_the_run_at_the_first_reject(tmp_path: Path) -> None:
    with pytest.raises(RejectedInput, match=r"log\.jsonl:2: not JSON.*--strict"):
        counted(tmp_path, good(1) + b"{broken\n", strict=True)
    report, _ = counted(tmp_path, GOOD + b'{"id":"none"}\n', strict=True)
    assert report.coverage.without_prompt == 1


@pytest.mark.parametrize(
    "data", [b'{"prompt":5}\n', b'{"prompt":""}\n', b'{"prompt_token_ids":[2147483648]}\n']
)
def test_a_log_without_any_usable_prompt(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="no request with a prompt"):
        counted(tmp_path, data)


@pytest.mark.parametrize("names", [("prompts", "ids"), ("ids", "prompts")])
def test_block_ids_beside_prompts_in_one_run(tmp_path: Path, names: tuple[str, str]) -> None:
    (tmp_path / "prompts").write_bytes(GOOD)
    (tmp_path / "ids").write_bytes(b'{"timestamp":1,"input_length":3,"hash_ids":[1]}\n')
    with pytest.raises(InputError, match=r"block ids"):
        analyze([tmp_path / name for name in names], AnalyzeOptions(tokenizer="bytes"))


def test_an_interrupted_run_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(GOOD + b"{broken\n")
    before = sorted(tmp_path.iterdir())

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    options = AnalyzeOptions(tokenizer="bytes", rejects=tmp_path / "rejects.jsonl")
    with pytest.raises(KeyboardInterrupt):
        analyze(tmp_path / "log.jsonl", options, Watcher(advance=interrupt))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("case", ["069-silent-skips", "070-valid-json-wrong-shape"])
def test_public_cases(case: str, shared: Path) -> None:
    expected = json.loads((shared / "cases" / case / "expected.json").read_text())
    report = analyze(shared / "cases" / case / "input.jsonl", AnalyzeOptions(tokenizer="bytes"))
    assert report.requests == expected["kept"]
    assert report.coverage.rejected_by_reason == expected["rejected"]
    assert report.coverage.read == expected["kept"] + sum(expected["rejected"].values())
