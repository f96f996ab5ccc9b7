from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.errors import RejectedInput, UsageError

if TYPE_CHECKING:
    from conftest import Reader

HI = '"messages":[{"role":"user","content":"hi"}]'


@pytest.mark.parametrize("name", ["id", "request_id"])
def test_spellings_of_the_id(lines_as: Reader, name: str) -> None:
    assert lines_as("chat-jsonl", f'{{"{name}":"a",{HI}}}').column("request_id") == ["a"]


@pytest.mark.parametrize(
    "name", ["ts_epoch", "timestamp", "ts", "time", "arrival_time", "start_time", "created_at", "created"]
)
def test_spellings_of_the_time(lines_as: Reader, name: str) -> None:
    assert lines_as("chat-jsonl", f'{{"{name}":1.5,{HI}}}').column("arrival_us") == [1_500_000]


@pytest.mark.parametrize("name", ["tenant", "route", "app", "endpoint"])
def test_spellings_of_the_route(lines_as: Reader, name: str) -> None:
    assert lines_as("chat-jsonl", f'{{"{name}":"shop",{HI}}}').column("route") == ["shop"]


@pytest.mark.parametrize("name", ["session_id", "conversation_id"])
def test_spellings_of_the_session(lines_as: Reader, name: str) -> None:
    assert lines_as("chat-jsonl", f'{{"{name}":9,{HI}}}').column("session_id") == ["9"]


@pytest.mark.parametrize(
    ("fields", "column", "microseconds"),
    [
        ('"ttft_us":7', "ttft_us", 7),
        ('"ttft_ms":1.5', "ttft_us", 1_500),
        ('"ttft_s":0.25', "ttft_us", 250_000),
        ('"latency_us":7', "latency_us", 7),
        ('"latency_ms":2', "latency_us", 2_000),
        ('"latency_s":3', "latency_us", 3_000_000),
        ('"ttft_us":-1,"ttft_ms":2', "ttft_us", 2_000),
        ('"latency_s":"fast"', "latency_us", None),
    ],
)
def test_durations(lines_as: Reader, fields: str, column: str, microseconds: int | None) -> None:
    assert lines_as("chat-jsonl", f"{{{fields},{HI}}}").column(column) == [microseconds]


def test_usage_gives_the_counts(lines_as: Reader) -> None:
    usage = '"usage":{"prompt_tokens":9,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":4}}'
    (row,) = lines_as("chat-jsonl", f"{{{usage},{HI}}}").rows
    assert (row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]) == (9, 0, 4)


def test_counts_beside_usage_win(lines_as: Reader) -> None:
    line = f'{{"usage":{{"completion_tokens":5}},"output_tokens":6,"cached_tokens":0,{HI}}}'
    (row,) = lines_as("chat-jsonl", line).rows
    assert (row["output_tokens"], row["cached_tokens"]) == (6, 0)
    assert "prompt_tokens" not in row


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ('"output_tokens":-1', "bad_output_tokens"),
        ('"output_tokens":1e400', "bad_output_tokens"),
        ('"cached_tokens":"many"', "bad_cached_tokens"),
        ('"usage":{"prompt_tokens":-5}', "bad_prompt_tokens"),
        ('"usage":{"completion_tokens":1.5}', "bad_completion_tokens"),
        ('"usage":[]', "bad_usage"),
        ('"ts":"soon"', "bad_time"),
        ('"ts":true', "bad_time"),
        ('"ts":1e400', "bad_ts"),
        ('"tools":{}', "bad_tools"),
    ],
)
def test_fields_that_cannot_be_used(lines_as: Reader, field: str, reason: str) -> None:
    reading = lines_as("chat-jsonl", f"{{{field},{HI}}}")
    assert (reading.records, reading.rows, reading.reasons) == (1, [], [reason])


@pytest.mark.parametrize(
    "messages",
    [
        '"hi"', '{"role":"user"}', "[5]", "[null]", '[{"content":"x"}]', '[{"role":null,"content":"x"}]',
        '[{"role":"user","content":5}]', '[{"role":"user","content":{}}]',
    ],
)  # fmt: skip
def test_messages_of_another_shape(lines_as: Reader, messages: str) -> None:
    assert lines_as("chat-jsonl", f'{{"messages":{messages}}}').reasons == ["bad_messages"]


