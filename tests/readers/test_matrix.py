"""Every format with every fault: no traceback, every record counted, the documented exit code.

What each file has to come to stands beside what was planted in it, in ``planted.py``.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from planted import CHAT, DEEP, FORMS, PARQUET, PARQUET_GOOD, Form, Planted, TableRow

from kvtools.cli import main
from kvtools.readers import READERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Reader

Expected: TypeAlias = tuple[int, int, int, dict[str, int]]
"""Requests with a prompt (or, for lengths, at all), requests without, records read, rejects by reason."""

GOOD = 6
NOTHING = Planted(())
PLANTED: dict[str, Callable[[Form], Planted]] = {
    "clean": lambda _: NOTHING,
    "bad UTF-8": lambda form: form.utf8,
    "wrong shape": lambda form: form.shape,
    "10,000 deep": lambda form: form.deep,
    "NaN and 1e400": lambda form: form.no_number,
    "null ids": lambda form: form.null_ids,
    "negative tokens": lambda form: form.negative,
    "mixed formats": lambda form: form.mixed,
}


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    said: list[str]
    reasons: dict[str, int]


Run: TypeAlias = "Callable[..., Ended]"
Counted: TypeAlias = "Callable[..., tuple[int, Expected]]"


@pytest.fixture
def ended(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run ``kvtools`` on bytes, as the console script does: ``ended(content, format, prompts=…)``."""

    def run(content: bytes, input_format: str | None, *, prompts: bool) -> Ended:
        log, rejects = tmp_path / "log", tmp_path / "rejects"
        log.write_bytes(content)
        rejects.unlink(missing_ok=True)
        verb = (
            ["analyze", "logs", "--format", "json"]
            if prompts
            else ["convert", "--to", "parquet", "-o", "out"]
        )
        named = ["--input-format", input_format] if input_format else []
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(
            sys, "argv", ["kvtools", *verb, "--tokenizer", "bytes", "--rejects", "rejects", *named, "log"]
        )
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err + out
        assert "bug of ours" not in err
        said = err.split("\n")[:-1]
        listed = (
            [json.loads(line) for line in rejects.read_text().split("\n")[:-1]] if rejects.exists() else []
        )
        assert all(re.fullmatch(r"log:\d+", reject["source"]) for reject in listed)
        # The first three are shown, each in a sentence of its own.
        assert [line for line in said if line.endswith("; rejected.")] == [
            f"kvtools: {reject['source']}: {reject['detail']}; rejected." for reject in listed[:3]
        ]
        assert isinstance(stopped.value.code, int)
        return Ended(stopped.value.code, out, said, dict(Counter(reject["reason"] for reject in listed)))

    return run


@pytest.fixture
def counted(ended: Run) -> Counted:
    """Return exit code and counts of a run on bytes: ``counted(form, content, named=…)``."""

    def run(form: Form, content: bytes, *, named: bool = False) -> tuple[int, Expected]:
        done = ended(content, form.reader if named else None, prompts=form.prompts)
        found = _counts(done.code, done.out, done.said, done.reasons)
        assert found[2] == found[0] + found[1] + sum(done.reasons.values())
        return done.code, found

    return run


def _counts(code: int, out: str, said: list[str], reasons: dict[str, int]) -> Expected:
    """Read the counts where the command says them: in the report, or in the one sentence of its end."""
    errors = [line for line in said if not line.endswith("; rejected.")]
    if code == 0 and out:
        coverage: dict[str, Any] = json.loads(out)["coverage"]
        assert (coverage["rejected_by_reason"], coverage["duplicates"], errors) == (reasons, 0, [])
        return json.loads(out)["requests"], coverage["without_prompt"], coverage["read"], reasons
    if code == 0:
        wrote = re.match(
            r"wrote (\d+) requests to out \((\d+) records read, (\d+) rejected, 0 duplicates", errors[0]
        )
        assert wrote is not None, errors
        assert int(wrote[3]) == sum(reasons.values())
        return int(wrote[1]), 0, int(wrote[2]), reasons
    assert (code, out, len(errors)) == (3, "", 1), errors
    assert errors[0].startswith("kvtools: ")
    if "the file is empty" in errors[0]:
        return 0, 0, 0, reasons
    read = re.search(r"(\d+) records read(?:, (\d+) rejected, (\d+) without)?", errors[0])
    assert read is not None, errors
    assert int(read[2] or sum(reasons.values())) == sum(reasons.values())
    return 0, int(read[3] or 0), int(read[1]), reasons


