from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvtools.readers import READERS
from kvtools.readers.azure import READER

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Reader

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def test_seven_decimals_without_a_zone_are_utc(lines_as: Reader) -> None:
    (row,) = lines_as("azure", HEADER, "1970-01-02 00:00:01.2345670,4808,10").rows
    assert row.pop("source").endswith("log.jsonl:2")
    assert row == {"arrival_us": 86_401_234_567, "prompt_tokens": 4_808, "output_tokens": 10}


def test_the_later_years_write_a_zone_and_a_number_of_images(lines_as: Reader) -> None:
    reading = lines_as(
        "azure",
        "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens",
        "1970-01-01 00:00:00.009930+00:00,2,5,0",
    )
    assert reading.column("arrival_us") == [9_930]
    assert reading.column("prompt_tokens") == [5]
    assert reading.column("output_tokens") == [0]


def test_the_last_line_may_lack_its_end(paths: Reader, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(f"{HEADER}\r\n1970-01-01 00:00:00,3,1\r\n1970-01-01 00:00:01,4,1".encode())
    reading = paths(path, input_format="azure")
    assert (reading.records, reading.column("prompt_tokens")) == (2, [3, 4])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("soon,1,1", "bad_time"),
        ("1970-01-01 00:00:00,-1,1", "bad_prompt_tokens"),
        ("1970-01-01 00:00:00,1.5,1", "bad_prompt_tokens"),
        ("1970-01-01 00:00:00,1,many", "bad_output_tokens"),
        ("1970-01-01 00:00:00,1", "wrong_fields"),
    ],
)
def test_lines_that_cannot_be_used(lines_as: Reader, line: str, reason: str) -> None:
    reading = lines_as("azure", HEADER, line, "1970-01-01 00:00:00,1,1")
    assert (reading.reasons, len(reading.rows), reading.records) == ([reason], 1, 2)


def test_a_header_of_its_own() -> None:
    assert READER.sniff(f"{HEADER}\n".encode())
    assert READER.sniff(b"\xef\xbb\xbfTIMESTAMP,NumImages,ContextTokens,GeneratedTokens\r\n")
    assert not READER.sniff(b"TIMESTAMP,ContextTokens\n")
    assert not READER.sniff(b'{"TIMESTAMP":1,"ContextTokens":1,"GeneratedTokens":1}\n')
    assert not READER.sniff(b"")


@pytest.mark.parametrize(("name", "requests"), [("code", 8_819), ("conv", 19_366)])
def test_the_published_traces(paths: Reader, shared: Path, name: str, requests: int) -> None:
    path = shared / f"data/azure_llm_2023/AzureLLMInferenceTrace_{name}.csv"
    assert READER.sniff(path.read_bytes()[:4096])
    reading = paths(path, input_format="azure")
    assert (len(reading.rows), reading.rejects, reading.records) == (requests, [], requests)
    assert all(set(row) == {"arrival_us", "prompt_tokens", "output_tokens", "source"} for row in reading.rows)
