"""Records that are moved into columns together give what they give one by one, whichever of them is special."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvtools.errors import InputError, RejectedInput
from kvtools.readers import Chunk, ReadOptions
from kvtools.readers.base import CHUNK_BYTES
from kvtools.readers.chat_jsonl import READER
from kvtools.readers.sources import Source
from kvtools.table import SCHEMA, arrow_column

ONE_BY_ONE = replace(READER, columns=None)
"""The oracle: the same reader without the path for many."""

COUNT = 150
"""More than two batches of 64, and a rest."""

PLAIN: dict[str, Any] = {
    "id": "a", "ts_epoch": 1.5, "model": "m", "tenant": "t", "session_id": "s", "response": "yes",
    "messages": [{"role": "user", "content": "hi"}],
}  # fmt: skip
SPECIAL: dict[str, dict[str, Any]] = {
    "no id": {"id": None},
    "empty id": {"id": ""},
    "other id": {"id": None, "request_id": "r"},
    "number as id": {"id": 7},
    "object as id": {"id": {}},
    "other time": {"ts_epoch": None, "timestamp": "2026-07-15T08:00:00+08:00"},
    "no time": {"ts_epoch": None},
    "bad time": {"ts_epoch": "soon"},
    "bool as time": {"ts_epoch": True},
    "other model": {"model": "n"},
    "list as model": {"model": ["m"]},
    "salt": {"cache_salt": "x"},
    "usage": {"usage": {"prompt_tokens": 9}},
    "bad usage": {"usage": {"prompt_tokens": -9}},
    "status": {"status": 200},
    "tools": {"tools": [{"type": "function"}]},
    "no tools": {"tools": []},
    "no answer": {"response": None},
    "no prompt": {"messages": None},
    "other format": {"messages": None, "hash_ids": [1]},
    "two prompts": {"messages": None, "prompt": ["x", "y"]},
    "parts": {"messages": [{"content": [{"type": "text"}], "role": "user"}]},
    "no content": {"messages": [{"role": "user"}]},
    "no role": {"messages": [{"role": "user", "content": ""}, {"content": "x"}]},
    "number as content": {"messages": [{"role": "user", "content": 5}]},
    "messages of another shape": {"messages": "x"},
}


class Broken(io.BytesIO):
    """A file that cannot be read to its end."""

    def read1(self, size: int | None = -1, /) -> bytes:
        if data := super().read1(size):
            return data
        raise InputError("log: cannot be read")


def chunks(reader: Any, stream: io.BytesIO, *, strict: bool = False) -> list[Chunk]:
    opened: Any = SimpleNamespace(stream=stream)
    return list(reader.read(opened, Source("log", Path("log")), ReadOptions(strict=strict)))


def held(chunk: Chunk) -> tuple[Any, ...]:
    columns = [arrow_column(chunk.requests, name).to_pylist() for name in SCHEMA.names]
    return columns, chunk.reject_rows(), chunk.records, chunk.repaired


def log_of(records: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


@pytest.mark.parametrize("place", [0, 63, 64, COUNT - 1])
@pytest.mark.parametrize("kind", SPECIAL)
def test_one_special_record_among_plain_ones(kind: str, place: int) -> None:
    records = [PLAIN | {"id": f"r{row}"} for row in range(COUNT)]
    records[place] = records[place] | SPECIAL[kind]
    log = log_of(records)
    (together,), (alone,) = (chunks(reader, io.BytesIO(log)) for reader in (READER, ONE_BY_ONE))
    assert held(together) == held(alone)


@pytest.mark.parametrize("kind", SPECIAL)
def test_nothing_but_special_records(kind: str) -> None:
    log = log_of([PLAIN | SPECIAL[kind]] * COUNT)
    (together,), (alone,) = (chunks(reader, io.BytesIO(log)) for reader in (READER, ONE_BY_ONE))
    assert held(together) == held(alone)


def test_plain_records_by_hand() -> None:
    (chunk,) = chunks(READER, io.BytesIO(b"\n" + log_of([PLAIN] * COUNT)))
    expected = {
        "request_id": "a",
        "arrival_us": 1_500_000,
        "namespace": "model=m",
        "route": "t",
        "session_id": "s",
        "messages": '[{"role":"user","content":"hi"}]',
        "output_text": "yes",
    }
    for name in SCHEMA.names:
        values = arrow_column(chunk.requests, name).to_pylist()
        if name == "source":
            assert values == [f"log:{line}" for line in range(2, COUNT + 2)]
        else:
            assert values == [expected.get(name)] * COUNT


def test_a_line_that_is_no_json_keeps_its_place() -> None:
    lines = log_of([PLAIN] * COUNT).splitlines(keepends=True)
    lines[70] = b"{bad\n"
    lines[80] = lines[80].rstrip() + lines[80]
    (together,), (alone,) = (chunks(reader, io.BytesIO(b"".join(lines))) for reader in (READER, ONE_BY_ONE))
    assert held(together) == held(alone)
    assert together.records == COUNT + 1
    assert [source for source, _, _ in together.reject_rows()] == ["log:71"]
    assert together.repaired == {"glued_line": 1}


def test_a_chunk_ends_with_the_record_that_fills_it() -> None:
    # Each line holds a tenth of a chunk and a little more: ten of them fill it.
    text = "x" * (CHUNK_BYTES // 10)
    log = log_of([PLAIN | {"messages": [{"role": "user", "content": text}]}] * 25)
    assert [chunk.records for chunk in chunks(READER, io.BytesIO(log))] == [10, 10, 5]


def test_strict_names_the_reject_before_a_read_error_behind_it() -> None:
    log = log_of([PLAIN, PLAIN | {"ts_epoch": "soon"}, PLAIN])
    with pytest.raises(RejectedInput, match="log:2: "):
        chunks(READER, Broken(log), strict=True)
    with pytest.raises(InputError, match="cannot be read"):
        chunks(READER, Broken(log))


LINE = json.dumps(PLAIN).encode()


@pytest.mark.parametrize(
    "lines",
    [
        LINE + LINE + b"\n\n",  # as many objects as lines, and yet not one on each
        LINE + b'{"id":\n' + LINE + b"}\n",
        LINE.replace(b": ", b":\n", 1) + b"\n" + LINE + LINE + b"\n",
        LINE + b"\r\n" + LINE + b"\r\n",
        LINE + b" \n\t" + LINE + b"\n",
        b"\n" + LINE + b"\x0b\n" + LINE + b"\n",
        LINE.replace(b"hi", b"h\ti") + b"\n",
        LINE.replace(b"hi", "h\u2028i\u0085".encode()) + b"\n",
        LINE.replace(b"hi", b"h\xffi") + b"\n",
        LINE + b"," + b"\n" + b"[" * 5000 + b"\n",
    ],
)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_lines_that_only_look_like_one_object_each(lines: bytes, place: str) -> None:
    many = log_of([PLAIN] * COUNT)
    log = {"first": lines + many, "middle": many + lines + many, "last": many + lines}[place]
    for stored in (log, b"\xef\xbb\xbf" + log, log.rstrip(b"\n")):
        (together,), (alone,) = (chunks(reader, io.BytesIO(stored)) for reader in (READER, ONE_BY_ONE))
        assert held(together) == held(alone)
