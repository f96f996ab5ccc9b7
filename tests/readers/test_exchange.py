from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.readers import READERS, exchange

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Reader

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = '[{"role":"user","content":"hi"}]'
ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "choices": [{"message": {"role": "assistant", "content": "hello"}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "exchange", exchange.READER)


def line(**fields: Any) -> str:
    return json.dumps(fields)


def sniffs(*lines: str) -> bool:
    return exchange.READER.sniff("".join(text + "\n" for text in lines).encode())


NAMES = ("request", "request_body", "requestBody", "body", "input", "request_json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("as_text", [False, True])
def test_names_of_the_request(lines_as: Reader, name: str, as_text: bool) -> None:
    log = line(**{"id": "a", name: json.dumps(BODY) if as_text else BODY})
    (row,) = lines_as("exchange", log).rows
    assert row.pop("source").endswith("log.jsonl:1")
    assert row == {"request_id": "a", "namespace": "model=m", "messages": MESSAGES}
    assert sniffs(log)


@pytest.mark.parametrize("name", ["response", "response_body", "responseBody", "output", "response_json"])
@pytest.mark.parametrize("as_text", [False, True])
def test_names_of_the_response(lines_as: Reader, name: str, as_text: bool) -> None:
    log = line(**{"request": BODY, name: json.dumps(ANSWER) if as_text else ANSWER})
    (row,) = lines_as("exchange", log).rows
    assert (row["request_id"], row["output_text"]) == ("chatcmpl-1", "hello")
    assert (row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]) == (9, 2, 4)


def test_usage_and_id_beside_the_response_win(lines_as: Reader) -> None:
    log = line(request_id="r", request=BODY, response=ANSWER, usage={"prompt_tokens": 7})
    (row,) = lines_as("exchange", log).rows
    assert (row["request_id"], row["prompt_tokens"]) == ("r", 7)
    assert not {"output_tokens", "cached_tokens"} & set(row)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ("a plain answer", "a plain answer"),
        ("[1] and {2}", "[1] and {2}"),
        ("{not JSON", "{not JSON"),
        ("[1, 2]", "[1, 2]"),
        ('"quoted"', '"quoted"'),
        ('data: {"choices": []}\n\n', None),
        ("event: response.created\n", None),
        ({"error": {"message": "no"}}, None),
        (5, None),
        ([], None),
        (None, None),
    ],
)
def test_what_a_response_says(lines_as: Reader, response: Any, text: str | None) -> None:
    reading = lines_as("exchange", line(request=BODY, response=response))
    assert (reading.column("output_text"), reading.reasons) == ([text], [])


def test_a_body_inside_a_recorded_http_call(lines_as: Reader) -> None:
    log = line(
        request={"method": "POST", "url": "https://h/v1/chat/completions", "body": json.dumps(BODY)},
        response={"status": 429, "body": ANSWER},
    )
    (row,) = lines_as("exchange", log).rows
    assert (row["messages"], row["route"]) == (MESSAGES, "https://h/v1/chat/completions")
    assert (row["status"], row["output_text"], row["prompt_tokens"]) == ("429", "hello", 9)
    assert sniffs(log)


def test_a_row_of_helicone_s_export(lines_as: Reader) -> None:
    log = line(
        request_id="r", request_created_at="2026-07-15T08:00:00.5+00:00", request_path="/v1/chat/completions",
        request_body={"messages": BODY["messages"]}, request_model="m", request_user_id="u",
        request_properties={"Helicone-Session-Id": "s", "app": "x"}, response_body=ANSWER | {"usage": None},
        response_status=200, delay_ms=1500, time_to_first_token=250, prompt_tokens=9, completion_tokens=2,
        prompt_cache_read_tokens=4,
    )  # fmt: skip
    (row,) = lines_as("exchange", log).rows
    assert row.pop("source").endswith(":1")
    assert row == {
        "request_id": "r",
        "arrival_us": 1_784_102_400_500_000,  # 2026-07-15T08:00:00Z is 1784102400
        "utc_offset_min": 0,
        "namespace": "model=m",
        "route": "/v1/chat/completions",
        "session_id": "s",
        "messages": MESSAGES,
        "prompt_tokens": 9,
        "output_tokens": 2,
        "cached_tokens": 4,
        "ttft_us": 250_000,
        "latency_us": 1_500_000,
        "status": "200",
        "output_text": "hello",
    }


@pytest.mark.parametrize(
    ("fields", "latency"),
    [
        ({"latency": 12, "properties": {}}, 12_000),
        ({"latency": 12, "request_user_id": "u"}, 12_000),
        ({"latency": 12}, None),  # nobody knows of what
        ({"latency_ms": 12}, 12_000),
        ({"latency_ms": -1}, None),
        ({"latency_ms": "12"}, None),
    ],
)
def test_latency(lines_as: Reader, fields: dict[str, Any], latency: int | None) -> None:
    assert lines_as("exchange", line(request=BODY, **fields)).column("latency_us") == [latency]


