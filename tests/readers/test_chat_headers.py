"""Chat lines name what their sender says of its urgency, one at a time and by column alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Reader

MESSAGES = [{"role": "user", "content": "hi"}]
SAID: list[tuple[dict[str, Any], str | None, int | None]] = [
    ({"request_type": "hot"}, "hot", None),
    ({"headers": {"X-Request-Type": "cold", "X-Vllm-Priority": "3"}}, "cold", 3),
    ({"request_headers": [["x-request-type", "hot"]]}, "hot", None),
    ({"metadata": {"request_type": "cold"}}, "cold", None),
    ({"metadata": "text", "headers": 7}, None, None),
    ({}, None, None),
]


@pytest.mark.parametrize("special", [{}, {"n": 2}], ids=["by column", "one at a time"])
def test_chat_lines(lines_as: Reader, special: dict[str, Any]) -> None:
    lines = [json.dumps({"messages": MESSAGES} | special | fields) for fields, _, _ in SAID]
    reading = lines_as("chat-jsonl", *lines)
    assert reading.column("request_type") == [kind for _, kind, _ in SAID]
    assert reading.column("priority") == [priority for _, _, priority in SAID]
    assert reading.rejects == []


def test_the_header_counts_before_the_body(lines_as: Reader) -> None:
    line = json.dumps({"messages": MESSAGES, "priority": 9, "headers": {"x-vllm-priority": "0"}})
    assert lines_as("chat-jsonl", line, line).column("priority") == [0, 0]


def test_a_batch_keeps_it_in_the_body(lines_as: Reader) -> None:
    body = {"messages": MESSAGES, "metadata": {"request_type": "cold"}}
    line = json.dumps({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body})
    assert lines_as("openai-batch", line).column("request_type") == ["cold"]
