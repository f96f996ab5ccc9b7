"""Chat JSONL: one request per line with OpenAI-style ``messages`` or a ``prompt``, under the names that logs use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.bodies import (
    MOST_SAMPLES,
    Body,
    canonical_messages,
    canonical_tools,
    prompts_in,
    prompts_of,
    request_columns,
    rows_of,
    token_ids,
    usage_counts,
)
from kvtools.readers.records import Rejected, count, first, text
from kvtools.readers.times import arrival_us, duration_us, utc_offset_min

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ID_NAMES",
    "MOST_SAMPLES",
    "READER",
    "ROUTE_NAMES",
    "SESSION_NAMES",
    "TIME_NAMES",
    "ChatRecord",
    "canonical_messages",
    "canonical_tools",
    "chat_rows",
    "prompts_of",
    "token_ids",
    "usage_counts",
]

TIME_NAMES = ("ts_epoch", "timestamp", "ts", "time", "arrival_time", "start_time", "created_at", "created")
ID_NAMES = ("id", "request_id")
ROUTE_NAMES = ("tenant", "route", "app", "endpoint")
SESSION_NAMES = ("session_id", "conversation_id")
_STATUS_NAMES = ("status", "status_code")
_ANSWER_NAMES = ("response", "completion")
_DURATIONS = (
    ("ttft_us", (("ttft_us", 1), ("ttft_ms", 1_000), ("ttft_s", 1_000_000))),
    ("latency_us", (("latency_us", 1), ("latency_ms", 1_000), ("latency_s", 1_000_000))),
)


class ChatRecord(Body):
    """The fields of a line that are read: a request body, and what the log says around it."""

    id: Any = None
    request_id: Any = None
    ts_epoch: Any = None
    timestamp: Any = None
    ts: Any = None
    time: Any = None
    arrival_time: Any = None
    start_time: Any = None
    created_at: Any = None
    created: Any = None
    tenant: Any = None
    route: Any = None
    app: Any = None
    endpoint: Any = None
    session_id: Any = None
    conversation_id: Any = None
    output_tokens: Any = None
    cached_tokens: Any = None
    usage: dict[str, Any] | None = None
    ttft_us: Any = None
    ttft_ms: Any = None
    ttft_s: Any = None
    latency_us: Any = None
    latency_ms: Any = None
    latency_s: Any = None
    status: Any = None
    status_code: Any = None
    response: Any = None
    completion: Any = None


_NOTHING = ChatRecord()


def chat_rows(record: ChatRecord, path: str | None = None) -> Iterator[Row]:
    """Yield one row per prompt of the record (a completions call can carry several).

    ``path`` is the path or URL that was called, where the log names it.

    Raises:
        Rejected: the record says nothing, or a field has the wrong shape.
        BadTime: its time is none.
    """
    if record == _NOTHING:
        raise Rejected("empty_object", "none of its fields is known")
    yield from rows_of(_common(record), prompts_in(record, path))


def _common(record: ChatRecord) -> Row:
    time = first(record, TIME_NAMES)
    row: Row = {
        "request_id": text(first(record, ID_NAMES)),
        "arrival_us": arrival_us(time),
        "utc_offset_min": utc_offset_min(time),
        "route": text(first(record, ROUTE_NAMES)),
        "session_id": text(first(record, SESSION_NAMES)),
        "status": text(first(record, _STATUS_NAMES)),
        "output_text": text(first(record, _ANSWER_NAMES)),
        **request_columns(record),
        **usage_counts(record.usage),
    }
    if record.output_tokens is not None:
        row["output_tokens"] = count(record.output_tokens, "output_tokens")
    if record.cached_tokens is not None:
        row["cached_tokens"] = count(record.cached_tokens, "cached_tokens")
    for column, spellings in _DURATIONS:
        for name, unit_us in spellings:
            value = getattr(record, name)
            if value is not None and (duration := duration_us(value, unit_us)) is not None:
                row[column] = duration
                break
    return row


READER = JsonLinesReader(
    name="chat-jsonl",
    record=ChatRecord,
    rows=chat_rows,
    keys=(("messages",), ("prompt",), ("input", "instructions")),
)