def test_null_content_is_kept_apart_from_empty_and_missing(lines_as: Reader) -> None:
    contents = ['"content":null', '"content":""', '"x":1']
    reading = lines_as("chat-jsonl", *(f'{{"messages":[{{"role":"assistant",{c}}}]}}' for c in contents))
    assert reading.column("messages") == [f'[{{"role":"assistant",{c}}}]' for c in contents]


def test_messages_keep_their_keys_their_order_and_every_character(lines_as: Reader) -> None:
    messages: list[Any] = [
        {"role": "user", "z": 1, "a": [{"n": 2**70}], "content": "a\u2028b \u0000 \N{HERB} \\u0041"}
    ]
    (row,) = lines_as("chat-jsonl", json.dumps({"messages": messages})).rows
    assert json.loads(row["messages"]) == messages
    assert row["messages"].startswith(
        '[{"role":"user","z":1,"a":[{"n":1180591620717411303424}],"content":"a\u2028b '
    )


@pytest.mark.parametrize(
    ("prompt", "column", "values"),
    [
        ('"one"', "prompt", ["one"]),
        ('["one","two"]', "prompt", ["one", "two"]),
        ("[1,2,3]", "token_ids", [[1, 2, 3]]),
        ("[[1,2],[3]]", "token_ids", [[1, 2], [3]]),
        ("[2147483647]", "token_ids", [[2_147_483_647]]),
        ('""', "prompt", [None]),
        ("[]", "prompt", [None]),
        ("null", "prompt", [None]),
        ('["","two"]', "prompt", [None, "two"]),
        ("[[],[3]]", "token_ids", [None, [3]]),
    ],
)
def test_every_form_of_prompt(lines_as: Reader, prompt: str, column: str, values: list[Any]) -> None:
    reading = lines_as("chat-jsonl", f'{{"id":"a","prompt":{prompt}}}')
    assert reading.column(column) == values
    assert reading.column("request_id") == ["a", "a#1"][: len(values)]
    assert reading.records == len(values)
    assert {row["source"][-2:] for row in reading.rows} == {":1"}


def test_several_prompts_without_an_id(lines_as: Reader) -> None:
    assert lines_as("chat-jsonl", '{"prompt":["one","two"]}').column("request_id") == [None, None]


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("[2147483648]", "bad_token_ids"),
        ("[-1]", "bad_token_ids"),
        ("[1.0]", "bad_token_ids"),
        ("[true]", "bad_token_ids"),
        ("[1,null]", "bad_token_ids"),
        ('["a",1]', "bad_token_ids"),
        ("[[1],2]", "bad_token_ids"),
        ("{}", "bad_prompt"),
        ("5", "bad_prompt"),
    ],
)
def test_prompts_of_another_shape(lines_as: Reader, prompt: str, reason: str) -> None:
    assert lines_as("chat-jsonl", f'{{"prompt":{prompt}}}').reasons == [reason]


def test_null_and_empty_say_nothing(lines_as: Reader) -> None:
    line = f'{{"id":null,"request_id":"r","ts":"","created":2,"tenant":"","app":"shop","model":"","priority":null,{HI}}}'
    (row,) = lines_as("chat-jsonl", line).rows
    assert row["request_id"] == "r"
    assert row["arrival_us"] == 2_000_000
    assert row["route"] == "shop"
    assert not {"namespace", "priority", "session_id"} & set(row)


@pytest.mark.parametrize(
    ("fields", "namespace"),
    [
        ('"model":"m"', "model=m"),
        ('"model":"m","adapter":"l"', "model=m adapter=l"),
        ('"model":"m","cache_salt":"s"', "model=m salt=s"),
        ('"x":1', None),
    ],
)
def test_what_keys_never_share_across(lines_as: Reader, fields: str, namespace: str | None) -> None:
    assert lines_as("chat-jsonl", f"{{{fields},{HI}}}").column("namespace") == [namespace]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("3", 3), ("-3", -3), ("9223372036854775808", None), ('"high"', None), ("1.5", None)],
)
def test_priority(lines_as: Reader, value: str, expected: int | None) -> None:
    assert lines_as("chat-jsonl", f'{{"priority":{value},{HI}}}').column("priority") == [expected]


