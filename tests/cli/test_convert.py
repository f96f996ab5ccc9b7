"""``kvtools convert``, ``formats`` and ``doctor`` through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvtools.flow import AnalyzeOptions, analyze

if TYPE_CHECKING:
    from conftest import Run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command runs in an empty folder of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


CANONICAL = Path(__file__).resolve().parents[2] / "data/canonical.chat.jsonl"


@pytest.mark.parametrize("form", ["chat-jsonl", "openai-batch", "token-log", "mooncake", "parquet"])
def test_every_form_gives_the_same_hits(kvtools: Run, form: str) -> None:
    ended = kvtools("convert", CANONICAL, "-o", "out", "--to", form)
    assert (ended.code, ended.out) == (0, "")
    assert "wrote 6 requests to out (6 records read, 0 rejected, 0 duplicates)" in ended.err
    report = analyze("out", AnalyzeOptions(rules="vllm"))
    assert report.requests == 6
    # The canonical log's hits, counted in tests/test_flow_canonical.py.
    assert (report.cache.hit_tokens, report.cache.queried_tokens) == (96, 331)


def test_what_a_form_cannot_hold_is_said(kvtools: Run) -> None:
    ended = kvtools("convert", CANONICAL, "-o", "out", "--to", "token-log")
    assert "this format has no place for: utc_offset_min, messages, tools" in ended.err


def test_the_same_key_gives_the_same_names_and_no_key_a_new_one(kvtools: Run) -> None:
    def names(*key: str) -> list[str]:
        kvtools("convert", CANONICAL, "-o", "out", "--to", "mooncake", "--anonymize", *key)
        return [json.loads(line)["request_id"] for line in Path("out").read_text().splitlines()]

    assert names("--key", "one") == names("--key", "one") != names("--key", "two")
    assert names() != names()


def test_wrong_use_ends_with_2_and_writes_nothing(kvtools: Run) -> None:
    for wrong in (
        ["--to", "xml"],
        ["--to", "chat-jsonl", "--anonymize"],
        ["--to", "mooncake", "--key", "k"],
        ["--to", "mooncake", "--anonymize", "--key", "k" * 65],
    ):
        ended = kvtools("convert", CANONICAL, "-o", "out", *wrong)
        assert ended.code == 2, (wrong, ended.err)
    assert list(Path().iterdir()) == []


def test_an_empty_log_ends_with_3_and_writes_nothing(kvtools: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"id": 1, "messages": "no"}\n')
    ended = kvtools("convert", log, "-o", "out", "--to", "parquet", "--input-format", "chat-jsonl")
    assert ended.code == 3
    assert list(Path().iterdir()) == []


def test_an_anonymous_trace_of_the_common_log(kvtools: Run, shared: Path, tmp_path: Path) -> None:
    log = tmp_path / "peers.jsonl"
    program = [
        sys.executable,
        str(shared / "peers/make_log.py"),
        "--n",
        "2000",
        "--seed",
        "7",
        "--out",
        str(log),
    ]
    subprocess.run(program, check=True)
    kvtools("convert", log, "-o", "trace", "--to", "mooncake", "--anonymize")
    hits = []
    for path in (log, Path("trace")):
        assert kvtools("replay", path, "--rules", "vllm", "--per-request", "lines").code == 0
        hits.append([json.loads(line)["hit_tokens"] for line in Path("lines").read_text().splitlines()])
    assert hits[0] == hits[1]
    assert sum(hits[0]) == 909_344
    trace = Path("trace").read_text()
    rows = [json.loads(line) for line in trace.splitlines()]
    assert rows[0]["timestamp"] == 1_790_000_000_196  # epoch milliseconds
    assert rows[0]["block_size"] == 16
    runs = {trace[start : start + 12] for start in range(len(trace) - 11)}
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert not any(record["id"] in trace or record["tenant"] in trace for record in records[:200])
    texts = {message["content"] for record in records for message in record["messages"]}
    assert not any(text[start : start + 12] in runs for text in texts for start in range(len(text) - 11))


def test_formats_and_doctor(kvtools: Run) -> None:
    lines = kvtools("formats").out.splitlines()
    assert any(line.startswith("* chat-jsonl ") for line in lines)
    assert any(line.startswith("  azure ") for line in lines)
    assert all(len(line) <= 80 for line in lines)
    told = kvtools("doctor").out
    assert "yes  fast tokenizer" in told
    assert "replay on vLLM in this environment" in told
