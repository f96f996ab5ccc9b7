from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.readers import READERS
from kvtools.readers.otlp import READER

if TYPE_CHECKING:
    from conftest import Reader, Reading

NANO = 1_784_102_400_000_000_000


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def value(plain: Any) -> dict[str, Any]:
    if isinstance(plain, dict):
        return {"kvlistValue": {"values": attributes(plain)}}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [value(item) for item in plain]}}
    return {"intValue": str(plain)} if isinstance(plain, int) else {"stringValue": plain}


def attributes(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(held)} for key, held in plain.items()]


def span(found: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"traceId": "t", "spanId": "s", "attributes": attributes(found), **fields}


def export(*spans: Any, **resource: Any) -> dict[str, Any]:
    return {
        "resourceSpans": [
            {"resource": {"attributes": attributes(resource)}, "scopeSpans": [{"spans": list(spans)}]}
        ]
    }


@pytest.fixture
def one(lines_as: Reader) -> Any:
    """Read one span with these attributes; return its row, or the reason of its reject."""

    def read_one(found: dict[str, Any], **fields: Any) -> Any:
        reading: Reading = lines_as("otlp", json.dumps(export(span(found, **fields))))
        assert reading.records == len(reading.rows) + len(reading.rejects) == 1
        return reading.rows[0] if reading.rows else reading.reasons[0]

    return read_one


def test_a_span(lines_as: Reader) -> None:
    chat = span(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.conversation.id": "c",
            "gen_ai.usage.input_tokens": 20,
            "gen_ai.usage.output_tokens": 0,
            "gen_ai.usage.cache_read.input_tokens": 16,
            "gen_ai.system_instructions": '[{"type":"text","content":"be kind"}]',
            "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"hi"}]}]',
            "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"hello"}],"finish_reason":"stop"}]',
            "gen_ai.tool.definitions": '[{"type":"function","name":"f","parameters":{}}]',
        },
        startTimeUnixNano=str(NANO),
        endTimeUnixNano=NANO + 2_000_000_999,
        status={"code": 2},
    )
    agent = span({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 20})
    reading = lines_as(
        "otlp", json.dumps(export(chat, agent, span({"http.method": "GET"}), **{"service.name": "shop"}))
    )
    (row,) = reading.rows
    row.pop("source")
    assert row == {
        "request_id": "s",
        "arrival_us": 1_784_102_400_000_000,
        "namespace": "model=m",
        "route": "shop",
        "session_id": "c",
        "messages": '[{"role":"system","content":"be kind"},{"role":"user","content":"hi"}]',
        "tools": '[{"type":"function","function":{"name":"f","parameters":{}}}]',
        "prompt_tokens": 20,
        "output_tokens": 0,
        "cached_tokens": 16,
        "latency_us": 2_000_000,
        "status": "error",
        "output_text": "hello",
    }
    assert reading.records == 1


def test_vllms_own_spans(one: Any) -> None:
    seconds = {"key": "gen_ai.latency.time_to_first_token", "value": {"doubleValue": 0.25}}
    found = {
        "gen_ai.response.model": "m",
        "gen_ai.request.id": "r",
        "gen_ai.usage.prompt_tokens": 9,
        "gen_ai.usage.completion_tokens": 2,
    }
    row = one({}, attributes=[*attributes(found), seconds])
    row.pop("source")
    assert row == {
        "request_id": "r",
        "namespace": "model=m",
        "prompt_tokens": 9,
        "output_tokens": 2,
        "ttft_us": 250_000,
    }


USER = [{"role": "user", "content": "hi"}]
MESSAGES = '[{"role":"user","content":"hi"}]'
EVENT = {"name": "gen_ai.content.prompt", "attributes": attributes({"gen_ai.prompt": MESSAGES})}


