from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.cache import Interner, Prompts, study_cache
from kvtools.errors import UsageError
from kvtools.flow import AnalyzeOptions, Watcher, analyze
from kvtools.flow.intake import take_in
from kvtools.model import CacheSpec
from kvtools.profile import Keyed, LogProfile, map_chunk
from kvtools.readers import ReadOptions, find_inputs, read
from kvtools.table import SCHEMA, Ragged, arrow_column, check, namespace_of, offsets_of, request_table
from kvtools.writers import WRITERS, Anonymizer, BlockIds, lost_columns, with_token_ids
from kvtools.writers.lines import _namespace

KEY = b"sixteen secret b"
MESSAGES = '[{"role":"user","content":"a\u2028b \\u0000 🌿"}]'
FULL: dict[str, Any] = {
    "request_id": "r-1",
    "arrival_us": 1_784_073_600_123_456,
    "namespace": "model=m adapter=l salt=s",
    "route": "shop",
    "session_id": "s-1",
    "messages": MESSAGES,
    "tools": '[{"type":"function","function":{"name":"f"}}]',
    "prompt_tokens": 20,
    "output_tokens": 0,
    "cached_tokens": 16,
    "ttft_us": 7,
    "latency_us": 9,
    "status": "200",
    "priority": -3,
    "samples": 2,
    "skip_lookup": 1,
    "output_text": "an answer",
}
ROWS: list[dict[str, Any]] = [
    FULL,
    {"utc_offset_min": 480, "arrival_us": 1_784_073_600_000_000, "prompt": "text"},
    {"utc_offset_min": 0, "arrival_us": -5, "token_ids": [1, 2, 2**31 - 1]},
    {"request_id": "nothing else"},
    {"arrival_us": 90_000_000_000_000_000, "namespace": "salt=x y", "prompt": "\n"},
]


def table_of(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return request_table({name: [row.get(name) for row in rows] for name in SCHEMA.names}, len(rows))


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {name: arrow_column(table, name).to_pylist() for name in SCHEMA.names if name != "source"}
    return [{n: v[i] for n, v in columns.items() if v[i] is not None} for i in range(len(table))]


def written(name: str, *tables: pd.DataFrame) -> bytes:
    return b"".join(WRITERS[name].write(tables))


def read_back(path: Path, data: bytes, name: str) -> list[dict[str, Any]]:
    path.write_bytes(data)
    log = find_inputs([str(path)])
    assert [file.reader.name for file in log.files] == [name]
    rows: list[dict[str, Any]] = []
    for chunk in read(log, ReadOptions(), []):
        assert chunk.reject_rows() == []
        rows += rows_of(chunk.requests)
    return rows


def test_chat_lines_read_back_as_they_were(tmp_path: Path) -> None:
    table = table_of(ROWS)
    data = written("chat-jsonl", table.iloc[:2], table.iloc[2:])
    assert read_back(tmp_path / "log", data, "chat-jsonl") == ROWS
    assert lost_columns(WRITERS["chat-jsonl"], table) == []


def test_what_a_row_lacks_stays_out_of_its_line() -> None:
    lines = written("chat-jsonl", table_of(ROWS[1:4])).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"timestamp": "2026-07-15T08:00:00+08:00", "prompt": "text"},
        {"timestamp": "1969-12-31T23:59:59.999995+00:00", "prompt": [1, 2, 2**31 - 1]},
        {"id": "nothing else"},
    ]
    assert written("mooncake", table_of([{}])) == b"{}\n"


def test_messages_are_written_byte_for_byte() -> None:
    assert MESSAGES.encode() in written("chat-jsonl", table_of([FULL]))


def test_a_batch_reads_back_what_a_request_holds(tmp_path: Path) -> None:
    rows = [
        FULL,
        {"prompt": "text", "route": "/v1/completions"},
        {"token_ids": [5], "route": "shop", "request_id": "b"},
    ]
    data = written("openai-batch", table_of(rows))
    sent = ("request_id", "namespace", "route", "messages", "tools", "priority", "samples", "skip_lookup")
    assert read_back(tmp_path / "log", data, "openai-batch") == [
        {name: FULL[name] for name in sent},
        {"request_id": "request-2", "prompt": "text", "route": "/v1/completions"},
        {"request_id": "b", "token_ids": [5], "route": "shop"},
    ]
    lines = [json.loads(line) for line in data.splitlines()]
    assert [(line["method"], line["url"]) for line in lines] == [
        ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"), ("POST", "/v1/completions"),
    ]  # fmt: skip
    assert lost_columns(WRITERS["openai-batch"], table_of(rows)) == [
        "arrival_us", "session_id", "prompt_tokens", "output_tokens", "cached_tokens", "ttft_us", "latency_us",
        "status", "output_text",
    ]  # fmt: skip


