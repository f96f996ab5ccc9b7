from __future__ import annotations

from typing import Any

import pytest

from kvtools.errors import UsageError
from kvtools.readers.columns import columns_of
from kvtools.readers.records import Rejected
from kvtools.readers.times import BadTime


def row(
    table: dict[str, Any], mapping: dict[str, str] | None = None, route_key: str | None = None
) -> dict[str, Any]:
    """The columns that are not NA of the one request that a record of these cells gives."""
    (found,) = columns_of(list(table), mapping, route_key).rows(list(table.values()))
    text = {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}
    return {name: value for name, value in text.items() if value is not None}


def reason(table: dict[str, Any], mapping: dict[str, str] | None = None) -> str:
    with pytest.raises(Rejected) as raised:
        row(table, mapping)
    return raised.value.reason


MESSAGES = '[{"role":"user","content":"hi"}]'


def test_the_names_of_chat_logs() -> None:
    table = {
        "id": "a", "timestamp": "1.5", "model": "m", "adapter": "l", "cache_salt": "s", "tenant": "shop",
        "session_id": "c", "messages": MESSAGES, "tools": '[{"type": "function"}]', "prompt_tokens": "7",
        "output_tokens": "0", "cached_tokens": "4.0", "ttft_ms": "1.5", "latency_s": "2", "status": "200",
        "priority": "-1", "n": "3", "prompt_logprobs": "1", "response": "hello", "unknown": "x",
    }  # fmt: skip
    assert row(table) == {
        "request_id": "a",
        "arrival_us": 1_500_000,
        "namespace": "model=m adapter=l salt=s",
        "route": "shop",
        "session_id": "c",
        "messages": MESSAGES,
        "tools": '[{"type":"function"}]',
        "prompt_tokens": 7,
        "output_tokens": 0,
        "cached_tokens": 4,
        "ttft_us": 1_500,
        "latency_us": 2_000_000,
        "status": "200",
        "priority": -1,
        "samples": 3,
        "skip_lookup": 1,
        "output_text": "hello",
    }


def test_names_in_any_case_with_spaces() -> None:
    assert row({"Request ID": "a", "PROMPT": "x", "Prompt Tokens": 3, "completion-tokens": 1}) == {
        "request_id": "a",
        "prompt": "x",
        "prompt_tokens": 3,
        "output_tokens": 1,
    }


def test_empty_cells_say_nothing() -> None:
    empty = {
        "id": "",
        "timestamp": None,
        "prompt": "x",
        "output_tokens": float("nan"),
        "cached_tokens": "NaN",
    }
    assert row(empty) == {"prompt": "x"}
    assert reason({"id": "", "prompt": None}) == "empty_object"


def test_a_length_alone_is_a_request_without_prompt() -> None:
    assert row({"prompt_tokens": "0"}) == {"prompt_tokens": 0}


def test_the_two_bodies_of_a_gateway() -> None:
    table = {
        "timestamp": 2,
        "model_name": "outer",
        "request_json": f'{{"model":"inner","messages":{MESSAGES},"tools":[{{"type":"function"}}],"priority":2}}',
        "response_json": '{"id":"r","choices":[{"message":{"content":"ok"}}],"usage":{"prompt_tokens":9,'
        '"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}',
        "status_code": 200,
    }
    assert row(table) == {
        "request_id": "r",
        "arrival_us": 2_000_000,
        "namespace": "model=outer",
        "messages": MESSAGES,
        "tools": '[{"type":"function"}]',
        "prompt_tokens": 9,
        "output_tokens": 2,
        "cached_tokens": 8,
        "status": "200",
        "priority": 2,
        "output_text": "ok",
    }


def test_a_responses_call_in_a_gateway_log() -> None:
    table = {
        "request_json": '{"model":"m","instructions":"be brief","input":"hi"}',
        "response_json": '{"output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}]}',
    }
    assert row(table) == {
        "namespace": "model=m",
        "messages": '[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]',
        "output_text": "ok",
    }


@pytest.mark.parametrize(
    "response", ["<html>502</html>", '{"id":"r', "null", "[]", '{"usage":7,"choices":{}}']
)
def test_an_answer_that_is_none_leaves_its_request(response: str) -> None:
    assert row({"request_json": '{"prompt":"x"}', "response_json": response}) == {"prompt": "x"}


def test_a_request_that_is_not_json_is_a_reject() -> None:
    assert reason({"request_json": '{"prompt":"x', "response_json": "{}"}) == "bad_json"


def test_a_mapping_goes_into_json_and_lists() -> None:
    table = {
        "body": f'{{"chat":{{"turns":{MESSAGES}}},"runs":[{{"n":1}},{{"tokens":12}}]}}',
        "ts": "1970-01-01T00:00:03Z",
        "first.token_ms": "2.5",
        "id": "kept",
    }
    mapping = {
        "prompt": "body.chat.turns",
        "arrival_us": "ts",
        "prompt_tokens": "body.runs.1.tokens",
        "output_tokens": "body.runs.7.tokens",
        "cached_tokens": "body.runs.x",
        "ttft_us": "first.token_ms",
        "namespace": "id",
    }
    assert row(table, mapping) == {
        "request_id": "kept",
        "arrival_us": 3_000_000,
        "namespace": "kept",
        "messages": MESSAGES,
        "prompt_tokens": 12,
        "ttft_us": 2_500,
    }