@pytest.mark.parametrize(
    ("found", "events"),
    [
        ({"gen_ai.input.messages": MESSAGES}, []),
        ({"gen_ai.input.messages": USER}, []),
        ({"gen_ai.prompt": MESSAGES}, []),
        ({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi"}, []),
        ({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": '[{"type": "text", "text": "hi"}]'}, []),
        ({}, [EVENT]),
        ({}, [EVENT | {"name": "gen_ai.client.inference.operation.details"}]),
        (
            {},
            [
                {
                    "name": "gen_ai.user.message",
                    "attributes": attributes({"content": "hi", "gen_ai.system": "x"}),
                }
            ],
        ),
        (
            {
                "events": json.dumps(
                    [
                        USER[0] | {"event.name": "gen_ai.user.message"},
                        {"event.name": "gen_ai.choice", "message": {}},
                    ]
                )
            },
            [],
        ),
    ],
)
def test_a_prompt_wherever_it_stands(one: Any, found: dict[str, Any], events: list[Any]) -> None:
    row = one({"gen_ai.request.model": "m"} | found, events=events)
    assert row["messages"] == MESSAGES


def test_an_attribute_per_field(one: Any) -> None:
    found = {
        "gen_ai.prompt.10.role": "tool",
        "gen_ai.prompt.10.content": "r",
        "gen_ai.prompt.10.tool_call_id": "c",
        "gen_ai.prompt.9.role": "assistant",
        "gen_ai.prompt.9.tool_calls.0.id": "c",
        "gen_ai.prompt.9.tool_calls.0.name": "f",
        "gen_ai.prompt.9.tool_calls.0.arguments": "{}",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "hello",
        "llm.request.type": "chat",
        "llm.request.functions.0.name": "f",
        "llm.request.functions.0.parameters": '{"type":"object"}',
    }
    row = one(found)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert json.loads(row["messages"]) == [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "r", "tool_call_id": "c"},
    ]
    assert row["tools"] == '[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]'
    assert row["output_text"] == "hello"


@pytest.mark.parametrize(
    ("found", "events"),
    [
        ({"gen_ai.completion": '[{"role":"assistant","content":"hello"}]'}, []),
        ({"gen_ai.output.messages": "hello"}, []),
        (
            {},
            [{"name": "gen_ai.content.completion", "attributes": attributes({"gen_ai.completion": "hello"})}],
        ),
        (
            {},
            [
                {
                    "name": "gen_ai.choice",
                    "attributes": attributes({"index": 0, "message": '{"content":"hello"}'}),
                }
            ],
        ),
        ({"events": '[{"event.name":"gen_ai.choice","message":{"role":"assistant","content":"hello"}}]'}, []),
    ],
)
def test_an_answer_wherever_it_stands(one: Any, found: dict[str, Any], events: list[Any]) -> None:
    assert one({"gen_ai.request.model": "m"} | found, events=events)["output_text"] == "hello"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 20, "cache_read_input_tokens": 16}, (20, 16)),
        ({"prompt_tokens": 20, "cached_tokens": 0}, (20, 0)),
        # More from the cache than the input: Anthropic's count, whose input is what no cache held or took.
        ({"input_tokens": 4, "cache_read_input_tokens": 16, "cache_creation_input_tokens": 5}, (25, 16)),
        ({"output_tokens": 3}, (None, None)),
    ],
)
def test_usage(one: Any, usage: dict[str, int], counts: tuple[int | None, ...]) -> None:
    row = one({f"gen_ai.usage.{name}": number for name, number in usage.items()})
    assert (row.get("prompt_tokens"), row.get("cached_tokens")) == counts


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"http.method": "GET"},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"},
        {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "m"},
        {"gen_ai.operation.name": {"a": 1}, "gen_ai.request.model": "m"},
        {"llm.request.type": "rerank", "gen_ai.request.model": "m"},
        {"gen_ai.agent.name": "a"},
    ],
)
def test_spans_that_are_no_requests(lines_as: Reader, found: dict[str, Any]) -> None:
    reading = lines_as("otlp", json.dumps(export(span(found))))
    assert (reading.rows, reading.rejects, reading.records) == ([], [], 0)


CHAT = {"gen_ai.request.model": "m"}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"attributes": 5}, "bad_attributes"),
        ({"attributes": [5]}, "bad_attributes"),
        ({"attributes": [{"value": {}}]}, "bad_attributes"),
        ({"attributes": attributes({"gen_ai.usage.input_tokens": -1})}, "bad_input_tokens"),
        ({"attributes": attributes({"gen_ai.usage.input_tokens": "many"})}, "bad_input_tokens"),
        ({"attributes": attributes({"gen_ai.input.messages": '[{"role":"us'})}, "bad_input"),
        ({"attributes": attributes({"gen_ai.prompt.0.content": "x"})}, "bad_messages"),
        ({"startTimeUnixNano": "soon"}, "bad_time"),
        ({"startTimeUnixNano": -1}, "bad_time"),
        ({"endTimeUnixNano": 10**19}, "bad_time"),
        ({"events": [{"name": "x", "attributes": 5}]}, "bad_attributes"),
    ],
)
def test_rejects(one: Any, fields: dict[str, Any], reason: str) -> None:
    assert one(CHAT, **fields) == reason


def test_times_that_are_not_set(one: Any) -> None:
    row = one(CHAT, startTimeUnixNano="0", endTimeUnixNano=NANO)
    assert {"arrival_us", "latency_us"}.isdisjoint(row)
    assert "latency_us" not in one(CHAT, startTimeUnixNano=NANO, endTimeUnixNano=NANO - 1)


def test_one_document_or_one_export_per_line(lines_as: Reader) -> None:
    document = export(span(CHAT), span(CHAT), 5)
    assert len(lines_as("otlp", json.dumps(document, indent=2)).rows) == 2
    reading = lines_as(
        "otlp", json.dumps(document), '{"resourceMetrics":[]}', "{}", "{broken", json.dumps(document)
    )
    assert (len(reading.rows), reading.reasons) == (
        4,
        ["not_an_object", "no_spans", "bad_json", "not_an_object"],
    )
    assert reading.records == 8


def test_nested_without_end(lines_as: Reader) -> None:
    deep: Any = {"stringValue": "x"}
    for _ in range(100):
        deep = {"arrayValue": {"values": [deep]}}
    document = export(span({}, attributes=[{"key": "gen_ai.input.messages", "value": deep}]))
    reading = lines_as("otlp", json.dumps(document), '{"resourceSpans":' + "[" * 9_999)
    assert reading.records == 2 == len(reading.rows) + len(reading.rejects)


def test_the_route_is_an_attribute_of_the_span_or_its_resource(lines_as: Reader) -> None:
    text = json.dumps(export(span(CHAT | {"tenant.id": "a"}), span(CHAT), **{"tenant.id": "b"}))
    assert lines_as("otlp", text, route_key="tenant.id").column("route") == ["a", "b"]


def test_sniffing() -> None:
    text = json.dumps(export(span(CHAT)))
    for head in (text, text[:100], json.dumps(export(span(CHAT)), indent=2), "\ufeff" + text):
        assert READER.sniff(head.encode())
    for head in ("", "[]", '{"prompt":"x"}', json.dumps({"prompt": text})):
        assert not READER.sniff(head.encode())
