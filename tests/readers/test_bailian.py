from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvtools.readers import READERS
from kvtools.readers.bailian import READER

if TYPE_CHECKING:
    from conftest import Reader


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def turn(chat: str, parent: str, rest: str = '"input_length":1,"hash_ids":[0]') -> str:
    return f'{{"chat_id":{chat},"parent_chat_id":{parent},{rest}}}'


def test_a_line(lines_as: Reader) -> None:
    line = turn(
        "159",
        "-1",
        '"timestamp":61.114,"input_length":40,"output_length":132,"type":"text","turn":1,"hash_ids":[8,9,11]',
    )
    (row,) = lines_as("bailian", line).rows
    row.pop("source")
    assert row == {
        "request_id": "159",
        "session_id": "159",
        "arrival_us": 61_114_000,
        "block_keys": [8, 9, 11],
        "block_size": 16,
        "prompt_tokens": 40,
        "output_tokens": 132,
    }


def test_a_conversation_is_named_by_its_first_request(lines_as: Reader) -> None:
    reading = lines_as(
        "bailian",
        turn("1", "-1"),
        turn("2", "1"),
        turn("5", "-1"),
        turn("3", "2"),
        turn("4", "1"),
        turn("6", "5"),
    )
    assert reading.column("session_id") == ["1", "1", "5", "1", "1", "5"]


def test_a_parent_before_the_trace_stands_for_the_conversation(lines_as: Reader) -> None:
    reading = lines_as("bailian", turn("8", "7"), turn("9", "8"), turn("10", "7"))
    assert reading.column("session_id") == ["7", "7", "7"]


def test_each_reading_begins_with_no_conversation(lines_as: Reader) -> None:
    lines_as("bailian", turn("2", "1"))
    assert lines_as("bailian", turn("3", "2")).column("session_id") == ["2"]


def test_without_ids(lines_as: Reader) -> None:
    reading = lines_as("bailian", turn("null", "null", '"input_length":5'), turn("null", "4"))
    assert reading.column("session_id") == [None, "4"]
    assert reading.column("request_id") == [None, None]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('"hash_ids":[1]', "bad_input_length"),
        ('"hash_ids":[1.5],"input_length":1', "bad_hash_ids"),
        ('"hash_ids":{"a":[1]},"input_length":1', "bad_hash_ids"),
        ('"input_length":-1', "bad_input_length"),
        ('"input_length":1,"timestamp":{}', "bad_time"),
        ('"input_length":1,"timestamp":"soon"', "bad_time"),
    ],
)
def test_lines_that_cannot_be_used(lines_as: Reader, fields: str, reason: str) -> None:
    reading = lines_as("bailian", turn("1", "-1", fields), turn("2", "1"))
    assert (reading.reasons, len(reading.rows), reading.records) == ([reason], 1, 2)
    # The conversation is still that of the request that could not be read.
    assert reading.column("session_id") == ["1"]


def test_its_keys_tell_it() -> None:
    assert READER.sniff(turn("1", "-1").encode() + b"\n")
    assert not READER.sniff(b'{"timestamp":0,"input_length":1,"hash_ids":[1]}\n')
