from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.readers import READERS
from kvtools.readers.langfuse import READER

if TYPE_CHECKING:
    from conftest import Reader, Reading

ANY: Any = {"id": "o", "type": "GENERATION", "traceId": "t", "startTime": "2026-07-15T08:00:00.000Z"}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


@pytest.fixture
def one(lines_as: Reader) -> Any:
    """Read one observation; return its row, or the reason of its reject."""

    def read_one(**fields: Any) -> Any:
        reading: Reading = lines_as("langfuse", json.dumps(ANY | fields))
        assert reading.records == len(reading.rows) + len(reading.rejects) == 1
        return reading.rows[0] if reading.rows else reading.reasons[0]

    return read_one


def test_a_generation_with_its_trace(lines_as: Reader) -> None:
    observation = ANY | {
        "completionStartTime": "2026-07-15T08:00:00.250Z",
        "endTime": "2026-07-15T08:00:02Z",
        "timeToFirstToken": 99,
        "model": "m",
        "level": "ERROR",
        "input": [{"role": "user", "content": "hi"}],
        "output": {"role": "assistant", "content": "hello"},
        "usageDetails": {"input": 7, "output": 2, "total": 9},
    }
    document = {
        "trace": {"id": "t", "sessionId": "s", "userId": "u", "observations": [{"id": "o"}]},
        "observations": [{"id": "x", "type": "SPAN", "traceId": "t"}, observation],
    }
    reading = lines_as("langfuse", json.dumps(document))
    (row,) = reading.rows
    assert row.pop("source").endswith("log.jsonl:1")
    assert row == {
        "request_id": "o",
        "arrival_us": 1_784_102_400_000_000,
        "namespace": "model=m",
        "route": "u",
        "session_id": "s",
        "messages": '[{"role":"user","content":"hi"}]',
        "prompt_tokens": 7,
        "output_tokens": 2,
        "ttft_us": 250_000,
        "latency_us": 2_000_000,
        "status": "error",
        "output_text": "hello",
    }
    assert reading.records == 1  # the span is no request


def test_every_shape_of_an_export(lines_as: Reader) -> None:
    export = {"trace": {"id": "t"}, "observations": [ANY, ANY]}
    answer = {"id": "t", "sessionId": "s", "observations": [ANY]}
    page = {"data": [ANY, ANY, ANY], "meta": {"page": 1}}
    for document, rows in (
        (export, 2),
        ([export, export], 4),
        (answer, 1),
        ([answer, export], 3),
        (page, 3),
        ([ANY], 1),
        (ANY, 1),
    ):
        assert len(lines_as("langfuse", json.dumps(document)).rows) == rows
        assert len(lines_as("langfuse", json.dumps(document, indent=2)).rows) == rows
        assert len(lines_as("langfuse", *[json.dumps(document)] * 2).rows) == 2 * rows
    assert lines_as("langfuse", json.dumps(answer)).column("session_id") == ["s"]
    assert lines_as("langfuse", json.dumps(export)).column("session_id") == ["t", "t"]


def test_the_line_of_an_observation(lines_as: Reader) -> None:
    reading = lines_as("langfuse", json.dumps([ANY, ANY], indent=1))
    assert [source.rsplit(":", 1)[1] for source in reading.column("source")] == ["2", "8"]


def test_the_names_of_the_database(one: Any) -> None:
    row = one(
        traceId=None,
        startTime=None,
        trace_id="t",
        session_id="s",
        user_id="u",
        start_time="2026-07-15 08:00:00.000000",
        completion_start_time="2026-07-15 08:00:01",
        end_time="2026-07-15 08:00:03",
        provided_model_name="m",
        usage_details='{"input":"5","output":"1","total":"6"}',
    )
    assert (row["arrival_us"], row["ttft_us"], row["latency_us"]) == (
        1_784_102_400_000_000,
        1_000_000,
        3_000_000,
    )
    assert (row["prompt_tokens"], row["output_tokens"]) == (5, 1)
    assert (row["namespace"], row["route"], row["session_id"]) == ("model=m", "u", "s")


USER = [{"role": "user", "content": "hi"}]
LANGCHAIN = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "HumanMessage"],
    "kwargs": {"content": "hi"},
}