def expected(planted: Planted, good: int = GOOD) -> tuple[int, Expected]:
    requests = good + planted.requests
    rejected = sum(planted.rejects.values())
    read = requests + planted.without + rejected
    return 0 if requests else 3, (requests, planted.without, read, planted.rejects)


@pytest.mark.parametrize("fault", PLANTED)
@pytest.mark.parametrize("form", FORMS)
def test_a_planted_record(counted: Counted, form: str, fault: str) -> None:
    chosen = FORMS[form]
    planted = PLANTED[fault](chosen)
    whole_is_lost = chosen.document and fault in ("10,000 deep", "NaN and 1e400")
    good = 0 if whole_is_lost else GOOD
    assert counted(chosen, chosen.file(planted.records), named=whole_is_lost) == expected(planted, good)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_file(counted: Counted, form: str) -> None:
    for content, named in ((b"", False), (b"", True), (b"\n\n \n", False), (b"\xef\xbb\xbf", True)):
        assert counted(FORMS[form], content, named=named) == expected(NOTHING, 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_one_byte(counted: Counted, form: str) -> None:
    reason = FORMS[form].byte
    planted = Planted((), {} if reason is None else {reason: 1})
    assert counted(FORMS[form], b"{", named=True) == expected(planted, 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_is_cut_off(counted: Counted, form: str) -> None:
    chosen = FORMS[form]
    planted = Planted((), {chosen.cut[1]: 1})
    assert counted(chosen, chosen.cut_file()) == expected(planted, 0 if chosen.document else GOOD)


@pytest.mark.parametrize("form", FORMS)
def test_a_compressed_file_that_is_cut_off(counted: Counted, form: str) -> None:
    chosen = FORMS[form]
    planted = Planted((), {"damaged_stream": 1})
    for cut in (
        gzip.compress(chosen.file())[:-8],
        zstandard.compress(chosen.file()) + zstandard.compress(b"x" * 99)[:-3],
    ):
        assert counted(chosen, cut) == expected(planted, 0 if chosen.document else GOOD)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spelling", ["CRLF", "BOM"])
def test_the_same_table_as_the_clean_file(
    counted: Counted, paths: Reader, tmp_path: Path, form: str, spelling: str
) -> None:
    chosen = FORMS[form]
    clean = chosen.file()
    other = clean.replace(b"\n", b"\r\n") if spelling == "CRLF" else b"\xef\xbb\xbf" + clean
    assert counted(chosen, other) == expected(NOTHING)
    tables = []
    for content in (clean, other):
        (tmp_path / "log").write_bytes(content)
        tables.append(paths(tmp_path / "log").rows)
    if form == "csv" and spelling == "CRLF":  # the line feed inside a field was replaced with the others
        tables[1] = [row | {"prompt": row["prompt"].replace("\r\n", "\n")} for row in tables[1]]
    assert tables[0] == tables[1]


def zeros(mebibytes: int) -> bytes:
    """So many MiB of zeros: a few kB as zstd."""
    packer = zstandard.ZstdCompressor().compressobj()
    part = bytes(1 << 20)
    return b"".join((*(packer.compress(part) for _ in range(mebibytes)), packer.flush()))


BOMB = zeros(33)
GIGABYTE = zeros(1024)


@pytest.mark.parametrize("form", [name for name, form in FORMS.items() if form.too_long == "line_too_long"])
def test_a_compressed_file_that_unpacks_to_a_line_over_32_mib(counted: Counted, form: str) -> None:
    chosen = FORMS[form]
    content = zstandard.compress(chosen.file()) + BOMB
    assert len(content) < 16_384
    assert counted(chosen, content) == expected(Planted((), {"line_too_long": 1}))


MEASURED = """
import re, sys
from kvtools.cli import main
for name in ("parquet", "chat-jsonl", "otlp"):
    sys.argv = ["kvtools", "analyze", "log", "--tokenizer", "bytes", "--input-format", name]
    try:
        main()
    except SystemExit as ended:
        peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())
        print(name, ended.code, int(peak[1]) >> 10)
"""
"""Prints per format the exit code and the most memory so far, in MiB: the formats stand in the order of their limits."""


@pytest.mark.skipif(
    sys.platform != "linux", reason="the system tells the peak of a process's memory elsewhere"
)
def test_a_gigabyte_in_32_kb_takes_neither_memory_nor_minutes(tmp_path: Path) -> None:
    """A table's bytes have to begin as parquet does, a line is held to 32 MiB, a document to 256."""
    (tmp_path / "log").write_bytes(GIGABYTE)
    assert len(GIGABYTE) < 64 << 10
    done = subprocess.run(
        [sys.executable, "-c", MEASURED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    ended = [line.split() for line in done.stdout.splitlines()]
    assert [(name, code) for name, code, _ in ended] == [("parquet", "3"), ("chat-jsonl", "3"), ("otlp", "3")]
    assert done.stderr.count("1 records read, 1 rejected, 0 without a prompt") == 3
    parquet, line, document = (int(peak) for *_, peak in ended)
    # The program itself takes about 200 MiB, a block of zstd 128; what is held is copied once.
    assert max(parquet, line) < 768
    assert document < 1_152


def table(rows: list[TableRow]) -> bytes:
    names = ("id", "timestamp", "prompt", "messages", "prompt_tokens")
    types = (pa.string(), pa.float64(), pa.binary(), pa.string(), pa.float64())
    columns = zip(names, types, zip(*rows, strict=True), strict=True)
    file = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(values, kind) for name, kind, values in columns}), file)
    return file.getvalue()


def table_counts(ended: Run, content: bytes, *, named: bool = False) -> tuple[int, Expected]:
    done = ended(content, "parquet" if named else None, prompts=True)
    return done.code, _counts(done.code, done.out, done.said, done.reasons)


@pytest.mark.parametrize("fault", PARQUET)
def test_a_row_of_a_parquet_file(ended: Run, fault: str) -> None:
    rows, rejects, requests = PARQUET[fault]
    content = table([*PARQUET_GOOD[:3], *rows, *PARQUET_GOOD[3:]])
    assert table_counts(ended, content) == expected(Planted((), rejects, requests))


def test_a_parquet_file_that_is_none(ended: Run) -> None:
    good = table(PARQUET_GOOD)
    lost = expected(Planted((), {"bad_parquet": 1}), 0)
    assert table_counts(ended, b"") == expected(NOTHING, 0)
    assert table_counts(ended, b"", named=True) == lost
    for content in (b"P", b"{", good[:-9], good[: len(good) // 2], good + CHAT, b"\xef\xbb\xbf" + good, BOMB):
        assert table_counts(ended, content, named=True) == lost
    damaged = expected(Planted((), {"damaged_stream": 1}), 0)
    assert table_counts(ended, gzip.compress(good)[:-8]) == damaged
    assert table_counts(ended, gzip.compress(good)) == expected(NOTHING)


PAGE = b"# TYPE vllm:prefix_cache_queries counter\nvllm:prefix_cache_queries 5\n"


@pytest.mark.parametrize(
    "content",
    [
        PAGE, b"", b"{", PAGE[:-9], PAGE + b"\xff\n", PAGE + DEEP, PAGE + b"x NaN\ny 1e400\nz -7\n", PAGE + CHAT,
        PAGE.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + PAGE, gzip.compress(PAGE, mtime=0)[:-8], BOMB,
    ],
)  # fmt: skip
def test_a_metrics_page_is_no_log_whatever_it_holds(ended: Run, content: bytes) -> None:
    done = ended(content, "prometheus", prompts=True)
    assert (done.code, done.out, done.reasons) == (3, "", {})
    (said,) = done.said
    assert said.startswith("kvtools: log: a metrics page of Prometheus holds totals, not requests")


def test_every_format_is_in_the_matrix() -> None:
    assert {form.reader for form in FORMS.values()} | {"parquet", "prometheus"} == set(READERS)