def test_tokens_read_back(tmp_path: Path) -> None:
    kept = (
        "request_id",
        "arrival_us",
        "namespace",
        "route",
        "session_id",
        "output_tokens",
        "cached_tokens",
        "priority",
        "skip_lookup",
    )
    row = {name: FULL[name] for name in kept} | {"token_ids": [3, 1], "prompt_tokens": 2}
    data = written("token-log", table_of([row, {"token_ids": [4], "prompt_tokens": 1}]))
    assert read_back(tmp_path / "log", data, "token-log") == [row, {"token_ids": [4], "prompt_tokens": 1}]


@pytest.mark.parametrize("arrival_us", [0, 1_500_000, -1_000, 1_784_073_600_123_456, 1])
def test_a_trace_reads_back(arrival_us: int, tmp_path: Path) -> None:
    row = {
        "request_id": "r", "arrival_us": arrival_us, "namespace": "model=m salt=s", "route": "shop", "session_id": "s",
        "block_keys": [7, 2**64 - 1], "block_size": 16, "prompt_tokens": 20, "output_tokens": 0,
    }  # fmt: skip
    bare = {"block_keys": [1], "prompt_tokens": 3}
    data = written("mooncake", table_of([row, bare]))
    assert read_back(tmp_path / "log", data, "mooncake") == [row, bare]


def test_times_of_a_trace_are_milliseconds() -> None:
    lines = written("mooncake", table_of([{"arrival_us": 27_482_000}, {"arrival_us": 1_500}])).splitlines()
    assert lines == [b'{"timestamp":27482}', b'{"timestamp":1.5}']


def test_parquet_holds_every_column() -> None:
    rows = [*ROWS, {"block_keys": [1, 2**64 - 1], "block_size": 16, "source": "x:1"}]
    table = table_of(rows)
    pieces = list(WRITERS["parquet"].write([table.iloc[:3], table.iloc[3:]]))
    file = pq.ParquetFile(io.BytesIO(b"".join(pieces)))
    assert file.schema_arrow.equals(SCHEMA)
    assert file.schema_arrow.metadata is None
    assert (file.num_row_groups, file.metadata.num_rows) == (2, 6)
    assert [{n: v for n, v in row.items() if v is not None} for row in file.read().to_pylist()] == rows
    assert len(pieces) == 3


def test_no_tables_make_an_empty_file() -> None:
    assert [written(name) for name in ("chat-jsonl", "openai-batch", "token-log", "mooncake")] == [b""] * 4
    assert pq.read_table(io.BytesIO(written("parquet"))).num_rows == 0


def test_a_time_that_no_reader_takes_stays_out() -> None:
    assert written("chat-jsonl", table_of([{"arrival_us": 2**62}])) == b"{}\n"
    # Before the year 1, but microseconds by its size.
    assert (
        written("chat-jsonl", table_of([{"arrival_us": -(9 * 10**16)}]))
        == b'{"timestamp":-90000000000000000}\n'
    )


names = (
    st.none()
    | st.text(min_size=1)
    | st.sampled_from(["a model=b", "x salt=", "adapter=", " adapter=y", "model="])
)


@given(names, names, names)
def test_any_namespace_reads_back(model: str | None, adapter: str | None, salt: str | None) -> None:
    name = namespace_of(model, adapter, salt)
    parts = _namespace({} if name is None else {"namespace": name})
    assert namespace_of(parts.get("model"), parts.get("adapter"), parts.get("cache_salt")) == name


def test_a_namespace_of_another_form_stays_apart_as_a_model() -> None:
    assert _namespace({"namespace": "tenant 5"}) == {"model": "tenant 5"}