@pytest.mark.parametrize(
    "given",
    [
        USER,
        {"messages": USER},
        {"args": [], "kwargs": {"messages": USER}},
        json.dumps(USER),
        json.dumps({"messages": USER}),
        json.dumps(json.dumps({"messages": USER})),
        {"messages": json.dumps(USER)},
        USER[0],
        [USER],
        [{"type": "human", "content": "hi"}],
        {"messages": [{"type": "human", "data": {"content": "hi"}}]},
        [LANGCHAIN],
        [{"role": "user", "content": "hi", "event.name": "gen_ai.user.message", "gen_ai.message.index": 0}],
        [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    ],
)
def test_one_message_however_it_is_written(one: Any, given: Any) -> None:
    assert one(input=given)["messages"] == '[{"role":"user","content":"hi"}]'


def test_a_conversation_with_a_tool_in_four_dialects(one: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    openai = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "r", "tool_call_id": "c"},
    ]
    langchain = [
        {"type": "system", "content": "s"},
        {"type": "ai", "content": None, "additional_kwargs": {"tool_calls": [call]}},
        {"type": "tool", "content": "r", "tool_call_id": "c"},
    ]
    responses = {
        "instructions": "s",
        "input": [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c", "output": "r"},
        ],
    }
    parts = [
        {"role": "system", "parts": [{"type": "text", "content": "s"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": '{"a":1}'}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "r"}]},
    ]
    for given in (openai, langchain, responses, parts):
        assert json.loads(one(input=given)["messages"]) == openai


def test_two_calls_of_one_turn_share_a_message(one: Any) -> None:
    calls = [{"type": "function_call", "call_id": c, "name": "f", "arguments": "{}"} for c in "ab"]
    (message,) = json.loads(one(input=calls)["messages"])
    assert [call["id"] for call in message["tool_calls"]] == ["a", "b"]


def test_tools(one: Any) -> None:
    nested = {"type": "function", "function": {"name": "f", "parameters": {}}}
    flat = {"type": "function", "name": "f", "parameters": {}}
    expected = '[{"type":"function","function":{"name":"f","parameters":{}}}]'
    assert one(input={"messages": USER, "tools": [nested]})["tools"] == expected
    assert one(input={"messages": USER, "tools": [flat]})["tools"] == expected
    row = one(input=[*USER, {"role": "tool", "content": nested}])
    assert (row["tools"], row["messages"]) == (expected, '[{"role":"user","content":"hi"}]')


def test_what_the_responses_api_repeats_of_the_request(one: Any) -> None:
    answer = {
        "object": "response",
        "instructions": "be kind",
        "tools": [{"type": "function", "name": "f"}],
        "output": [
            {"type": "reasoning", "content": [{"text": "hm"}]},
            {
                "type": "message",
                "content": [{"type": "output_text", "text": "he"}, {"type": "output_text", "text": "llo"}],
            },
        ],
        "text": {"format": {"type": "text"}},
        "previous_response_id": None,
    }
    for output in (answer, json.dumps(answer)):
        row = one(input=USER, output=output)
        assert row["messages"] == '[{"role":"system","content":"be kind"},{"role":"user","content":"hi"}]'
        assert row["tools"] == '[{"type":"function","function":{"name":"f"}}]'
        assert row["output_text"] == "hello"
    # The turns before are on the provider's side: the prompt is not in the log.
    assert "messages" not in one(input=USER, output=answer | {"previous_response_id": "resp_0"})


def test_text_is_a_prompt_and_variables_are_none(one: Any) -> None:
    assert one(input="Once upon")["prompt"] == "Once upon"
    assert one(input='"Once upon"')["prompt"] == "Once upon"
    assert one(input="[1] Once upon")["prompt"] == "[1] Once upon"
    assert one(input={"prompt": "Once upon"})["prompt"] == one(input=["Once upon"])["prompt"] == "Once upon"
    for nothing in (None, "", [], {}, 5, {"question": "why"}):
        assert {"prompt", "messages"}.isdisjoint(one(input=nothing))


def test_a_decoded_tool_result_is_text_again(one: Any) -> None:
    row = one(input=[{"role": "tool", "content": [{"a": "ü", "b": 1}]}, {"role": "user", "content": 42}])
    assert [m["content"] for m in json.loads(row["messages"])] == ['[{"a": "ü", "b": 1}]', "42"]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ("hello", "hello"),
        ('"hello"', "hello"),
        ({"choices": [{"message": {"content": "hello"}}]}, "hello"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "hello"}]}], "hello"),
        ({"index": 0, "message": {"role": "assistant", "content": "hello"}}, "hello"),
        (
            [
                {
                    "role": "assistant",
                    "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "hello"}],
                }
            ],
            "hello",
        ),
        ({"role": "assistant", "content": "", "tool_calls": [{}]}, None),
        ([{"type": "function_call", "arguments": "{}", "output": "x"}], None),
        (None, None),
        (5, None),
    ],
)
def test_the_answer(one: Any, output: Any, text: str | None) -> None:
    assert one(output=output).get("output_text") == text


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input": 60, "output": 15, "total": 75, "input_cache_read": 0, "output_reasoning": 0}, (60, 15, 0)),
        # Langfuse's own kinds are disjoint: 40 + 20 cached, 10 + 5 thought.
        ({"input": 40, "input_cached_tokens": 20, "output": 10, "output_reasoning": 5, "total": 75}, (60, 15, 20)),
        ({"input": 40, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 3, "output": 10}, (63, 10, 20)),
        # OpenInference details what the input holds already.
        ({"input": 85, "prompt_details.cache_read": 64, "output": 29, "total": 114}, (85, 29, 64)),
        ({"input": 85, "prompt_details.cache_read": 64, "output": 29}, (85, 29, 64)),
        ({"input": 60, "input_cached_tokens": 20, "output": 10, "total": 70}, (60, 10, 20)),
        ({"input": 60, "input_cached_tokens": 20, "output": 10, "total": 99}, (None, None, 20)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, (9, 2, 4)),
        ({"promptTokens": 9, "completionTokens": 2, "totalTokens": 11}, (9, 2, None)),
        ({"input": 0, "output": 0, "unit": "TOKENS"}, (None, None, None)),
        ({"input": 900, "output": 80, "unit": "CHARACTERS"}, (None, None, None)),
        ({}, (None, None, None)),
        (None, (None, None, None)),
        ("soon", (None, None, None)),
    ],
)  # fmt: skip
def test_usage(one: Any, usage: Any, counts: tuple[int | None, ...]) -> None:
    for name in ("usageDetails", "usage"):
        row = one(**{name: usage})
        assert (
            tuple(row.get(column) for column in ("prompt_tokens", "output_tokens", "cached_tokens")) == counts
        )


