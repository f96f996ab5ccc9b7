from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvtools.readers import READERS
from kvtools.readers.tracelab import READER

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Reader

CLAUDE = (
    '{"session_id":"s","round_id":"m1","trace_key":"s:m1","model":"m","input_tokens_total":30,"prefix_tokens":20,'
    '"claude_cache_read_input_tokens":19,"output_tokens":4,"timing_events":[{"event_type":"user_message",'
    '"timestamp":"1970-01-01T08:00:01.500+08:00"},{"timestamp":"1970-01-01T00:00:09Z"}]}'
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def test_a_round(lines_as: Reader) -> None:
    (row,) = lines_as("tracelab", CLAUDE).rows
    row.pop("source")
    assert row == {
        "request_id": "s:m1",
        "arrival_us": 1_500_000,
        "utc_offset_min": 480,
        "namespace": "model=m",
        "session_id": "s",
        "prompt_tokens": 30,
        "output_tokens": 4,
        "cached_tokens": 19,
    }


def test_other_providers_say_their_cached_tokens_as_the_prefix(lines_as: Reader) -> None:
    line = (
        '{"input_tokens_total":30,"prefix_tokens":0,"claude_cache_read_input_tokens":null,"timing_events":[]}'
    )
    (row,) = lines_as("tracelab", line).rows
    row.pop("source")
    assert row == {"prompt_tokens": 30, "cached_tokens": 0}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('"timing_events":[{"timestamp":"soon"}]', "bad_time"),
        ('"timing_events":[{"timestamp":[1]}]', "bad_time"),
        ('"timing_events":{"timestamp":1}', "bad_timing_events"),
        ('"input_tokens_total":-1', "bad_input_tokens_total"),
        ('"prefix_tokens":"x"', "bad_cached_tokens"),
        ('"output_tokens":1.5', "bad_output_tokens"),
    ],
)
def test_rounds_that_cannot_be_used(lines_as: Reader, fields: str, reason: str) -> None:
    assert lines_as("tracelab", f"{{{fields}}}").reasons == [reason]


def test_events_without_a_time_are_passed_over(lines_as: Reader) -> None:
    line = '{"input_tokens_total":1,"timing_events":[null,7,{},{"timestamp":null},{"timestamp":2}]}'
    assert lines_as("tracelab", line).column("arrival_us") == [2_000_000]


def test_its_keys_tell_it() -> None:
    assert READER.sniff(CLAUDE.encode() + b"\n")
    assert not READER.sniff(b'{"input_tokens_total":1}\n')


@pytest.mark.parametrize("name", ["derived", "sanitized"])
def test_the_published_sessions(paths: Reader, shared: Path, name: str) -> None:
    path = shared / f"data/tracelab/round_trace.{name}.jsonl"
    assert READER.sniff(path.read_bytes())
    reading = paths(path, input_format="tracelab")
    assert (len(reading.rows), reading.rejects, reading.records) == (19, [], 19)
    # 10 rounds of one provider, 9 of the other, each one session; all are calls of their own.
    assert len(set(reading.column("session_id"))) == 2
    assert len(set(reading.column("request_id"))) == 19
    assert reading.column("prompt_tokens")[:2] == [32_272, 35_740]
    assert reading.column("cached_tokens")[:2] == [27_217, 29_380]
    assert reading.column("cached_tokens")[10:12] == [6_912, 9_600]
    assert reading.column("output_tokens")[0] == 931
    assert None not in reading.column("arrival_us")
