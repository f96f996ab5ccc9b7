"""Whose service answered, and whether the answer was streamed: columns that several formats fill alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.readers.bodies import Body, provider_at, request_columns
from kvtools.readers.columns import columns_of

if TYPE_CHECKING:
    from conftest import Reader

MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1/chat/completions", "openai"),
        ("https://shop.openai.azure.com/openai/deployments/x", "azure"),
        ("http://localhost:8000/v1", None),
        ("https://api.openai.com.example.org/v1", None),
        ("/v1/chat/completions", None),
        ("api.openai.com", None),
        ("https://[::1", None),
        ("", None),
        (None, None),
    ],
)
def test_a_host_names_its_service(url: str | None, provider: str | None) -> None:
    assert provider_at(url) == provider


@pytest.mark.parametrize(
    ("stream", "streamed"),
    [(True, 1), (False, 0), ("True", 1), ("false", 0), (None, None), (1, None), ("yes", None), ([], None)],
)
def test_streamed(stream: Any, streamed: int | None) -> None:
    assert request_columns(Body(stream=stream))["streamed"] == streamed


def test_a_pair_by_its_address_or_its_own_word(lines_as: Reader) -> None:
    body = {"messages": MESSAGES, "stream": True}
    reading = lines_as(
        "exchange",
        json.dumps({"request": {"url": "https://api.openai.com/v1/chat/completions", "body": body}}),
        json.dumps({"request": body, "provider": "AZURE"}),
        json.dumps({"request": {"url": "http://vllm:8000/v1/chat/completions", "body": body}}),
    )
    assert reading.column("provider") == ["openai", "AZURE", None]
    assert reading.column("streamed") == [1, 1, 1]


@pytest.mark.parametrize(
    ("named", "base", "provider"),
    [
        ("openai", None, "openai"),
        ("openai", "https://api.openai.com/v1", "openai"),
        ("openai", "http://vllm:8000/v1", None),
        ("hosted_vllm", "http://vllm:8000/v1", "hosted_vllm"),
        (None, None, None),
    ],
)
def test_a_gateways_row(lines_as: Reader, named: str | None, base: str | None, provider: str | None) -> None:
    row = {"startTime": "2026-07-27T10:00:00Z", "call_type": "acompletion", "messages": MESSAGES}
    line = json.dumps(row | {"custom_llm_provider": named, "api_base": base})
    reading = lines_as("litellm", line)
    assert reading.column("provider") == [provider]


def test_columns_of_a_table() -> None:
    (row,) = columns_of(("prompt", "provider")).rows(("hi", "openai"))
    assert (row["prompt"], row["provider"]) == ("hi", "openai")
