"""Request/response pairs: one JSON object per line that holds a whole request body, and often the response to it.

Gateways, recorders of HTTP calls and exports of tracing services write them: the body under ``request``, ``body``,
``input`` and other names, as an object or as JSON text. Rows of Helicone's export (``request_body``, ``response_body``,
``request_created_at``, ``delay_ms``; docs.helicone.ai/tools/export) are such pairs. Its ``latency``, ``delay_ms`` and
``time_to_first_token`` are milliseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.bodies import (
    answer_text,
    body_of,
    prompts_in,
    provider_at,
    request_columns,
    rows_of,
    usage_counts,
)
from kvtools.readers.chat_jsonl import ROUTE_NAMES, SESSION_NAMES, TIME_NAMES
from kvtools.readers.records import Rejected, count, embedded, first, text
from kvtools.readers.request_headers import stated
from kvtools.readers.times import arrival_us, duration_us, utc_offset_min

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REQUESTS = ("request", "request_body", "requestBody", "body", "input", "request_json")
_RESPONSES = ("response", "response_body", "responseBody", "output", "response_json")
_PROMPTS = ("messages", "prompt", "input")
_IDS = ("request_id", "requestId", "id")
# A response's date comes last: it is when the answer was there, and stands in only where no other time does.
_TIMES = (*TIME_NAMES, "request_created_at", "startTime", "createdAt", "response_date")
_HEADERS = ("headers", "request_headers")
_PROPERTIES = ("properties", "request_properties")
_PATHS = ("request_path", "path", "url", "uri")
_STATUSES = ("status", "status_code", "response_status")
_HELICONE = ("request_user_id", *_PROPERTIES, "delay_ms")
"""One of them makes a row Helicone's; elsewhere nobody knows the unit of a ``latency``."""
_HELICONE_SESSION = "Helicone-Session-Id"
_MILLISECONDS = {
    "ttft_us": ("ttft_ms", "time_to_first_token"),
    "latency_us": ("latency_ms", "delay_ms"),
}
_COUNTS = {
    "prompt_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "cached_tokens": "prompt_cache_read_tokens",
}
"""Helicone's own counts, for rows without ``usage``."""
_FIELDS = dict.fromkeys(
    (
        *_REQUESTS, *_RESPONSES, *_IDS, *_TIMES, *_PATHS, *_STATUSES, *_HELICONE, *ROUTE_NAMES, *SESSION_NAMES,
        *_COUNTS.values(), *(name for names in _MILLISECONDS.values() for name in names),
        "model", "request_model", "usage", "latency", "provider", *_HEADERS, "metadata",
    )
)  # fmt: skip

ExchangeRecord = msgspec.defstruct(
    "ExchangeRecord", [(name, Any, msgspec.field(default=None)) for name in _FIELDS]
)
"""The fields of a line that are read; every other field is skipped without being decoded."""


def exchange_rows(record: Any) -> Iterator[Row]:
    """Yield one row per prompt of the request body.

    Raises:
        Rejected: no body, one that cannot be read, or a field of the wrong shape.
        BadTime: the time is none.
    """
    request, envelope = _request(lambda key: getattr(record, key))
    if request.get("system") is not None and "messages" in request:
        raise Rejected(
            "other_format", "its body has a 'system' beside its messages: another API than OpenAI's"
        )
    body = body_of(request)
    body.model = body.model or first(record, ("model", "request_model"))
    path = text(first(record, _PATHS)) or text(envelope.get("url")) or text(envelope.get("path"))
    row = _common(record, path) | request_columns(body) | _stated(record, request, envelope)
    yield from rows_of(row, prompts_in(body, path))


def _stated(record: Any, request: dict[str, Any], envelope: dict[str, Any]) -> Row:
    """Return what headers say of the request's urgency, then its metadata and its properties."""
    own = [_known(getattr(record, name), name) for name in (*_HEADERS, "metadata", *_PROPERTIES)]
    return stated(envelope.get("headers"), *own, request.get("metadata"))


def _known(value: Any, name: str) -> Any:
    try:
        return embedded(value, name)
    except Rejected:
        return None  # not what a request is made of


def _request(value_of: Callable[[str], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the request body, and the object around it where it stands in one (url, headers, body)."""
    fault = Rejected("no_body", "a line without a request body")
    for key in _REQUESTS:
        holder = embedded(value_of(key), key)
        if isinstance(holder, dict):
            if _holds_prompt(holder) or not holder.get("body"):
                return holder, {}
            body = embedded(holder["body"], key)
            if isinstance(body, dict):
                return body, holder
        if holder:
            fault = Rejected(f"bad_{key}", f"{key} holds no request body")
    raise fault


def _holds_prompt(body: dict[str, Any]) -> bool:
    return any(body.get(name) is not None for name in _PROMPTS)


def _common(record: Any, path: str | None) -> Row:
    time = first(record, _TIMES)
    response, said, status = _response(record)
    properties = first(record, _PROPERTIES)
    named = properties if isinstance(properties, dict) else {}
    row = {
        "request_id": text(first(record, _IDS)) or text(response.get("id")),
        "arrival_us": arrival_us(time),
        "utc_offset_min": utc_offset_min(time),
        "route": text(first(record, ROUTE_NAMES)) or path,
        "session_id": text(first(record, SESSION_NAMES)) or text(named.get(_HELICONE_SESSION)),
        "status": text(first(record, _STATUSES)) or status,
        "provider": text(record.provider) or provider_at(path),
        "output_text": said,
        **usage_counts(embedded(record.usage, "usage") or response.get("usage")),
    }
    for column, name in _COUNTS.items():
        if row.get(column) is None:
            row[column] = count(getattr(record, name), name)
    for column, names in _MILLISECONDS.items():
        row[column] = duration_us(first(record, names), 1_000)
    if row["latency_us"] is None and first(record, _HELICONE) is not None:
        row["latency_us"] = duration_us(record.latency, 1_000)
    return row


def _response(record: Any) -> tuple[dict[str, Any], str | None, str | None]:
    """Return the response body (empty where there is none), the text it holds, and an HTTP status around it."""
    value, status = _answer(first(record, _RESPONSES)), None
    if isinstance(value, dict) and value.get("body") and "choices" not in value and "output" not in value:
        status = text(value.get("status") or value.get("status_code"))
        value = _answer(value["body"])
    if isinstance(value, dict):
        return value, answer_text(value), status
    return {}, value if isinstance(value, str) else None, status


def _answer(value: Any) -> Any:
    """Return a response as an object or as the text that it is; a recorded stream is the transport's text: none."""
    if not isinstance(value, str):
        return value
    try:
        parsed = embedded(value, "response")
    except Rejected:
        parsed = None
    # An answer may begin like JSON, or be some.
    return parsed if isinstance(parsed, dict) else None if value.startswith(("data:", "event:")) else value


def _marks(record: dict[str, Any]) -> bool:
    """Return whether a line holds a request body one level down, and no prompt of its own."""
    if any(
        isinstance(record.get(name), list)
        for name in ("messages", "prompt_token_ids", "token_ids", "hash_ids")
    ):
        return False
    try:
        request, _ = _request(record.get)
    except Rejected:
        return False
    return _holds_prompt(request)


READER = JsonLinesReader(
    name="exchange",
    record=ExchangeRecord,
    rows=exchange_rows,
    keys=tuple((key, name) for key in _REQUESTS for name in _PROMPTS if key != name),
    marks=_marks,
)
