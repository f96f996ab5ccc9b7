from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Reader


def test_a_trace_line(lines_as: Reader) -> None:
    (row,) = lines_as(
        "mooncake", '{"timestamp":27482,"input_length":1030,"output_length":52,"hash_ids":[46,47,2353]}'
    ).rows
    row.pop("source")
    assert row == {
        "arrival_us": 27_482_000,
        "block_keys": [46, 47, 2353],
        "prompt_tokens": 1030,
        "output_tokens": 52,
    }


def test_who_and_where(lines_as: Reader) -> None:
    line = (
        '{"id":"","request_id":"r","model":"m","app":"shop","session_id":3,"block_size":16,'
        '"input_length":1,"hash_ids":[0]}'
    )
    (row,) = lines_as("mooncake", line).rows
    assert (row["request_id"], row["namespace"], row["route"]) == ("r", "model=m", "shop")
    assert (row["session_id"], row["block_size"]) == ("3", 16)


@pytest.mark.parametrize(
    ("written", "microseconds"),
    [("0", 0), ("1.5", 1_500), ('"12"', 12_000), ("-1", -1_000), ("null", None), ('""', None)],
)
def test_times_are_milliseconds_from_the_start(
    lines_as: Reader, written: str, microseconds: int | None
) -> None:
    line = f'{{"timestamp":{written},"input_length":1,"hash_ids":[0]}}'
    assert lines_as("mooncake", line).column("arrival_us") == [microseconds]


@pytest.mark.parametrize("written", ["1e18", "-1e300", '"nan"', '"inf"', '"2026-07-15"', "1" + "0" * 400])
def test_what_is_no_number_of_milliseconds(lines_as: Reader, written: str) -> None:
    assert lines_as("mooncake", f'{{"timestamp":{written},"input_length":1,"hash_ids":[0]}}').reasons == [
        "bad_time"
    ]


def test_block_ids_are_numbers_of_64_bits_or_text(lines_as: Reader) -> None:
    line = '{"input_length":1,"hash_ids":[18446744073709551615,-1,-9223372036854775808,"a","a","b"]}'
    (keys,) = lines_as("mooncake", line).column("block_keys")
    # Two's complement: -1 is the same 64 bits as 2**64 - 1.
    assert keys[:3] == [2**64 - 1, 2**64 - 1, 2**63]
    assert keys[3] == keys[4] != keys[5]


@pytest.mark.parametrize(
    "block", ["18446744073709551616", "-9223372036854775809", "1.0", "true", "null", "[1]"]
)
def test_what_is_no_block_id(lines_as: Reader, block: str) -> None:
    assert lines_as("mooncake", f'{{"input_length":1,"hash_ids":[{block}]}}').reasons == ["bad_hash_ids"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('"hash_ids":[1]', "bad_input_length"),
        ('"hash_ids":[1],"input_length":0', "bad_input_length"),
        ('"hash_ids":[1],"input_length":-4', "bad_input_length"),
        ('"hash_ids":[1],"input_length":4,"output_length":-1', "bad_output_length"),
        ('"hash_ids":[1],"input_length":4,"block_size":-16', "bad_block_size"),
        ('"hash_ids":[1],"input_length":4,"block_size":2147483648', "bad_block_size"),
        ('"hash_ids":"1","input_length":4', "bad_hash_ids"),
        ('"hash_ids":[1],"input_length":4,"timestamp":true', "bad_timestamp"),
    ],
)
def test_fields_that_cannot_be_used(lines_as: Reader, fields: str, reason: str) -> None:
    assert lines_as("mooncake", f"{{{fields}}}").reasons == [reason]


def test_no_ids_are_no_prompt(lines_as: Reader) -> None:
    reading = lines_as("mooncake", '{"input_length":9}', '{"input_length":9,"hash_ids":[]}')
    assert reading.column("block_keys") == [None, None]
    assert reading.column("prompt_tokens") == [9, 9]


def test_a_prompt_of_another_format(lines_as: Reader) -> None:
    assert lines_as("mooncake", '{"id":"a","prompt":"x"}').reasons == ["other_format"]
