from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvtools.readers import READERS
from kvtools.readers.sglang_log import READER

if TYPE_CHECKING:
    from conftest import Reader

TAIL = ", token usage: 0.00, #running-req: 0, #queue-req: 0, "


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def batch(sequences: int, new: int, cached: int, rank: str = " TP0") -> str:
    return f"[2026-07-15 08:00:00{rank}] Prefill batch. #new-seq: {sequences}, #new-token: {new}, #cached-token: {cached}{TAIL}"


def counts(lines_as: Reader, *lines: str | bytes) -> list[tuple[int | None, int | None]]:
    reading = lines_as("sglang-log", *lines)
    assert (reading.records, reading.rejects) == (len(reading.rows), [])
    return list(zip(reading.column("prompt_tokens"), reading.column("cached_tokens"), strict=True))


def test_a_batch_of_one_is_a_request_without_prompt(lines_as: Reader) -> None:
    (row,) = lines_as("sglang-log", batch(1, 512, 128)).rows
    row.pop("source")
    assert row == {"arrival_us": 1_784_102_400_000_000, "prompt_tokens": 640, "cached_tokens": 128}


def test_the_time_to_the_microsecond_where_it_is_there(lines_as: Reader) -> None:
    line = batch(1, 5, 0).rstrip() + " timestamp: 2026-07-15T08:00:00.498932"
    assert lines_as("sglang-log", line).column("arrival_us") == [1_784_102_400_498_932]


def test_sums_of_several_sequences_are_no_requests_counts(lines_as: Reader) -> None:
    assert counts(lines_as, batch(3, 900, 60), batch(1, 5, 0)) == [(None, None), (5, 0)]


def test_parts_of_a_long_prompt_have_no_counts(lines_as: Reader) -> None:
    size = "[2026-07-15 08:00:00 TP0] max_total_num_tokens=9, chunked_prefill_size=1000, max_prefill_tokens=16384"
    lines = [size, batch(1, 1000, 64), batch(1, 1000, 0), batch(1, 17, 0), batch(1, 18, 0), batch(1, 999, 0)]
    assert counts(lines_as, *lines) == [(None, None)] * 3 + [(18, 0), (999, 0)]
    # Without the size in the log, SGLang's own sizes.
    assert counts(lines_as, batch(1, 8192, 64), batch(1, 17, 0), batch(1, 8191, 0)) == [(None, None)] * 2 + [
        (8191, 0)
    ]
    # Another rank is another prompt; no chunks, no parts.
    assert counts(lines_as, batch(1, 8192, 0, " DP0 TP0"), batch(1, 17, 0, " DP1 TP0")) == [
        (None, None),
        (17, 0),
    ]
    assert counts(lines_as, "chunked_prefill_size=-1", batch(1, 8192, 64)) == [(8256, 64)]


def test_new_tokens_rounded_up_to_pages(lines_as: Reader) -> None:
    args = "[2026-07-15 08:00:00] server_args=ServerArgs(model_path='m', page_size=64, device='cuda')"
    assert counts(lines_as, args, batch(1, 128, 64)) == [(None, 64)]
    assert counts(lines_as, args.replace("64", "1"), batch(1, 128, 64)) == [(192, 64)]


def test_spellings(lines_as: Reader) -> None:
    lines = [
        batch(1, 5, 2).replace("batch.", "batch [17],"),
        batch(1, 5, 2, ""),
        "sglang  | " + batch(1, 5, 2),
        batch(1, 5, 2) + "\r",
        batch(1, 5, 2).replace(TAIL, ", cache hit rate: 0.00%, token usage: 0.00"),
        batch(1, 0, 0),
        "[2026-07-15 08:00:00 TP0] Prefill batch. #new-seq: 1, #running-req: 0",
    ]
    assert counts(lines_as, *lines) == [(7, 2)] * 5 + [(None, None)] * 2


def test_other_lines_are_no_records(lines_as: Reader) -> None:
    lines = [
        "[2026-07-15 08:00:00 TP0] Decode batch. #running-req: 1, #token: 2266, token usage: 0.00",
        '[2026-07-15 08:00:00] INFO:     127.0.0.1:57732 - "POST /generate HTTP/1.1" 200 OK',
        "the words Prefill batch. #new-seq: 1, alone",
        b"\xff\xfe",
    ]
    assert counts(lines_as, *lines) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (batch(1, 5, 2)[:40], "cut_line"),
        (batch(1, 5, 2).replace("#new-seq: 1", "#new-seq: -1"), "cut_line"),
        (batch(1, 5, 2).replace("07-15", "17-15"), "bad_time"),
    ],
)
def test_rejects(lines_as: Reader, line: str, reason: str) -> None:
    reading = lines_as("sglang-log", line, batch(1, 5, 2))
    assert (reading.reasons, len(reading.rows), reading.records) == ([reason], 1, 2)


def test_a_number_that_is_cut_off_is_none(lines_as: Reader) -> None:
    assert counts(lines_as, batch(1, 5, 128).removesuffix("8" + TAIL)) == [(None, None)]


def test_sniffing() -> None:
    decode = "[2026-07-15 08:00:00 TP0] Decode batch. #running-req: 1,"
    for head in (batch(1, 5, 2), decode, "[2026-07-15 08:00:00] INFO: started\n" + batch(1, 5, 2)):
        assert READER.sniff(head.encode())
    for head in ("", "{}", json.dumps({"prompt": batch(1, 5, 2)}), "INFO 08-01 12:00:00 [logger.py:39] x"):
        assert not READER.sniff(head.encode())