@pytest.mark.parametrize(
    "name", ["ts", "timestamp", "created_at", "request_created_at", "startTime", "createdAt", "response_date"]
)
def test_names_of_the_time(lines_as: Reader, name: str) -> None:
    assert lines_as("exchange", line(request=BODY, **{name: 1.5})).column("arrival_us") == [1_500_000]


def test_the_response_s_date_stands_in_only_where_there_is_no_other(lines_as: Reader) -> None:
    log = line(request=BODY, response_date="Thu, 14 Aug 2025 01:10:35 GMT", startTime=2)
    assert lines_as("exchange", log).column("arrival_us") == [2_000_000]


def test_several_prompts(lines_as: Reader) -> None:
    reading = lines_as("exchange", line(id="a", request={"prompt": ["x", "y"]}))
    assert reading.column("prompt") == ["x", "y"]
    assert (reading.column("request_id"), reading.records) == (["a", "a#1"], 2)


def test_a_body_without_prompt_is_a_request_without_prompt(lines_as: Reader) -> None:
    reading = lines_as("exchange", line(id="a", request={"model": "m"}), line(id="b", body={}))
    assert reading.column("messages") == [None, None]
    assert (reading.column("request_id"), reading.reasons) == (["a", "b"], [])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": "a"}, "no_body"),
        ({"request": None, "body": ""}, "no_body"),
        ({"messages": BODY["messages"]}, "no_body"),
        ({"request": "POST /v1"}, "bad_request"),
        ({"request": "{broken"}, "bad_request"),
        ({"request": "[" * 5000}, "bad_request"),
        ({"request": [BODY]}, "bad_request"),
        ({"request": {"body": "POST"}}, "bad_request"),
        ({"request": {"messages": "hi"}}, "bad_messages"),
        ({"request": {"messages": [{"content": "hi"}]}}, "bad_messages"),
        ({"request": {"prompt": {"id": "p"}}}, "bad_prompt"),
        ({"request": {"system": "x", "messages": []}}, "other_format"),
        ({"request": BODY, "usage": {"prompt_tokens": -1}}, "bad_prompt_tokens"),
        ({"request": BODY, "prompt_tokens": "9"}, "bad_prompt_tokens"),
        ({"request": BODY, "ts": "soon"}, "bad_time"),
    ],
)
def test_lines_that_cannot_be_used(lines_as: Reader, fields: dict[str, Any], reason: str) -> None:
    reading = lines_as("exchange", line(**fields))
    assert (reading.rows, reading.reasons, reading.records) == ([], [reason], 1)
    assert len(reading.rejects[0][2]) < 150


def test_the_next_name_holds_the_body_where_the_first_holds_none(lines_as: Reader) -> None:
    assert lines_as("exchange", line(request="POST", body=BODY)).column("messages") == [MESSAGES]


@pytest.mark.parametrize(
    "log",
    [
        line(messages=BODY["messages"]),
        line(messages=BODY["messages"], request=BODY),
        line(prompt_token_ids=[1], request=BODY),
        line(input="text", output="text"),
        line(input=[{"role": "user", "content": "x"}]),
        line(request={"method": "GET"}),
        line(request_id="r", startTime="2026", messages={}, response={"x": 1}),
        line(request="{broken"),
        "[]",
        "{}",
    ],
)
def test_what_is_no_exchange(log: str) -> None:
    assert not sniffs(log)


def test_a_first_line_longer_than_the_head() -> None:
    head = line(request={"messages": [{"role": "user", "content": "x" * 300_000}]}).encode()[: 256 * 1024]
    assert exchange.READER.sniff(head)


def test_recorded_calls_of_openai(shared: Path, paths: Reader) -> None:
    log = shared / "data" / "openai_cassettes" / "requests.jsonl"
    records = [json.loads(text) for text in log.read_bytes().strip().split(b"\n")]
    assert exchange.READER.sniff(log.read_bytes())
    reading = paths(log, input_format="exchange")
    assert (len(reading.rows), reading.rejects, reading.records) == (27, [], 27)
    usages = [record["usage"] or {} for record in records]
    assert reading.column("prompt_tokens") == [u.get("prompt_tokens", u.get("input_tokens")) for u in usages]
    assert reading.column("output_tokens") == [
        u.get("completion_tokens", u.get("output_tokens")) for u in usages
    ]
    # 16 calls report what was cached (nothing), the completions call and ten streams do not.
    assert reading.column("cached_tokens").count(0) == 16
    assert sum(count is not None for count in reading.column("prompt_tokens")) == 17
    # 13 chat calls, 2 completions, 12 responses of which each has instructions.
    assert sum(row.get("prompt") is not None for row in reading.rows) == 2
    first_roles = [json.loads(row["messages"])[0]["role"] for row in reading.rows if "messages" in row]
    assert len(first_roles) == 25
    assert first_roles[13:] == ["system"] * 12
    assert reading.rows[0]["arrival_us"] == 1_755_133_835_000_000  # Thu, 14 Aug 2025 01:10:35 GMT
    # What the last responses call sends: instructions, question, then three calls with their results.
    roles = [message["role"] for message in json.loads(reading.rows[26]["messages"])]
    assert roles == ["system", "user", *["assistant", "tool"] * 4]
