from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvtools.readers.lines import Line
from kvtools.readers.records import (
    Rejected,
    count,
    decode,
    first,
    first_of,
    int64,
    sniff_keys,
    text,
    text_of,
)


class Record(msgspec.Struct):
    id: Any = None
    messages: list[dict[str, Any]] | None = None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"id": "a"', "bad_json"),
        (b'{"id": "a', "bad_json"),
        (b"{'id': 'a'}", "bad_json"),
        (b'{"id": NaN}', "bad_json"),
        (b'{"id": 1}{"id": 2}', "bad_json"),
        (b'{"id": "\\ud800"}', "bad_json"),
        (b'{"id": "\xff"}', "bad_utf8"),
        (b"\xff\xfe\x00", "bad_utf8"),
        (b'{"id": 1e400}', "bad_id"),
        (b'{"id": ' + b"9" * 5000 + b"}", "bad_id"),
        (b'{"id": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep"),
        (b'{"other": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "too_deep"),
        (b"[" * 10_000, "not_an_object"),
        (b"[]", "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"42", "not_an_object"),
        (b"null", "not_an_object"),
        (b'{"messages": "hi"}', "bad_messages"),
        (b'{"messages": [5]}', "bad_messages"),
    ],
)
def test_a_line_that_cannot_be_used_has_one_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Rejected) as fault:
        decode(Line(1, data), msgspec.json.Decoder(Record))
    assert fault.value.reason == reason
    assert "\n" not in fault.value.detail
    assert len(fault.value.detail) < 120


def test_where_a_line_is_cut_off() -> None:
    with pytest.raises(Rejected, match=r"cut off at column 11\b"):
        decode(Line(1, b'{"id": "abc'), msgspec.json.Decoder(Record))


def test_half_a_surrogate_pair_is_not_called_a_cut() -> None:
    with pytest.raises(Rejected, match="surrogate"):
        decode(Line(1, b'{"id": "\\udc00 x"}'), msgspec.json.Decoder(Record))
    whole = decode(Line(1, b'{"id": "\\ud83c\\udf3f"}'), msgspec.json.Decoder(Record))
    assert whole.id == "\N{HERB}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", "a"),
        ("", None),
        (7, "7"),
        (0, "0"),
        (True, None),
        (1.5, None),
        (None, None),
        ([], None),
        ({}, None),
    ],
)
def test_identifiers(value: Any, expected: str | None) -> None:
    assert text(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(None, None), (0, 0), (12, 12), (12.0, 12)])
def test_counts(value: Any, expected: int | None) -> None:
    assert count(value, "output_tokens") == expected


@pytest.mark.parametrize(
    "value", [-1, 1.5, True, "12", [], float("inf"), float("nan"), 1 << 62, "x" * 10_000]
)
def test_what_is_no_count_is_told_in_short(value: Any) -> None:
    with pytest.raises(Rejected) as fault:
        count(value, "output_tokens")
    assert fault.value.reason == "bad_output_tokens"
    assert len(fault.value.detail) < 100


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (2**63, None), (True, None), ("1", None), (1.0, None)],
)
def test_whole_numbers_of_64_bits(value: Any, expected: int | None) -> None:
    assert int64(value) == expected


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'{"prompt": 1}\n{"prompt": 2}\n{"x": 3}\n', True),
        (b'{"prompt": 1}\n{"x": 2}\n', False),  # half is not most
        (b'garbage\n{"prompt": 1}\n', True),
        (b'garbage\n{"prompt": 1}', True),
        (b'\n{"prompt": 1}', True),
        (b'\xef\xbb\xbf{"prompt": 1}\n', True),
        (b'{"prompt": "cut off', True),  # one line, longer than the head
        (b'{"x": "say \\"prompt\\": no', False),  # the key is inside a string
        (b'{"x": {"prompt": 1}}\n', False),
        (b"", False),
        (b"\n\n", False),
        (b"[" * 10_000 + b"\n", False),
        (b"\x00\xff\xfe", False),
    ],
)
def test_sniffing_by_key(head: bytes, expected: bool) -> None:
    assert sniff_keys(head, ("prompt",)) is expected


@pytest.mark.parametrize(
    ("record", "value", "words"),
    [
        (Record(), None, None),
        (Record(id="", messages=[{}]), [{}], None),
        (Record(id=0), 0, "0"),
        (Record(id="a", messages=[{}]), "a", "a"),
        (Record(id=True), True, None),
    ],
)
def test_the_first_that_is_set(record: Record, value: Any, words: str | None) -> None:
    names = ("id", "messages")
    assert first(record, names) == first_of(names)(record) == value
    assert text(first(record, names)) == text_of(names)(record) == words


def test_a_name_that_no_record_has_is_no_silence() -> None:
    with pytest.raises(AttributeError):
        first_of(("id", "idd"))(Record(id="a"))