def test_usage_beside_the_details(one: Any) -> None:
    assert one(inputUsage=9, outputUsage=0)["prompt_tokens"] == one(promptTokens=9)["prompt_tokens"] == 9
    # 0 stands where an older API knew nothing.
    assert {"prompt_tokens", "output_tokens"}.isdisjoint(one(promptTokens=0, completionTokens=0))


@pytest.mark.parametrize("cached", [1024, 1000])
def test_111_what_a_provider_reports_is_taken_as_it_is(one: Any, shared: Path, cached: int) -> None:
    records = [
        json.loads(line)
        for line in next((shared / "cases").glob("111-*/input.jsonl")).read_text().splitlines()
    ]
    (usage,) = [r["usage"] for r in records if r["usage"]["prompt_tokens_details"]["cached_tokens"] == cached]
    row = one(usage=usage)
    assert (row["prompt_tokens"], row["cached_tokens"]) == (1181, cached)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"type": None}, "no_type"),
        ({"type": 5}, "no_type"),
        ({"startTime": "soon"}, "bad_time"),
        ({"endTime": []}, "bad_time"),
        ({"usageDetails": {"input": -1}}, "bad_input"),
        ({"usageDetails": {"input": True}}, "bad_input"),
        ({"input": '{"messages": [{"role": "us'}, "bad_input"),
        ({"input": [{"content": "x"}]}, "bad_messages"),
        ({"input": [{"role": "user"}, 5]}, "bad_messages"),
        ({"input": ["a", "b"]}, "many_prompts"),
        ({"observations": 5}, "bad_observations"),
        ({"observations": [], "trace": 5}, "not_an_object"),
    ],
)
def test_rejects(one: Any, fields: dict[str, Any], reason: str) -> None:
    assert one(**fields) == reason


