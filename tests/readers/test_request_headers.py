"""What a sender says of its urgency, in every place where logs keep it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kvtools.readers.request_headers import stated

if TYPE_CHECKING:
    from conftest import Reader

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("holder", "said"),
    [
        ({"X-Request-Type": "hot"}, {"request_type": "hot"}),
        ({"x-request-type": " cold ", "x-vllm-priority": "3"}, {"request_type": "cold", "priority": 3}),
        ({"x_request_type": ["hot", "cold"]}, {"request_type": "hot"}),
        ({"request_type": "batch", "X-REQUEST-TYPE": "cold"}, {"request_type": "cold"}),
        ([["X-Request-Type", "hot"], ["X-Vllm-Priority", "-1"]], {"request_type": "hot", "priority": -1}),
        ([{"name": "X-Request-Type", "value": "hot"}], {"request_type": "hot"}),
        ([{"key": "x-vllm-priority", "value": 4}], {"priority": 4}),
        (["User-Agent: curl", "x-request-type: cold"], {"request_type": "cold"}),
        ({"x-vllm-priority": "soon"}, {}),
        ({"x-vllm-priority": "9" * 19}, {}),
        ({"x-vllm-priority": True, "priority": 7}, {}),
        ({"request_type": None, "X-Request-Type": ""}, {}),
        ({"request_type": {"a": 1}}, {}),
        ([["X-Request-Type"], 3, None, ["a", "b", "c"]], {}),
        ("X-Request-Type: hot", {}),
        (None, {}),
        (7, {}),
    ],
)
def test_the_forms_in_which_logs_keep_headers(holder: Any, said: dict[str, Any]) -> None:
    assert stated(holder) == said


def test_the_first_holder_that_says_it_counts() -> None:
    first, second = {"x-vllm-priority": "2"}, {"request_type": "hot", "x-vllm-priority": "5"}
    assert stated(None, first, second) == {"priority": 2, "request_type": "hot"}


def test_pairs_say_it_around_the_body_or_in_its_metadata(lines_as: Reader) -> None:
    body = {"messages": MESSAGES, "priority": 9}
    reading = lines_as(
        "exchange",
        json.dumps(
            {
                "request": {
                    "url": "/v1/chat/completions",
                    "headers": {"X-Request-Type": "hot", "X-Vllm-Priority": "0"},
                    "body": body,
                }
            }
        ),
        json.dumps({"request": body, "request_headers": '{"x-request-type": "cold"}'}),
        json.dumps({"request": body | {"metadata": {"request_type": "cold"}}}),
        json.dumps({"request": body, "properties": {"X-Request-Type": "hot"}}),
        json.dumps({"request": body, "headers": "{broken"}),
    )
    assert reading.column("request_type") == ["hot", "cold", "cold", "hot", None]
    # The header is vLLM's own and counts before the body.
    assert reading.column("priority") == [0, 9, 9, 9, 9]
    assert reading.rejects == []


def test_litellm_keeps_headers_tags_and_metadata(lines_as: Reader) -> None:
    row = {
        "request_id": "r",
        "startTime": "2026-07-15T08:00:00Z",
        "call_type": "acompletion",
        "messages": MESSAGES,
    }
    request = {
        "headers": {"x-request-type": "hot", "x-vllm-priority": "1"},
        "body": {"model": "m", "priority": 4},
    }
    reading = lines_as(
        "litellm",
        json.dumps(row | {"proxy_server_request": request}),
        json.dumps(row | {"proxy_server_request": {"model": "m", "metadata": {"request_type": "cold"}}}),
        json.dumps(row | {"request_tags": '["User-Agent: x", "X-Request-Type: cold"]'}),
        json.dumps(row | {"metadata": {"requester_custom_headers": {"x-request-type": "hot"}}}),
        json.dumps(row | {"metadata": {"spend_logs_metadata": {"request_type": "cold"}}}),
        json.dumps(row | {"request_tags": "[broken"}),
    )
    assert reading.column("request_type") == ["hot", "cold", "cold", "hot", "cold", None]
    assert reading.column("priority") == [1, None, None, None, None, None]
    assert reading.rejects == []


def test_spans_keep_headers_as_lists(lines_as: Reader) -> None:
    def span(key: str, value: dict[str, Any]) -> dict[str, Any]:
        named = [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": key, "value": value},
        ]
        return {"spanId": "s", "attributes": named}

    listed = {"arrayValue": {"values": [{"stringValue": "cold"}]}}
    spans = [
        span("http.request.header.x-request-type", listed),
        span("http.request.header.x_request_type", {"stringValue": "hot"}),
        span("http.request.header.x-vllm-priority", {"arrayValue": {"values": [{"stringValue": "2"}]}}),
        span("traceloop.association.properties.request_type", {"stringValue": "hot"}),
        span("llm.request_type", {"stringValue": "chat"}),
    ]
    reading = lines_as("otlp", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    assert reading.column("request_type") == ["cold", "hot", None, "hot", None]
    assert reading.column("priority") == [None, None, 2, None, None]


def test_langfuse_keeps_it_in_metadata_and_tags(lines_as: Reader) -> None:
    one = {"id": "o", "type": "GENERATION", "traceId": "t", "input": MESSAGES}
    trace = {"id": "t", "metadata": {"request_type": "cold"}, "tags": ["X-Vllm-Priority: 3"]}
    observations = [
        one,
        one | {"metadata": {"x-request-type": "hot"}},
        one | {"metadata": '{"request_type": "hot"}'},
    ]
    reading = lines_as("langfuse", json.dumps({"trace": trace, "observations": observations}))
    assert reading.column("request_type") == ["cold", "hot", "hot"]
    assert reading.column("priority") == [3, 3, 3]


def test_token_logs(lines_as: Reader) -> None:
    reading = lines_as(
        "token-log",
        '{"prompt_token_ids":[1,2],"request_type":"hot","priority":1}',
        '{"prompt_token_ids":[1,2],"headers":{"X-Request-Type":"cold","X-Vllm-Priority":"5"},"priority":1}',
        '{"prompt_token_ids":[1,2],"metadata":{"request_type":"cold"}}',
    )
    assert reading.column("request_type") == ["hot", "cold", "cold"]
    assert reading.column("priority") == [1, 5, None]


@pytest.mark.parametrize(
    ("column", "cell", "mapping"),
    [
        ("request_type", "cold", None),
        ("X-Request-Type", "cold", None),
        ("headers", '{"X-Request-Type": "cold"}', None),
        ("request_headers", '{"x-request-type": "cold"}', None),
        ("request_json", '{"metadata": {"request_type": "cold"}}', None),
        ("kind", "cold", {"request_type": "kind"}),
    ],
)
def test_tables_name_it_in_a_column(
    tmp_path: Path, paths: Reader, column: str, cell: str, mapping: dict[str, str] | None
) -> None:
    pq.write_table(pa.table({"prompt": ["hi"], column: [cell]}), tmp_path / "log.parquet")
    quoted = cell.replace('"', '""')
    (tmp_path / "log.csv").write_text(f'prompt,{column}\nhi,"{quoted}"\n')
    for name in ("log.parquet", "log.csv"):
        reading = paths(tmp_path / name, mapping=mapping)
        assert (reading.column("request_type"), reading.rejects) == (["cold"], [])


def test_a_column_of_headers_that_is_no_json_says_nothing(tmp_path: Path, paths: Reader) -> None:
    log = tmp_path / "log.csv"
    log.write_text('prompt,priority,headers,x_vllm_priority\nhi,3,Accept: */*,\nhi,3,,"1"\n')
    reading = paths(log)
    assert (reading.column("request_type"), reading.column("priority")) == ([None, None], [3, 1])
    assert reading.rejects == []
