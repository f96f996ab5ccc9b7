from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.readers import READERS, litellm

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Reader

MESSAGES = [{"role": "user", "content": "hi"}]
STORED = '[{"role":"user","content":"hi"}]'


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "litellm", litellm.READER)


def row_of(**fields: Any) -> str:
    return json.dumps({"request_id": "r", "startTime": "2026-07-15T08:00:00Z"} | fields)


def test_a_row_of_the_spend_logs(lines_as: Reader) -> None:
    log = row_of(
        call_type="acompletion", endTime="2026-07-15T08:00:02.5Z", completionStartTime="2026-07-15T08:00:00.25Z",
        model="m", messages=json.dumps(MESSAGES), prompt_tokens=9, completion_tokens=0, cache_hit="False",
        metadata=json.dumps({
            "user_api_key_team_alias": "shop",
            "usage_object": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}},
        }),
        response={"choices": [{"message": {"content": "hello"}}]}, team_id="t", session_id="s", status="success",
        end_user="u",
    )  # fmt: skip
    (row,) = lines_as("litellm", log).rows
    assert row.pop("source").endswith("log.jsonl:1")
    assert row == {
        "request_id": "r",
        "arrival_us": 1_784_102_400_000_000,
        "namespace": "model=m",
        "route": "shop",
        "session_id": "s",
        "messages": STORED,
        "prompt_tokens": 9,
        "output_tokens": 0,
        "cached_tokens": 4,
        "ttft_us": 250_000,
        "latency_us": 2_500_000,
        "status": "success",
        "output_text": "hello",
    }


@pytest.mark.parametrize("stored", [{}, [], "", "{}", "[]", "null", None, "redacted-by-litellm",
                                    [{"role": "user", "content": "redacted-by-litellm"}]])  # fmt: skip
def test_a_prompt_that_is_not_stored(lines_as: Reader, stored: Any) -> None:
    reading = lines_as("litellm", row_of(messages=stored, prompt_tokens=400, response={"x": 1}))
    assert reading.reasons == []
    assert reading.column("prompt_tokens") == [400]
    assert reading.column("messages") == [None]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_prompt_under_proxy_server_request(lines_as: Reader, as_text: bool, wrapped: bool) -> None:
    body: Any = {
        "model": "alias",
        "messages": MESSAGES,
        "tools": [{"type": "function"}],
        "prompt": "",
        "n": 2,
    }
    body = {"url": "http://x/v1", "body": body} if wrapped else body
    log = row_of(messages={}, model="m", proxy_server_request=json.dumps(body) if as_text else body)
    (row,) = lines_as("litellm", log).rows
    assert (row["messages"], row["tools"]) == (STORED, '[{"type":"function"}]')
    assert (row["namespace"], row["samples"]) == ("model=m", 2)


def test_messages_win_and_the_body_adds_its_tools(lines_as: Reader) -> None:
    body = {"messages": [{"role": "user", "content": "as received"}], "tools": [{"type": "function"}]}
    (row,) = lines_as("litellm", row_of(messages=MESSAGES, proxy_server_request=body)).rows
    assert (row["messages"], row["tools"]) == (STORED, '[{"type":"function"}]')


def test_tools_among_the_model_parameters(lines_as: Reader) -> None:
    log = row_of(messages=MESSAGES, model_parameters={"tools": [{"type": "function"}]})
    assert lines_as("litellm", log).column("tools") == ['[{"type":"function"}]']


@pytest.mark.parametrize("body", [{"messages": [{"role": "user", "content": "redacted-by-litellm"}], "prompt": ""},
                                  {"litellm_truncated": True}, {}, "", "{}", None])  # fmt: skip
def test_a_body_without_the_prompt(lines_as: Reader, body: Any) -> None:
    reading = lines_as("litellm", row_of(messages={}, proxy_server_request=body))
    assert (reading.column("messages"), reading.reasons) == ([None], [])


@pytest.mark.parametrize("note", ["(litellm_truncated 12982 chars)", "(litellm_truncated skipped 9 chars)"])
def test_a_prompt_that_was_cut_is_no_prompt(lines_as: Reader, note: str) -> None:
    cut = [{"role": "user", "content": f"a... {note} ...b"}]
    lines = (row_of(messages=cut), row_of(call_type="text_completion", messages=f"a {note} b"))
    assert lines_as("litellm", *lines).reasons == ["cut_prompt", "cut_prompt"]
    asked = [{"role": "user", "content": "what is litellm_truncated"}]
    assert lines_as("litellm", row_of(messages=asked)).reasons == []


@pytest.mark.parametrize(
    ("call", "stored", "column", "value"),
    [
        ("atext_completion", "[INST] hi [/INST]", "prompt", "[INST] hi [/INST]"),
        ("atext_completion", '"hi"', "prompt", "hi"),
        ("text_completion", ["hi"], "prompt", "hi"),
        ("aembedding", "hi", "prompt", "hi"),
        ("aembedding", [[1, 2]], "token_ids", [1, 2]),
        ("aresponses", "hi", "messages", STORED),
        ("aresponses", json.dumps(MESSAGES), "messages", STORED),
        ("acompletion", MESSAGES, "messages", STORED),
        (None, MESSAGES, "messages", STORED),
    ],
)
def test_what_messages_hold_by_call(
    lines_as: Reader, call: str | None, stored: Any, column: str, value: Any
) -> None:
    assert lines_as("litellm", row_of(call_type=call, messages=stored)).column(column) == [value]


