from __future__ import annotations

import json
from typing import Any

import pytest

from kvtools.readers.bodies import (
    Body,
    answer_text,
    body_of,
    canonical_messages,
    prompts_in,
    rows_of,
    usage_counts,
)
from kvtools.readers.records import Rejected
from kvtools.readers.responses_api import function_tools

PICTURE = {"type": "image_url", "image_url": {"url": "https://x/y.png"}, "tokens": 85}
CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "f",
    "arguments": '{"a": 1}',
    "id": "fc",
    "status": "completed",
}


def called(call_id: str = "c1", name: str = "f", arguments: str = '{"a": 1}') -> dict[str, Any]:
    return {"id": call_id, "function": {"name": name, "arguments": arguments}, "type": "function"}


def messages_of(**fields: Any) -> list[dict[str, Any]]:
    (row,) = prompts_in(Body(**fields))
    messages: list[dict[str, Any]] = json.loads(row["messages"])
    return messages


def fault_of(**fields: Any) -> tuple[str, str]:
    with pytest.raises(Rejected) as fault:
        prompts_in(Body(**fields))
    return fault.value.reason, fault.value.detail


def test_chat_messages_stay_as_logged() -> None:
    messages: list[dict[str, Any]] = [
        {"content": "be short", "role": "developer", "name": "n"},
        {"role": "user", "content": [{"type": "text", "text": "what is it"}, PICTURE]},
        {"role": "assistant", "content": None, "tool_calls": [called()]},
        {"role": "tool", "tool_call_id": "c1", "content": "{}"},
    ]
    assert messages_of(messages=messages) == messages
    assert canonical_messages(messages[:1]) == '[{"content":"be short","role":"developer","name":"n"}]'


def test_tools_of_a_chat_body_stay_as_logged() -> None:
    tools = [{"type": "function", "function": {"name": "f"}, "x": 1}, {"type": "web_search"}]
    (row,) = prompts_in(Body(messages=[{"role": "user", "content": "x"}], tools=tools))
    assert json.loads(row["tools"]) == tools


@pytest.mark.parametrize(
    "body", [Body(), Body(messages=[], prompt="", input=""), Body(input=[]), Body(instructions="x")]
)
def test_a_body_without_prompt(body: Body) -> None:
    assert prompts_in(body) == []


def test_messages_come_before_prompt_and_prompt_before_input() -> None:
    assert (
        messages_of(messages=[{"role": "user", "content": "m"}], prompt="p", input="i")[0]["content"] == "m"
    )
    assert prompts_in(Body(prompt="p", input="i")) == [{"prompt": "p"}]


def test_a_responses_body_of_one_text() -> None:
    assert messages_of(input="hi", instructions="be short") == [
        {"role": "system", "content": "be short"},
        {"role": "user", "content": "hi"},
    ]


def test_items_of_one_answer_are_one_message() -> None:
    items = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "id": "m", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "first"}, {"type": "output_text", "text": "second"}]},
        CALL,
        CALL | {"call_id": "c2", "name": "g"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
        {"role": "assistant", "content": "done"},
        {"role": "assistant", "content": "really"},
    ]  # fmt: skip
    assert messages_of(input=items) == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "reasoning": "hm",
            "content": "first",
            "tool_calls": [called(), called("c2", "g")],
        },
        {"role": "tool", "content": "1", "tool_call_id": "c1"},
        {"role": "tool", "content": "2", "tool_call_id": "c2"},
        {"role": "assistant", "content": "done"},
        {"role": "assistant", "content": "really"},
    ]


def test_a_call_without_an_answer_before_it() -> None:
    assert messages_of(input=[{"role": "user", "content": "hi"}, CALL]) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [called()]},
    ]


@pytest.mark.parametrize(
    ("item", "name", "arguments"),
    [
        (CALL | {"namespace": "crm"}, "crm__f", '{"a": 1}'),
        (
            {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "né\n"},
            "f",
            '{"input": "né\\n"}',
        ),
        ({"type": "custom_tool_call", "call_id": "c1", "name": "f"}, "f", '{"input": ""}'),
    ],
)
def test_names_and_arguments_of_calls(item: dict[str, Any], name: str, arguments: str) -> None:
    assert messages_of(input=[item]) == [{"role": "assistant", "tool_calls": [called("c1", name, arguments)]}]


def test_parts_of_a_message_stay_as_logged_and_item_fields_go() -> None:
    parts = [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "u"}]
    item = {"type": "message", "id": "m", "status": "completed", "role": "user", "content": parts}
    assert messages_of(input=[item]) == [{"role": "user", "content": parts}]


