from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvtools.readers import READERS
from kvtools.readers.burstgpt import READER

if TYPE_CHECKING:
    from conftest import Reader

FIRST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
LATER = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def test_a_line(lines_as: Reader) -> None:
    (row,) = lines_as("burstgpt", FIRST, "5,ChatGPT,472,18,490,Conversation log").rows
    row.pop("source")
    assert row == {
        "arrival_us": 5_000_000,
        "namespace": "model=ChatGPT",
        "route": "Conversation log",
        "prompt_tokens": 472,
        "output_tokens": 18,
    }


def test_a_response_of_no_tokens_is_a_call_that_failed(lines_as: Reader) -> None:
    reading = lines_as(
        "burstgpt", FIRST, "5,GPT-4,10,0,10,API log", "6,GPT-4,10,0.0,10,API log", "7,GPT-4,9,,9,x"
    )
    assert reading.column("status") == ["failed", "failed", None]
    assert reading.column("output_tokens") == [0, 0, None]


def test_the_later_columns(lines_as: Reader) -> None:
    reading = lines_as(
        "burstgpt", LATER, "5.5,s1,1.25,GPT-4,10,3,13,API log", "6,,,GPT-4,10,3,13,Conversation log"
    )
    assert reading.column("arrival_us") == [5_500_000, 6_000_000]
    assert reading.column("session_id") == ["s1", None]
    assert reading.column("latency_us") == [1_250_000, None]


def test_a_header_of_its_own(lines_as: Reader) -> None:
    assert READER.sniff(FIRST.encode() + b"\n")
    assert READER.sniff(LATER.encode() + b"\r\n")
    assert not READER.sniff(b"Timestamp,Model\n")
    reading = lines_as("burstgpt", FIRST, "5,GPT-4,-1,0,10,API log")
    assert (reading.reasons, reading.records) == (["bad_prompt_tokens"], 1)