def test_status(lines_as: Reader) -> None:
    lines = (f'{{"status":"ok",{HI}}}', f'{{"status_code":200,{HI}}}')
    assert lines_as("chat-jsonl", *lines).column("status") == ["ok", "200"]


def test_a_line_that_says_nothing(lines_as: Reader) -> None:
    assert lines_as("chat-jsonl", "{}", '{"other":1}').reasons == ["empty_object", "empty_object"]


@pytest.mark.parametrize(
    ("key", "line", "route"),
    [
        ("team", '{"team":"a","prompt":"x"}', "a"),
        ("meta.team", '{"meta":{"team":5},"prompt":"x"}', "5"),
        ("meta.a.b", '{"meta":{"a":{"b":"c"}},"prompt":"x"}', "c"),
        ("meta.team", '{"meta":"flat","prompt":"x"}', None),
        ("meta.team", '{"meta":{"team":["a"]},"prompt":"x"}', None),
        ("meta", '{"meta":{"team":"a"},"prompt":"x"}', None),
        ("team", '{"tenant":"t","prompt":"x"}', None),
        ("团队", '{"团队":"甲","prompt":"x"}', "甲"),
        ("", '{"":"a","prompt":"x"}', "a"),
        (".", '{"":{"":"a"},"prompt":"x"}', "a"),
    ],
)
def test_route_key(lines_as: Reader, key: str, line: str, route: str | None) -> None:
    assert lines_as("chat-jsonl", line, route_key=key).column("route") == [route]


def test_a_route_that_cannot_be_read_rejects_all_prompts_of_its_line(lines_as: Reader) -> None:
    lines = (
        '{"prompt":["one","two"],"team":1e400}',
        b'{"prompt":"x","team":"\xff"}',
        '{"prompt":"x","team":"a"}',
    )
    reading = lines_as("chat-jsonl", *lines, route_key="team")
    assert reading.reasons == ["bad_team", "bad_utf8"]
    assert (reading.records, reading.column("route")) == (3, ["a"])


@pytest.mark.parametrize("key", ['a"b', "a\\b", "a\nb"])
def test_a_route_key_that_json_cannot_name_is_wrong_usage(lines_as: Reader, key: str) -> None:
    with pytest.raises(UsageError, match="--route-key"):
        lines_as("chat-jsonl", f"{{{HI}}}", route_key=key)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"id":"a","hash_ids":[1]}', "hash_ids"),
        ('{"id":"a","prompt_token_ids":[1]}', "prompt_token_ids"),
        ('{"id":"a","token_ids":[1]}', "token_ids"),
        ('{"id":"a","body":{"prompt":"x"}}', "body"),
    ],
)
def test_a_prompt_of_another_format_is_not_called_a_request_without_one(
    lines_as: Reader, line: str, key: str
) -> None:
    reading = lines_as("chat-jsonl", line, '{"id":"b","hash_ids":null,"body":"x"}')
    assert reading.reasons == ["other_format"]
    assert repr(key) in reading.rejects[0][2]
    assert reading.column("request_id") == ["b"]


def test_strict_stops_at_the_first_reject_and_names_its_line(lines_as: Reader) -> None:
    with pytest.raises(RejectedInput, match=r"log\.jsonl:3: not JSON"):
        lines_as("chat-jsonl", f"{{{HI}}}", "", "{bad", f"{{{HI}}}", strict=True)


def test_sources_count_blank_lines(lines_as: Reader) -> None:
    reading = lines_as("chat-jsonl", "", f"{{{HI}}}", "", "[]")
    assert [row["source"].rpartition(":")[2] for row in reading.rows] == ["2"]
    assert [source.rpartition(":")[2] for source, _, _ in reading.rejects] == ["4"]
