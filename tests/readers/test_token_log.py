from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Reader


def test_a_token_line(lines_as: Reader) -> None:
    line = (
        '{"id":7,"ts":1.5,"model":"m","cache_salt":"s","tenant":"shop","session_id":"c","prompt_token_ids":[5,0,5],'
        '"output_tokens":0,"cached_tokens":2,"priority":-1}'
    )
    (row,) = lines_as("token-log", line).rows
    row.pop("source")
    assert row == {
        "request_id": "7",
        "arrival_us": 1_500_000,
        "namespace": "model=m salt=s",
        "route": "shop",
        "session_id": "c",
        "token_ids": [5, 0, 5],
        "prompt_tokens": 3,
        "output_tokens": 0,
        "cached_tokens": 2,
        "priority": -1,
    }


def test_the_other_spelling(lines_as: Reader) -> None:
    assert lines_as("token-log", '{"token_ids":[1]}').column("token_ids") == [[1]]


@pytest.mark.parametrize("ids", ["null", "[]"])
def test_no_ids_are_no_prompt(lines_as: Reader, ids: str) -> None:
    reading = lines_as("token-log", f'{{"id":"a","prompt_token_ids":{ids}}}')
    assert (reading.column("token_ids"), reading.column("prompt_tokens")) == ([None], [None])


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ("[1,2147483648]", "bad_token_ids"),
        ("[4294967296]", "bad_token_ids"),
        ("[-1]", "bad_token_ids"),
        ("[1.0]", "bad_token_ids"),
        ("[false]", "bad_token_ids"),
        ('["1"]', "bad_token_ids"),
        ("[[1]]", "bad_token_ids"),
        ("[1e400]", "bad_prompt_token_ids"),
        ('"1 2 3"', "bad_prompt_token_ids"),
    ],
)
def test_what_is_no_token_id(lines_as: Reader, ids: str, reason: str) -> None:
    assert lines_as("token-log", f'{{"prompt_token_ids":{ids}}}').reasons == [reason]


def test_the_largest_id(lines_as: Reader) -> None:
    assert lines_as("token-log", '{"prompt_token_ids":[2147483647]}').column("token_ids") == [[2_147_483_647]]


@pytest.mark.parametrize("field", ['"output_tokens":-1', '"cached_tokens":-1', '"ts":"soon"'])
def test_fields_that_cannot_be_used(lines_as: Reader, field: str) -> None:
    assert len(lines_as("token-log", f'{{"prompt_token_ids":[1],{field}}}').rejects) == 1


@pytest.mark.parametrize("other", ['"prompt":"x"', '"messages":[{"role":"user"}]', '"hash_ids":[1]'])
def test_a_prompt_of_another_format(lines_as: Reader, other: str) -> None:
    assert lines_as("token-log", f'{{"id":"a",{other}}}').reasons == ["other_format"]


def test_route_key(lines_as: Reader) -> None:
    line: Any = '{"prompt_token_ids":[1],"tenant":"t","meta":{"team":"a"}}'
    assert lines_as("token-log", line, route_key="meta.team").column("route") == ["a"]