def keyed_of(rows: list[int], tokens: list[list[int]]) -> Keyed:
    lengths = np.array([len(t) for t in tokens], dtype=np.int64)
    flat = Ragged(np.array([t for row in tokens for t in row], dtype=np.int32), offsets_of(lengths))
    return Keyed(
        np.array(rows, dtype=np.int64), lengths, Ragged(np.empty(0, np.uint64), offsets_of(0 * lengths)), flat
    )


def test_block_ids_are_numbered_by_first_sight_and_by_namespace() -> None:
    ids = BlockIds(2)
    table = table_of(
        [{"prompt": "p"}, {"request_id": "none", "prompt_tokens": 8}, {"prompt": "q"}, {"namespace": "n"}]
    )
    # Blocks of two tokens, the last of the first prompt holds one.
    keyed = keyed_of([0, 2, 3], [[1, 2, 3, 4, 5], [1, 2, 9, 9], [1, 2]])
    first = ids.add_to(table, keyed)
    check(first)
    assert rows_of(first) == [
        {"block_keys": [0, 1, 2], "block_size": 2, "prompt_tokens": 5},
        {"request_id": "none", "prompt_tokens": 8},
        {"block_keys": [0, 3], "block_size": 2, "prompt_tokens": 4},
        {"namespace": "n", "block_keys": [4], "block_size": 2, "prompt_tokens": 2},
    ]
    # A later chunk goes on counting.
    later = ids.add_to(table_of([{"prompt": "p"}]), keyed_of([0], [[1, 2, 3, 4, 6, 6]]))
    assert rows_of(later) == [{"block_keys": [0, 1, 5], "block_size": 2, "prompt_tokens": 6}]


def test_block_ids_that_a_log_gave_keep_their_partial_block() -> None:
    table = table_of(
        [
            {"block_keys": [70, 80], "block_size": 4, "prompt_tokens": 6},
            {"block_keys": [70], "block_size": 4, "prompt_tokens": 4},
        ]
    )
    full = Ragged(np.array([70, 70], dtype=np.uint64), np.array([0, 1, 2], dtype=np.int64))
    keyed = Keyed(np.array([0, 1]), np.array([6, 4]), full, None)
    assert [row["block_keys"] for row in rows_of(BlockIds(4).add_to(table, keyed))] == [[0, 1], [0]]


def test_token_ids_of_what_was_keyed() -> None:
    table = table_of([{"prompt": "p", "prompt_tokens": 99}, {"request_id": "none", "prompt_tokens": 8}])
    found = with_token_ids(table, keyed_of([0], [[5, 6]]))
    check(found)
    assert rows_of(found) == [
        {"prompt": "p", "token_ids": [5, 6], "prompt_tokens": 2},
        {"request_id": "none", "prompt_tokens": 8},
    ]
    traced = Keyed(np.array([0]), np.array([2]), Ragged(np.array([1], np.uint64), np.array([0, 1])), None)
    assert with_token_ids(table, traced) is table


def test_anonymous_rows_hold_no_text_and_no_name() -> None:
    row = FULL | {"source": "home/log:1"}
    (found,) = rows_of(Anonymizer(KEY, BlockIds(2)).apply(table_of([row]), keyed_of([0], [[1, 2, 3]])))
    hashed = {name: found.pop(name) for name in ("request_id", "session_id", "route", "namespace")}
    assert found == {
        "arrival_us": 1_784_073_600_123_456, "block_keys": [0, 1], "block_size": 2, "prompt_tokens": 3,
        "output_tokens": 0, "cached_tokens": 16, "ttft_us": 7, "latency_us": 9, "priority": -3, "samples": 2,
        "skip_lookup": 1,
    }  # fmt: skip
    assert all(len(value) == 16 and int(value, 16) >= 0 for value in hashed.values())


def test_hashes_are_equal_for_equal_names_under_one_key() -> None:
    one, other = Anonymizer(KEY, BlockIds(2)), Anonymizer(KEY[::-1], BlockIds(2))
    assert one.hashed("a", "route") == Anonymizer(KEY, BlockIds(4)).hashed("a", "route")
    values = [
        one.hashed("a", "route"),
        one.hashed("b", "route"),
        one.hashed("a", "session_id"),
        other.hashed("a", "route"),
    ]
    assert len(set(values)) == 4
    assert KEY.decode() not in repr(one)