def test_a_refused_answer_keeps_its_parts() -> None:
    parts = [{"type": "refusal", "refusal": "no"}]
    assert messages_of(input=[{"role": "assistant", "content": parts}]) == [
        {"role": "assistant", "content": parts}
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"input": 5}, "bad_input"),
        ({"input": {"role": "user"}}, "bad_input"),
        ({"input": ["text"]}, "bad_input"),
        ({"input": [None]}, "bad_input"),
        ({"input": [{"type": "web_search_call", "id": "w"}]}, "bad_input"),
        ({"input": [{"type": ["x"] * 1000}]}, "bad_input"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "bad_input"),
        ({"input": [CALL | {"arguments": {}}]}, "bad_input"),
        ({"input": [{"role": "user", "content": 5}]}, "bad_messages"),
        ({"input": [{"type": "function_call_output", "output": {"x": 1}}]}, "bad_messages"),
        ({"input": [{"type": "reasoning", "encrypted_content": "x"}]}, "encrypted_reasoning"),
        ({"input": "x", "instructions": ["y"]}, "bad_instructions"),
        ({"input": "x", "previous_response_id": "r"}, "earlier_turns"),
        ({"input": "x", "conversation": {"id": "c"}}, "earlier_turns"),
    ],
)  # fmt: skip
def test_responses_bodies_that_cannot_be_used(fields: dict[str, Any], reason: str) -> None:
    found, detail = fault_of(**fields)
    assert found == reason
    assert len(detail) < 150


def test_tools_of_a_responses_body() -> None:
    flat = {
        "type": "function",
        "name": "f",
        "description": "d",
        "parameters": {"type": "object"},
        "strict": True,
    }
    nested = {"type": "function", "function": {"name": "g"}}
    space = {"type": "namespace", "name": "crm", "tools": [flat, {"type": "web_search"}, 5]}
    tools = [
        flat,
        nested,
        space,
        {"type": "web_search"},
        {"type": "custom", "name": "c"},
        {"type": "namespace"},
    ]
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    *known, custom = function_tools(tools)
    assert known == [
        {"type": "function", "function": function},
        nested,
        {"type": "function", "function": function | {"name": "crm__f"}},
    ]
    assert custom["function"]["name"] == "c"
    assert custom["function"]["parameters"]["required"] == ["input"]
    assert function_tools(None) == []


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ("a", [{"prompt": "a"}]),
        (["a", "b"], [{"prompt": "a"}, {"prompt": "b"}]),
        ([1, 2], [{"token_ids": [1, 2]}]),
    ],
)
def test_an_embeddings_call_has_its_prompts_in_input(value: Any, rows: list[dict[str, Any]]) -> None:
    assert prompts_in(Body(input=value), "https://host/v1/embeddings/") == rows


def test_one_row_per_prompt() -> None:
    prompts = [{"prompt": "a"}, {"prompt": "b"}]
    assert [row["request_id"] for row in rows_of({"request_id": "r"}, prompts)] == ["r", "r#1"]
    assert [row["request_id"] for row in rows_of({"request_id": None}, prompts)] == [None, None]
    assert list(rows_of({"request_id": "r"}, [])) == [{"request_id": "r"}]


@pytest.mark.parametrize(
    ("request_body", "reason"),
    [
        ({"messages": "x"}, "bad_messages"),
        ({"tools": {}}, "bad_tools"),
        ({"prompt": {"id": "p"}}, "bad_prompt"),
    ],
)
def test_fields_of_another_type(request_body: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected) as fault:
        body_of(request_body)
    assert fault.value.reason == reason


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 4}}, (9, 0, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 2}, (9, 2, None)),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 0}}, (9, 2, 0)),
        ({"input_tokens": 9, "output_tokens": 2}, (9, 2, None)),
        # Anthropic counts what the cache held apart: 9 + 100 read + 20 written.
        ({"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}, (129, None, 100)),
        # With OpenAI's names they are inside.
        ({"prompt_tokens": 9, "cache_read_input_tokens": 4}, (9, None, None)),
        ({"total_tokens": 9}, (None, None, None)),
    ],
)  # fmt: skip
def test_usage(usage: dict[str, Any], counts: tuple[int | None, ...]) -> None:
    found = usage_counts(usage)
    assert tuple(found[name] for name in ("prompt_tokens", "output_tokens", "cached_tokens")) == counts


@pytest.mark.parametrize("usage", [None, {}, [], "x", 5])
def test_no_usage(usage: Any) -> None:
    assert usage_counts(usage) == {}


@pytest.mark.parametrize("name", ["prompt_tokens", "input_tokens", "completion_tokens", "output_tokens"])
def test_a_count_that_is_none(name: str) -> None:
    with pytest.raises(Rejected) as fault:
        usage_counts({name: -1})
    assert fault.value.reason == f"bad_{name}"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": "yes"}}]}, "yes"),
        ({"choices": [{"message": {"content": None, "tool_calls": []}}]}, None),
        ({"choices": [{"text": "yes"}]}, "yes"),
        ({"choices": [{"text": "yes"}, {"text": "no"}]}, None),
        ({"choices": []}, None),
        ({"choices": [None]}, None),
        ({"choices": {"text": "yes"}}, None),
        ({"output": [{"type": "reasoning"}, {"type": "message", "content": [
            {"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}, {"type": "refusal"}]}]}, "ab"),
        ({"output": [{"type": "message", "content": [{"type": "output_text", "text": 5}]}]}, None),
        ({"output": "yes"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_answers(response: dict[str, Any], text: str | None) -> None:
    assert answer_text(response) == text