@pytest.mark.parametrize(
    ("fields", "cached"),
    [
        ({"metadata": {"usage_object": {"prompt_tokens_details": {"cached_tokens": 4}}}}, 4),
        ({"metadata": {"additional_usage_values": {"prompt_tokens_details": {"cached_tokens": 4}}}}, 4),
        ({"response": {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}}}, 0),
        ({"metadata": "{}"}, None),
        ({"metadata": [1]}, None),
        ({"metadata": {"usage_object": [1]}}, None),
    ],
)
def test_cached_tokens(lines_as: Reader, fields: dict[str, Any], cached: int | None) -> None:
    assert lines_as("litellm", row_of(messages=MESSAGES, **fields)).column("cached_tokens") == [cached]


def test_a_default_of_zero_prompt_tokens_says_nothing(lines_as: Reader) -> None:
    (row,) = lines_as(
        "litellm", row_of(messages={}, prompt_tokens=0, completion_tokens=0, status="failure")
    ).rows
    assert "prompt_tokens" not in row
    assert (row["output_tokens"], row["status"]) == (0, "failure")


@pytest.mark.parametrize(
    ("end", "first_token", "latency", "ttft"),
    [
        ("2026-07-15T08:00:01Z", "2026-07-15T08:00:00.5Z", 1_000_000, 500_000),
        ("2026-07-15T08:00:01Z", "2026-07-15T08:00:01Z", 1_000_000, None),  # it did not stream
        ("2026-07-15T08:00:01Z", None, 1_000_000, None),
        (None, "2026-07-15T08:00:00.5Z", None, 500_000),
        ("2026-07-15T07:59:59Z", "2026-07-15T07:59:58Z", None, None),
        ("2026-07-15 08:00:01+00:00", 1_784_102_400.75, 1_000_000, 750_000),
    ],
)
def test_durations(
    lines_as: Reader, end: Any, first_token: Any, latency: int | None, ttft: int | None
) -> None:
    log = row_of(messages=MESSAGES, endTime=end, completionStartTime=first_token)
    reading = lines_as("litellm", log)
    assert (reading.column("latency_us"), reading.column("ttft_us")) == ([latency], [ttft])


@pytest.mark.parametrize(("hit", "status"), [("True", "cache_hit"), (True, "cache_hit"), ("False", "success"),
                                             ("None", "success"), ("", "success"), (None, "success")])  # fmt: skip
def test_an_answer_from_the_gateway_s_own_cache(lines_as: Reader, hit: Any, status: str) -> None:
    log = row_of(messages=MESSAGES, cache_hit=hit, status="success")
    assert lines_as("litellm", log).column("status") == [status]


def test_the_team_is_the_route(lines_as: Reader) -> None:
    lines = (row_of(team_id="t"), row_of(team_id="t", metadata={"user_api_key_team_alias": "shop"}))
    assert lines_as("litellm", *lines).column("route") == ["t", "shop"]
    assert lines_as("litellm", row_of(end_user="u"), route_key="end_user").column("route") == ["u"]


def test_a_logging_payload(lines_as: Reader) -> None:
    payload = {"id": "r", "call_type": "completion", "startTime": 1.5, "endTime": 2.5, "messages": MESSAGES}
    (row,) = lines_as("litellm", json.dumps(payload)).rows
    assert (row["request_id"], row["arrival_us"], row["latency_us"]) == ("r", 1_500_000, 1_000_000)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messages": "hi"}, "bad_messages"),
        ({"messages": "[broken"}, "bad_messages"),
        ({"messages": {"x": 1}}, "bad_messages"),
        ({"messages": [5]}, "bad_messages"),
        ({"messages": [{"content": "x"}]}, "bad_messages"),
        ({"messages": 5}, "bad_messages"),
        ({"messages": "[" * 5000}, "bad_messages"),
        ({"metadata": "{broken"}, "bad_metadata"),
        ({"proxy_server_request": "{broken"}, "bad_proxy_server_request"),
        ({"prompt_tokens": -1}, "bad_prompt_tokens"),
        ({"completion_tokens": 1.5}, "bad_completion_tokens"),
        ({"startTime": "soon"}, "bad_time"),
        ({"endTime": []}, "bad_time"),
    ],
)
def test_rows_that_cannot_be_used(lines_as: Reader, fields: dict[str, Any], reason: str) -> None:
    reading = lines_as("litellm", row_of(**fields))
    assert (reading.rows, reading.reasons, reading.records) == ([], [reason], 1)
    assert len(reading.rejects[0][2]) < 150


def test_a_line_that_says_nothing(lines_as: Reader) -> None:
    assert lines_as("litellm", "{}", '{"x":1}').reasons == ["empty_object"] * 2


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (row_of(call_type="acompletion"), True),
        (row_of(messages={}), True),
        (row_of(prompt_tokens=5), True),
        (row_of(spend=0.1), True),
        (row_of(), False),
        (row_of(request={"messages": MESSAGES}), False),
        (json.dumps({"id": "a", "messages": MESSAGES}), False),
        (json.dumps({"startTime": 1, "input": {}, "output": {}}), False),
    ],
)
def test_sniffing(log: str, expected: bool) -> None:
    assert litellm.READER.sniff(log.encode() + b"\n") is expected


def test_public_case_072(shared: Path, paths: Reader) -> None:
    folder = shared / "cases" / "072-gateway-log-without-prompts"
    expected = json.loads((folder / "expected.json").read_text())
    assert litellm.READER.sniff((folder / "input.jsonl").read_bytes())
    reading = paths(folder / "input.jsonl", input_format="litellm")
    assert (reading.records, reading.rejects) == (3, [])
    assert reading.column("messages").count(None) == expected["no_prompt"] == 2
    assert len(reading.rows) - 2 == expected["usable"] == 1
    assert sum(reading.column("prompt_tokens")) == expected["prompt_tokens"] == 910