def test_a_mapped_prompt_is_the_only_one() -> None:
    table = {"messages": MESSAGES, "text": "hi", "token_ids": "[1]"}
    assert row(table, {"prompt": "text"}) == {"prompt": "hi"}
    assert row(table, {"messages": "messages", "token_ids": "token_ids"})["messages"] == MESSAGES


def test_a_structure_is_looked_into_as_json_is() -> None:
    assert row({"body": {"prompt": ["a"]}}, {"prompt": "body.prompt"}) == {"prompt": "a"}


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"prompt": "body.text"}, r"--map prompt=body.text: no such column; the columns are id, ts\."),
        ({"speed": "id"}, r"--map speed=id: not a column of a request; take one of adapter, arrival_us, "),
    ],
)
def test_a_mapping_that_cannot_be_followed(mapping: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        columns_of(["id", "ts"], mapping)


def test_route_key() -> None:
    assert row({"prompt": "x", "tenant": "t", "meta": '{"team":"a"}'}, route_key="meta.team")["route"] == "a"
    assert "route" not in row({"prompt": "x", "tenant": "t"}, route_key="meta.team")


def test_token_ids() -> None:
    assert row({"token_ids": "[5,0,5]"}) == {"token_ids": [5, 0, 5], "prompt_tokens": 3}
    assert row({"prompt_token_ids": [7], "prompt_tokens": 9}) == {"token_ids": [7], "prompt_tokens": 9}
    assert row({"id": "a", "token_ids": "[]"}) == {"request_id": "a"}
    assert row({"prompt": "x", "token_ids": [1]}) == {"prompt": "x", "token_ids": [1], "prompt_tokens": 1}


def test_block_ids_count_milliseconds_as_in_a_hash_trace() -> None:
    trace = {"timestamp": "27482", "input_length": "1030", "output_length": 52, "hash_ids": "[46,47,2353]"}
    assert row(trace) == {
        "arrival_us": 27_482_000,
        "block_keys": [46, 47, 2353],
        "prompt_tokens": 1_030,
        "output_tokens": 52,
    }
    written = {"timestamp": "1970-01-01T00:00:01Z", "input_length": 1, "hash_ids": [1], "block_size": "16"}
    assert (row(written)["arrival_us"], row(written)["block_size"]) == (1_000_000, 16)
    mapped = {"seconds": 2, "input_length": 1, "hash_ids": [1]}
    assert row(mapped, {"arrival_us": "seconds"})["arrival_us"] == 2_000_000


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"messages": "hi"}, "bad_messages"),
        ({"messages": '{"role":"user"}'}, "bad_messages"),
        ({"messages": '["hi"]'}, "bad_messages"),
        ({"messages": '[{"content":"hi"}]'}, "bad_messages"),
        ({"messages": MESSAGES, "tools": "[1]"}, "bad_tools"),
        ({"prompt": 5}, "bad_prompt"),
        ({"prompt": {"a": 1}}, "bad_prompt"),
        ({"token_ids": "1 2 3"}, "bad_token_ids"),
        ({"token_ids": "[2147483648]"}, "bad_token_ids"),
        ({"token_ids": "7"}, "bad_token_ids"),
        ({"prompt": ["a", "b"], "token_ids": [1]}, "bad_prompt"),
        ({"hash_ids": "[1]"}, "bad_input_length"),
        ({"hash_ids": "[1.5]", "input_length": 1}, "bad_hash_ids"),
        ({"prompt_tokens": "-1"}, "bad_prompt_tokens"),
        ({"prompt_tokens": "1e400"}, "bad_prompt_tokens"),
        ({"prompt_tokens": "9" * 5_000}, "bad_prompt_tokens"),
        ({"output_tokens": "many"}, "bad_output_tokens"),
        ({"output_tokens": "[1]"}, "bad_output_tokens"),
        ({"output_tokens": "true"}, "bad_output_tokens"),
        ({"usage": "{"}, "bad_usage"),
        ({"usage": '{"prompt_tokens":-1}'}, "bad_prompt_tokens"),
        ({"messages": '[{"role":"user","content":"\\ud800"}]'}, "bad_messages"),
        ({"messages": "[" * 100_000 + "]" * 100_000}, "bad_messages"),
    ],
)  # fmt: skip
def test_cells_that_cannot_be_used(table: dict[str, Any], why: str) -> None:
    assert reason(table) == why


def test_depth_is_never_an_error_of_ours() -> None:
    for depth in range(10, 1_100, 7):
        nested = '{"a":' * depth + "1" + "}" * depth
        try:
            row({"messages": f'[{{"role":"user","content":null,"x":{nested}}}]'})
        except Rejected as fault:
            assert fault.reason in {"bad_messages", "too_deep"}  # noqa: PT017 - some depths are read


@pytest.mark.parametrize("time", ["soon", [1], "1e400", {"a": 1}, True])
def test_a_time_that_is_none(time: object) -> None:
    with pytest.raises(BadTime):
        row({"prompt": "x", "timestamp": time})


def test_what_is_recognised() -> None:
    assert columns_of(["a", "Prompt"]).recognised
    assert columns_of(["input_length"]).recognised
    assert not columns_of(["id", "timestamp", "model"]).recognised
    assert not columns_of([]).recognised
    assert columns_of(["a", "id", "b", "prompt"]).needed == [1, 3]