@pytest.mark.parametrize("key", [b"", b"x" * 65])
def test_a_key_of_another_length_is_wrong_usage(key: bytes) -> None:
    with pytest.raises(UsageError, match="give 1 to 64"):
        Anonymizer(key, BlockIds(2))


OPTIONS = AnalyzeOptions(tokenizer="bytes", block_size=16)


def converted(log: Path, change: Callable[[pd.DataFrame, Keyed], pd.DataFrame], name: str) -> bytes:
    """Return the log in another format, as any verb would convert it."""

    def run(intake: Any) -> bytes:
        def tables() -> Iterator[pd.DataFrame]:
            for chunk, keyed, _ in intake.chunks():
                yield change(chunk.requests, keyed)

        return b"".join(WRITERS[name].write(tables()))

    return take_in(log, OPTIONS, Watcher(), run)


def hits(log: Path, options: AnalyzeOptions = OPTIONS) -> list[int]:
    """Return the hit tokens of each request in an unlimited cache, in log order, by vLLM's rules."""

    def run(intake: Any) -> list[int]:
        profile = LogProfile()
        for chunk, keyed, dropped in intake.chunks():
            profile.merge(map_chunk(chunk, keyed, dropped))
        requests = profile.requests()
        ids = Interner().intern(requests.keys.values)
        prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets, requests.skip_lookup)
        found: list[int] = study_cache(prompts, CacheSpec(16)).result.hit_tokens.tolist()
        return found

    return take_in(log, options, Watcher(), run)


@pytest.fixture(scope="module")
def chats(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat log of 300 requests."""
    path = tmp_path_factory.mktemp("chats") / "log.jsonl"
    program = [
        sys.executable,
        str(shared / "peers" / "make_log.py"),
        "--n",
        "300",
        "--seed",
        "7",
        "--out",
        str(path),
    ]
    subprocess.run(program, check=True, capture_output=True)
    return path


def test_a_trace_of_a_log_hits_what_the_log_hits(chats: Path, tmp_path: Path) -> None:
    before = analyze(chats, OPTIONS)
    assert before.cache.hit_tokens > 0
    traces = {
        "plain": converted(chats, BlockIds(16).add_to, "mooncake"),
        "anonymous": converted(chats, Anonymizer(KEY, BlockIds(16)).apply, "mooncake"),
    }
    for name, data in traces.items():
        path = tmp_path / name
        path.write_bytes(data)
        after = analyze(path, AnalyzeOptions(rules="vllm"))
        assert (after.requests, after.cache.hit_tokens) == (300, before.cache.hit_tokens)
        assert hits(path, AnalyzeOptions(rules="vllm")) == hits(chats)
    _no_text_survives(chats, traces["anonymous"])


def _no_text_survives(chats: Path, anonymous: bytes) -> None:
    text = anonymous.decode()
    kept = {text[at : at + 12] for at in range(len(text) - 11)}
    for line in chats.read_bytes().splitlines():
        record = json.loads(line)
        for said in [*(message["content"] for message in record["messages"]), record["response"]]:
            assert not any(said[at : at + 12] in kept for at in range(len(said) - 11))
        for name in ("id", "session_id", "user", "tenant"):
            assert f'"{record[name]}"' not in text


def test_a_token_log_of_a_log_hits_what_the_log_hits(chats: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(converted(chats, with_token_ids, "token-log"))
    assert hits(path) == hits(chats)


def test_a_chat_log_reads_back_the_same(chats: Path, tmp_path: Path) -> None:
    def rows(path: Path) -> list[dict[str, Any]]:
        return [
            row
            for chunk in read(find_inputs([str(path)]), ReadOptions(), [])
            for row in rows_of(chunk.requests)
        ]

    copy = tmp_path / "copy"
    copy.write_bytes(converted(chats, lambda table, _: table, "chat-jsonl"))
    assert rows(copy) == rows(chats)


def test_the_canonical_log_as_a_trace(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(converted(data / "canonical.mooncake.jsonl", BlockIds(16).add_to, "mooncake"))
    # The data set numbers blocks by first sight too, so the file comes back as it was.
    expected = json.loads((data / "canonical.expected.json").read_text())["mooncake"]
    assert read_back(path, path.read_bytes(), "mooncake") == expected
