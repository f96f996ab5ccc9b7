from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvtools.errors import RejectedInput
from kvtools.readers.base import ReadOptions
from kvtools.readers.document import Places, Record, chunks, documents, rejected, route_at
from kvtools.readers.lines import Line
from kvtools.readers.records import Rejected
from kvtools.readers.sources import Source
from kvtools.readers.times import BadTime

SOURCE = Source("log", Path("log"))


def found(data: bytes, **limit: int) -> list[tuple[int, bytes, str | None]]:
    return [(line.number, line.data, line.fault) for line in documents(io.BytesIO(data), **limit)]


def test_an_indented_document_is_one() -> None:
    assert found(b'\xef\xbb\xbf\n{\r\n "a": 1,\n\n "b": [2]\n}\n') == [
        (2, b'{\n"a": 1,\n\n"b": [2]\n}', None)
    ]


def test_a_list_of_one_object_per_line_is_one_document() -> None:
    assert found(b'[\n{"a":1}\n]\n') == [(1, b'[\n{"a":1}\n]', None)]
    assert found(b'[{"a":1},\n {"a":2}]') == [(1, b'[{"a":1},\n{"a":2}]', None)]


def test_whole_json_on_a_line_makes_json_lines() -> None:
    assert found(b'{"a":1}\n\n{"a":2') == [(1, b'{"a":1}', None), (3, b'{"a":2', None)]
    assert found(b'{broken\n{"a":2}\n') == [(1, b"{broken", None), (2, b'{"a":2}', None)]


def test_a_document_in_one_line() -> None:
    assert found(b'{"a":[1,2]}') == [(1, b'{"a":[1,2]}', None)]


def test_nothing() -> None:
    assert found(b"") == found(b"\n \n") == []


@pytest.mark.parametrize("data", [b'{"a":"' + b"x" * 50 + b'"}', b'{\n"a":"' + b"x" * 15 + b'",\n"b": 1\n}'])
def test_a_document_that_is_too_long(data: bytes) -> None:
    assert found(data, limit=24) == [(1, b"", "document_too_long")]


def test_the_line_of_each_part() -> None:
    document = Line(3, b'{"a": [\n{"x":1},\n{"x":1},\n\n{"y":\n2}]}')
    places = Places(document)
    parts = [places.part(raw) for raw in (b'{"x":1}', b'{"x":1}', b'{"y":\n2}')]
    assert [part.number for part in parts] == [4, 5, 7]


def test_records_are_rows_and_rejects() -> None:
    def bad_time() -> Any:
        raise BadTime("not a time: 'soon'")

    def deep() -> Any:
        raise RecursionError

    records = [
        Record(1, 10, lambda: [{"request_id": "a"}, {"request_id": "b"}]),
        Record(2, 10, list),
        Record(3, 10, bad_time),
        Record(4, 10, deep),
        rejected(5, Rejected("bad_input", "cut off")),
    ]
    (chunk,) = chunks(records, SOURCE, ReadOptions())
    assert chunk.requests["source"].tolist() == ["log:1", "log:1"]
    assert chunk.reject_rows() == [
        ("log:3", "bad_time", "not a time: 'soon'"),
        ("log:4", "too_deep", "nested too deep"),
        ("log:5", "bad_input", "cut off"),
    ]
    assert chunk.records == 5


def test_large_records_make_chunks() -> None:
    records = [Record(line, 3 << 20, partial(list, [{"request_id": "a"}])) for line in (1, 2, 3)]
    assert [len(chunk.requests) for chunk in chunks(records, SOURCE, ReadOptions())] == [2, 1]


def test_strict() -> None:
    with pytest.raises(RejectedInput, match="log:5: cut off"):
        list(chunks([rejected(5, Rejected("bad_input", "cut off"))], SOURCE, ReadOptions(strict=True)))


def test_the_route() -> None:
    assert route_at(None, {"a": "x"}) == {}
    assert route_at("a.b", {"a.b": "x"}) == route_at("a.b", {}, {"a": {"b": "x"}}) == {"route": "x"}
    assert route_at("a.b", {"a": 5}, None) == {"route": None}
