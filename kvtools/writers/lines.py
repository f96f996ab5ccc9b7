"""The line-based formats: each names, in the words of its reader, what a row holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.writers.base import JsonLinesWriter

if TYPE_CHECKING:
    from kvtools.writers.base import Row

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MIN = 24 * 60
_READ_AS_MICROSECONDS = range(10**14, 10**17)
_JOINED = re.compile(
    r"(?:model=(?P<model>.+?)(?: (?=adapter=|salt=)|\Z))?"
    r"(?:adapter=(?P<adapter>.+?)(?: (?=salt=)|\Z))?"
    r"(?:salt=(?P<cache_salt>.+))?",
    re.DOTALL,
)
_WHO = frozenset({"request_id", "arrival_us", "namespace", "route", "session_id"})


def _chat(row: Row, _: int) -> dict[str, Any]:
    counts = (("prompt_tokens", "prompt_tokens"), ("completion_tokens", "output_tokens"))
    usage: dict[str, Any] = {name: row[column] for name, column in counts if column in row}
    if "cached_tokens" in row:
        usage["prompt_tokens_details"] = {"cached_tokens": row["cached_tokens"]}
    record = _who(row) | _request(row)
    if usage:
        record["usage"] = usage
    for name in ("ttft_us", "latency_us", "status"):
        if name in row:
            record[name] = row[name]
    if "output_text" in row:
        record["response"] = row["output_text"]
    return record


def _batch(row: Row, number: int) -> dict[str, Any]:
    """Return a line that can be sent as it is: id and address are required, so a row without gets plain ones."""
    chat = "messages" in row
    route = row.get("route")
    is_url = route is not None and route.startswith("/")
    body = _namespace(row) | _request(row)
    if route is not None and not is_url:
        body["route"] = route
    return {
        "custom_id": row.get("request_id", f"request-{number}"),
        "method": "POST",
        "url": route if is_url else "/v1/chat/completions" if chat else "/v1/completions",
        "body": body,
    }


def _tokens(row: Row, _: int) -> dict[str, Any]:
    record = _who(row)
    if "token_ids" in row:
        record["prompt_token_ids"] = row["token_ids"]
    for name in ("output_tokens", "cached_tokens", "priority", "request_type"):
        if name in row:
            record[name] = row[name]
    return record | _logprobs(row)


def _trace(row: Row, _: int) -> dict[str, Any]:
    record: dict[str, Any] = {}
    if "arrival_us" in row:
        milliseconds, rest = divmod(row["arrival_us"], 1000)
        record["timestamp"] = row["arrival_us"] / 1000 if rest else milliseconds
    for name, column in (
        ("input_length", "prompt_tokens"),
        ("output_length", "output_tokens"),
        ("hash_ids", "block_keys"),
        ("block_size", "block_size"),
        ("request_id", "request_id"),
        ("route", "route"),
        ("session_id", "session_id"),
    ):
        if column in row:
            record[name] = row[column]
    if "namespace" in row:
        # The format knows a model only: it takes the whole name, so that namespaces stay apart.
        record["model"] = row["namespace"].removeprefix("model=")
    return record


def _who(row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {}
    if "request_id" in row:
        record["id"] = row["request_id"]
    if "arrival_us" in row and (time := _written(row["arrival_us"], row.get("utc_offset_min"))) is not None:
        record["timestamp"] = time
    record |= _namespace(row)
    for name in ("route", "session_id"):
        if name in row:
            record[name] = row[name]
    return record


def _request(row: Row) -> dict[str, Any]:
    """Return what was asked: the prompt in whatever form, and the parameters that the cache depends on."""
    record: dict[str, Any] = {}
    for name in ("messages", "tools"):
        if name in row:
            # It is JSON already, and every byte of it counts.
            record[name] = msgspec.Raw(row[name].encode())
    if "messages" not in row and ("prompt" in row or "token_ids" in row):
        record["prompt"] = row.get("prompt", row.get("token_ids"))
    for name in ("priority", "request_type"):
        if name in row:
            record[name] = row[name]
    if "samples" in row:
        record["n"] = row["samples"]
    return record | _logprobs(row)


def _logprobs(row: Row) -> dict[str, Any]:
    """Return what makes a request not read the cache."""
    return {"prompt_logprobs": 1} if row.get("skip_lookup") else {}


def _namespace(row: Row) -> dict[str, Any]:
    """Return model, adapter and salt, which ``table.namespace_of`` joined; a name of another form is a model's.

    Any split that ``namespace_of`` joins to the same name will do.
    """
    if "namespace" not in row:
        return {}
    parts = _JOINED.fullmatch(row["namespace"])
    if parts is None:
        return {"model": row["namespace"]}
    return {name: value for name, value in parts.groupdict().items() if value is not None}


def _written(arrival_us: int, offset_min: int | None) -> str | int | None:
    """Return a time as ISO 8601 text, in its own zone where it has one; outside of the calendar as microseconds.

    ``None`` for a number that readers would take for another unit.
    """
    zone = (
        None if offset_min is None or abs(offset_min) >= _DAY_MIN else timezone(timedelta(minutes=offset_min))
    )
    try:
        moment = (_EPOCH + timedelta(microseconds=arrival_us)).astimezone(zone or UTC)
    except (OverflowError, ValueError):
        return arrival_us if abs(arrival_us) in _READ_AS_MICROSECONDS else None
    text = moment.isoformat()
    return text if zone else text.removesuffix("+00:00") + "Z"


CHAT_JSONL = JsonLinesWriter(
    "chat-jsonl",
    _WHO
    | {"utc_offset_min", "messages", "tools", "prompt", "token_ids", "prompt_tokens", "output_tokens"}
    | {
        "cached_tokens",
        "ttft_us",
        "latency_us",
        "status",
        "priority",
        "request_type",
        "samples",
        "skip_lookup",
        "output_text",
    },
    _chat,
)
"""One request per line, as the reader of chat logs takes them, the answer under ``response``."""

OPENAI_BATCH = JsonLinesWriter(
    "openai-batch",
    frozenset({"request_id", "namespace", "route", "messages", "tools", "prompt", "token_ids"})
    | {"priority", "request_type", "samples", "skip_lookup"},
    _batch,
)
"""Requests to send: ``custom_id``, ``method``, ``url`` and the request under ``body``; no time, no answer."""

TOKEN_LOG = JsonLinesWriter(
    "token-log",
    _WHO
    | {"token_ids", "prompt_tokens", "output_tokens", "cached_tokens", "priority", "request_type"}
    | {"skip_lookup"},
    _tokens,
)
"""Prompts as token ids. ``prompt_tokens`` is their number; a length without ids has no place."""

MOONCAKE = JsonLinesWriter(
    "mooncake", _WHO | {"block_keys", "block_size", "prompt_tokens", "output_tokens"}, _trace
)
"""Block ids, with times in milliseconds of the epoch (or of whatever the log's own times count from)."""
