"""LiteLLM's spend logs: a row per call of the gateway (``LiteLLM_SpendLogs``, ``/spend/logs``, logging payloads).

Rows name ``request_id``, ``call_type``, ``startTime``, ``endTime``, ``completionStartTime`` (ISO 8601 or seconds) and
the token counts. Prompts are stored only with ``store_prompts_in_spend_logs``, in ``messages`` or in the body under
``proxy_server_request``; ``{}`` stands for one that is not. Source: github.com/BerriAI/litellm,
litellm/proxy/spend_tracking/spend_tracking_utils.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.bodies import (
    Body,
    answer_text,
    body_of,
    prompts_in,
    provider_at,
    request_columns,
    rows_of,
    usage_counts,
)
from kvtools.readers.records import Rejected, count, embedded, first, int64, text
from kvtools.readers.request_headers import stated
from kvtools.readers.times import arrival_us, utc_offset_min

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIELDS = (
    "request_id", "id", "call_type", "startTime", "endTime", "completionStartTime", "model", "messages", "response",
    "prompt_tokens", "completion_tokens", "metadata", "cache_hit", "team_id", "session_id", "status",
    "proxy_server_request", "model_parameters", "custom_llm_provider", "api_base", "request_tags",
)  # fmt: skip
LiteLLMRecord = msgspec.defstruct("LiteLLMRecord", [(n, Any, msgspec.field(default=None)) for n in _FIELDS])
"""The fields of a row that are read; every other field is skipped without being decoded."""

_REDACTED = "redacted-by-litellm"
_CUT = re.compile(rb"\(litellm_truncated (?:skipped )?\d+ chars")
"""What stands in the middle of a text that was longer than MAX_STRING_LENGTH_PROMPT_IN_DB (2,048 characters)."""
_PLAIN_CALLS = {"text_completion": "prompt", "embedding": "input", "responses": "input"}
"""Calls whose prompt LiteLLM keeps under ``messages`` although it is none: where it stands in their body."""


def litellm_rows(record: Any) -> Iterator[Row]:
    """Yield one row per prompt; a row without a stored prompt is a request without prompt.

    Raises:
        Rejected: the row says nothing, its prompt was cut, or a field has the wrong shape.
        BadTime: one of its times is none.
    """
    if all(getattr(record, name) is None for name in _FIELDS):
        raise Rejected("empty_object", "none of its fields is known")
    body = _body(record)
    call = text(record.call_type) or ""
    prompts = prompts_in(body, "/embeddings" if "embedding" in call else None)
    _refuse_cut(prompts)
    yield from rows_of(_common(record) | request_columns(body) | _stated(record), prompts)


def _stated(record: Any) -> Row:
    """Return what the headers of the call say of its urgency, then its tags and its metadata."""
    metadata = embedded(record.metadata, "metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    sent = [metadata.get(name) for name in ("headers", "requester_custom_headers")]
    own = [metadata.get(name) for name in ("requester_metadata", "spend_logs_metadata")]
    request = embedded(record.proxy_server_request, "proxy_server_request")
    if isinstance(request, dict):
        body = embedded(request["body"], "proxy_server_request") if "body" in request else request
        sent.insert(0, request.get("headers"))
        own.insert(0, body.get("metadata") if isinstance(body, dict) else None)
    try:
        tags = embedded(record.request_tags, "request_tags")
    except Rejected:
        tags = None
    return stated(*sent, tags, *own)


def _body(record: Any) -> Body:
    """Return the request body, put together from ``proxy_server_request``, ``messages`` and the parameters."""
    request = embedded(record.proxy_server_request, "proxy_server_request")
    if isinstance(request, dict) and "body" in request:
        request = embedded(request["body"], "proxy_server_request")
    # An empty object stands for what is not stored; "stream": false is no such thing.
    request = request if isinstance(request, dict) else {}
    request = {key: value for key, value in request.items() if value or (key == "stream" and value is False)}
    parameters = embedded(record.model_parameters, "model_parameters")
    if isinstance(parameters, dict) and parameters.get("tools"):
        request.setdefault("tools", parameters["tools"])
    place, logged = _logged(record)
    if logged and not _redacted(logged):
        # The prompt that was logged is the one that counts: the gateway may have rewritten what it received.
        request = {key: value for key, value in request.items() if key not in ("messages", "prompt", "input")}
        request[place] = logged
    for name in ("messages", "prompt", "input"):
        if _redacted(request.get(name)):
            del request[name]
    request["model"] = first(record, ("model",)) or request.get("model")
    return body_of(request)


def _logged(record: Any) -> tuple[str, Any]:
    """Return what stands under ``messages``, behind the field of a body that it is for this kind of call."""
    call = text(record.call_type) or ""
    place = next((place for kind, place in _PLAIN_CALLS.items() if kind in call), "messages")
    try:
        logged = embedded(record.messages, "messages")
    except Rejected:
        if place == "messages":
            raise
        return place, record.messages  # a prompt that begins like JSON
    if place == "messages" and isinstance(logged, str) and logged not in ("", "null", _REDACTED):
        raise Rejected("bad_messages", "messages is text, and call_type names no call whose prompt is text")
    return place, None if logged == "null" else logged


def _redacted(prompt: Any) -> bool:
    """Return whether LiteLLM put a word of its own in place of the prompt: one equal word for all of them."""
    contents = (
        [m.get("content") if isinstance(m, dict) else m for m in prompt]
        if isinstance(prompt, list)
        else [prompt]
    )
    return bool(contents) and all(content == _REDACTED for content in contents)


def _refuse_cut(prompts: list[Row]) -> None:
    for prompt in prompts:
        stored = prompt.get("messages") or prompt.get("prompt") or b""
        if _CUT.search(stored.encode() if isinstance(stored, str) else stored):
            raise Rejected(
                "cut_prompt",
                "LiteLLM cut a long text out of its prompt: raise MAX_STRING_LENGTH_PROMPT_IN_DB",
            )


def _common(record: Any) -> Row:
    start, end = arrival_us(record.startTime), arrival_us(record.endTime)
    first_token = arrival_us(record.completionStartTime)
    metadata = embedded(record.metadata, "metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    response = _response(record)
    counts = usage_counts(response.get("usage"))
    for name in ("usage_object", "additional_usage_values"):
        found = usage_counts(metadata.get(name))
        counts |= {column: value for column, value in found.items() if counts.get(column) is None}
    row: Row = {
        "request_id": text(first(record, ("request_id", "id"))),
        "arrival_us": start,
        "utc_offset_min": utc_offset_min(record.startTime),
        "route": text(metadata.get("user_api_key_team_alias")) or text(record.team_id),
        "session_id": text(record.session_id),
        # The gateway answered from a cache of its own: the engine never saw this request.
        "status": "cache_hit" if str(record.cache_hit).lower() == "true" else text(record.status),
        "attempt": int64(metadata.get("attempted_retries")),
        "provider": _provider(record),
        "output_text": answer_text(response),
        **counts,
        "latency_us": _between(start, end),
        # LiteLLM writes the end here for a call that does not stream.
        "ttft_us": None if first_token == end else _between(start, first_token),
    }
    # The columns default to 0, and no prompt is that short.
    row["prompt_tokens"] = count(record.prompt_tokens, "prompt_tokens") or row.get("prompt_tokens") or None
    if record.completion_tokens is not None:
        row["output_tokens"] = count(record.completion_tokens, "completion_tokens")
    return row


def _provider(record: Any) -> str | None:
    """Return whose service answered; LiteLLM says ``openai`` of every server that speaks OpenAI's API, also vLLM."""
    named, base = text(record.custom_llm_provider), text(record.api_base)
    return provider_at(base) if named == "openai" and base else named


def _response(record: Any) -> dict[str, Any]:
    response = embedded(record.response, "response")
    return response if isinstance(response, dict) else {}


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None or end < start else end - start


READER = JsonLinesReader(
    name="litellm",
    record=LiteLLMRecord,
    rows=litellm_rows,
    keys=(
        ("startTime", "call_type"),
        ("startTime", "request_id", "messages"),
        ("startTime", "request_id", "prompt_tokens"),
        ("startTime", "request_id", "spend"),
    ),
)
