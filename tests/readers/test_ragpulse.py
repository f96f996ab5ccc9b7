from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from kvtools.readers import READERS
from kvtools.readers.ragpulse import READER, RagPulseRecord, components
from kvtools.readers.records import Rejected

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Reader

LINE = (
    '{"timestamp":"82","input_length":3112,"output_length":192,"hash_ids":{"user_input":[9],"sys_prompt":[1,2],'
    '"passages_ids":[7,5],"history":[],"other":[4]},"session_id":"s-1"}'
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def test_a_line(lines_as: Reader) -> None:
    (row,) = lines_as("ragpulse", LINE).rows
    row.pop("source")
    assert row == {
        "arrival_us": 82_000_000,
        "session_id": "s-1",
        "prompt_tokens": 3_112,
        "output_tokens": 192,
    }


def test_components_in_the_order_of_the_prompt() -> None:
    record = msgspec.json.decode(LINE, type=RagPulseRecord)
    assert list(components(record).items()) == [
        ("sys_prompt", [1, 2]),
        ("passages_ids", [7, 5]),
        ("history", []),
        ("web_search", []),
        ("user_input", [9]),
    ]
    assert not any(components(RagPulseRecord()).values())


@pytest.mark.parametrize("ids", [[1.0], ["1"], [True], [None], "12", 3, {"a": 1}])
def test_what_is_no_list_of_ids(ids: object) -> None:
    with pytest.raises(Rejected) as raised:
        components(RagPulseRecord(hash_ids={"history": ids}))
    assert raised.value.reason == "bad_hash_ids"


def test_blank_lines_and_rows_out_of_order(lines_as: Reader) -> None:
    lines = [LINE.replace('"82"', f'"{second}"') for second in (9, 11, 10)]
    reading = lines_as("ragpulse", lines[0], "", lines[1], lines[2])
    assert reading.column("arrival_us") == [9_000_000, 11_000_000, 10_000_000]
    assert [source.rsplit(":", 1)[1] for source in reading.column("source")] == ["1", "3", "4"]
    assert reading.records == 3


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('"hash_ids":[1]', "bad_hash_ids"),
        ('"hash_ids":{"history":[null]}', "bad_hash_ids"),
        ('"timestamp":"soon"', "bad_time"),
        ('"timestamp":true', "bad_time"),
        ('"input_length":"3112"', "bad_input_length"),
        ('"output_length":-1', "bad_output_length"),
    ],
)
def test_lines_that_cannot_be_used(lines_as: Reader, fields: str, reason: str) -> None:
    assert lines_as("ragpulse", f"{{{fields}}}").reasons == [reason]


def test_told_from_traces_whose_ids_are_one_list() -> None:
    assert READER.sniff(LINE.encode() + b"\n")
    assert READER.sniff(LINE.encode())
    assert not READER.sniff(b'{"timestamp":0,"input_length":1,"hash_ids":[1],"session_id":"s"}\n')
    # A first line that is cut.
    assert READER.sniff(LINE.encode()[:-20])
    assert not READER.sniff(b'{"input_length":1,"hash_ids":[1,2,3')


def test_the_published_week(paths: Reader, shared: Path) -> None:
    path = shared / "data/ragpulse/0_trace.jsonl"
    assert READER.sniff(path.read_bytes()[:4096])
    reading = paths(path, input_format="ragpulse")
    assert (len(reading.rows), reading.rejects, reading.records) == (7_106, [], 7_106)
    assert sum(reading.column("prompt_tokens")) == 20_917_099
    assert sum(reading.column("output_tokens")) == 2_012_676
    assert len(set(reading.column("session_id"))) == 3_990
    times = reading.column("arrival_us")
    assert sum(later < earlier for earlier, later in zip(times, times[1:], strict=False)) == 1
    # The blank line is the last one, and no record.
    assert path.read_bytes().endswith(b"}\n\n")