@pytest.mark.parametrize(
    ("document", "reasons"),
    [
        ('{"trace": {}, "observations": [5, "id", null]}', ["not_an_object"] * 3),
        ('{"trace": {}, "observations": [', ["bad_json"]),
        ("[" * 10_000, ["too_deep"]),
        ("[{", ["bad_json"]),
        ("[[[[[]]]]]", ["wrong_shape"]),
        ('{"hash_ids": [1]}', ["no_type"]),
        ('{"type":"GENERATION","output":' + "[" * 900 + "]" * 900 + "}", ["too_deep"]),
    ],
)
def test_documents_that_cannot_be_read(lines_as: Reader, document: str, reasons: list[str]) -> None:
    reading = lines_as("langfuse", document)
    assert (reading.reasons, reading.records) == (reasons, len(reasons))


def test_one_bad_observation_is_one_reject(lines_as: Reader) -> None:
    reading = lines_as("langfuse", json.dumps([ANY, ANY | {"startTime": "soon"}, 5, ANY]))
    assert (len(reading.rows), reading.reasons, reading.records) == (2, ["bad_time", "not_an_object"], 4)


def test_the_route_is_looked_up_in_the_observation_then_in_the_trace(lines_as: Reader) -> None:
    document = {
        "trace": {"id": "t", "name": "app", "metadata": {"team": "a"}},
        "observations": [ANY | {"name": "call"}, ANY],
    }
    text = json.dumps(document)
    assert lines_as("langfuse", text, route_key="name").column("route") == ["call", "app"]
    assert lines_as("langfuse", text, route_key="metadata.team").column("route") == ["a", "a"]
    assert lines_as("langfuse", text, route_key="none").column("route") == [None, None]


def test_sniffing() -> None:
    document = json.dumps({"trace": {"id": "t", "projectId": "p"}, "observations": [ANY]}, indent=2).encode()
    for head in (
        document,
        document[:60],
        b"\xef\xbb\xbf" + document,
        json.dumps([ANY]).encode(),
        json.dumps(ANY).encode(),
    ):
        assert READER.sniff(head)
    escaped = json.dumps({"prompt": json.dumps(ANY)}).encode()
    for head in (
        b"",
        b"[]",
        b'{"prompt":"x"}',
        escaped,
        b'{"messages":[],"traceId":"t"}',
        b'{"trace":"x","prompt":"y"}',
    ):
        assert not READER.sniff(head)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("langgraph-2025-08-22.json", [(60, 15, 0), (108, 51, 0)]),
        ("openai-agents-2025-09-30.trace.json", [(85, 29, 0), (55, 15, 0)]),
        ("openai-assistants-2024-05-29.json", [(49, 40, None)]),
        ("pydantic-ai-2025-06-06.trace.json", [(31, 96, None)]),
    ],
)
def test_real_traces(paths: Reader, shared: Path, name: str, tokens: list[tuple[int | None, ...]]) -> None:
    path = shared / "data" / "langfuse_framework_traces" / name
    assert READER.sniff(path.read_bytes())
    reading = paths(path, input_format="langfuse")
    assert (reading.rejects, reading.records) == ([], len(tokens))
    counted = zip(*map(reading.column, ("prompt_tokens", "output_tokens", "cached_tokens")), strict=True)
    assert list(counted) == tokens
    assert all(reading.column("messages"))


def test_the_real_conversations(paths: Reader, shared: Path) -> None:
    folder = shared / "data" / "langfuse_framework_traces"

    def roles(name: str) -> list[list[str]]:
        texts = paths(folder / name, input_format="langfuse").column("messages")
        return [[message["role"] for message in json.loads(text)] for text in texts]

    assert roles("langgraph-2025-08-22.json") == [["user", "user"], ["user", "user", "assistant", "tool"]]
    assert roles("openai-agents-2025-09-30.trace.json") == [
        ["system", "user", "assistant", "tool"],
        ["system", "user"],
    ]
    assert roles("pydantic-ai-2025-06-06.trace.json") == [["system", "user"]]
    reading = paths(folder / "pydantic-ai-2025-06-06.trace.json", input_format="langfuse")
    assert (reading.column("session_id"), reading.column("route")) == (["session_abc"], ["user_123"])
