"""Chat JSONL: one request per line with OpenAI-style ``messages`` or a ``prompt``, under the names that logs use."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Any

from kvtools.readers.base import Columns, JsonLinesReader, Row
from kvtools.readers.bodies import (
    MOST_SAMPLES,
    Body,
    canonical_messages,
    canonical_tools,
    encoded_conversations,
    prompts_in,
    prompts_of,
    request_columns,
    rows_of,
    token_ids,
    usage_counts,
)
from kvtools.readers.labels import ID_NAMES, ROUTE_NAMES, SESSION_NAMES, TIME_NAMES, Labels, column_of
from kvtools.readers.records import Rejected, count, first_of, int64, text, text_of
from kvtools.readers.request_headers import stated
from kvtools.readers.times import BadTime, arrival_us, arrivals_us, duration_us, utc_offset_min
from kvtools.table import namespace_of

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

_PROMPT_NAMES = (
    "messages", "tools", "prompt", "input", "instructions", "previous_response_id", "conversation",
)  # fmt: skip
_DURATIONS = (
    ("ttft_us", (("ttft_us", 1), ("ttft_ms", 1_000), ("ttft_s", 1_000_000))),
    ("latency_us", (("latency_us", 1), ("latency_ms", 1_000), ("latency_s", 1_000_000))),
)


class ChatRecord(Body):
    """The fields of a line that are read: a request body, and what the log says around it."""

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
    provider: Any = None
    attempt: Any = None
    request_type: Any = None
    headers: Any = None
    request_headers: Any = None
    metadata: Any = None


_NOTHING = ChatRecord()
_time_of = first_of(TIME_NAMES)
_id_of, _route_of, _session_of = map(text_of, (ID_NAMES, ROUTE_NAMES, SESSION_NAMES))
_status_of, _answer_of = map(text_of, (("status", "status_code"), ("response", "completion")))
_times_of = column_of(TIME_NAMES, _time_of, (float, str))
_TEXT_COLUMNS = {
    "request_id": column_of(ID_NAMES, _id_of),
    "route": column_of(ROUTE_NAMES, _route_of),
    "session_id": column_of(SESSION_NAMES, _session_of),
    "status": column_of(("status", "status_code"), _status_of),
    "output_text": column_of(("response", "completion"), _answer_of),
}

_SENT = ("request_type", "headers", "request_headers", "metadata")
"""What the sender says of the request's urgency."""

# Most lines set none of these: one comparison of tuples then stands for a look at each.
_seldom = attrgetter(
    *(name for name in Body.__struct_fields__ if name not in (*_PROMPT_NAMES, *Labels.__struct_fields__)),
    *("usage", "output_tokens", "cached_tokens", "provider", "attempt"),
    *(name for _, spellings in _DURATIONS for name, _ in spellings),
    *_SENT,
)
_NOTHING_SELDOM = _seldom(_NOTHING)
_sent = attrgetter(*_SENT)
_BUT_SENT = slice(-len(_SENT))


def chat_rows(record: ChatRecord, path: str | None = None) -> list[Row]:
    """Return one row per prompt of the record (a completions call can carry several).

    ``path`` is the path or URL that was called, where the log names it.

    Raises:
        Rejected: the record says nothing, or a field has the wrong shape.
        BadTime: its time is none.
    """
    if record == _NOTHING:
        raise Rejected("empty_object", "none of its fields is known")
    row = _common(record)
    prompts = prompts_in(record, path)
    if len(prompts) == 1:
        row.update(prompts[0])
        return [row]
    return list(rows_of(row, prompts))


def _common(record: ChatRecord) -> Row:
    time = _time_of(record)
    row: Row = {
        "request_id": _id_of(record),
        "arrival_us": arrival_us(time),
        "utc_offset_min": utc_offset_min(time),
        "route": _route_of(record),
        "session_id": _session_of(record),
        "status": _status_of(record),
        "output_text": _answer_of(record),
    }
    if _seldom(record) == _NOTHING_SELDOM:
        row["namespace"] = _namespace(text(record.model))
        return row
    row |= request_columns(record)
    row |= _measured(record)
    return row | _stated(record)


def chat_columns(records: list[ChatRecord]) -> Columns | None:
    """Return what ``chat_rows`` says of records of one chat prompt each, by column; ``None`` where one is special.

    A column that says nothing of any of them is left out.
    """
    messages = [record.messages for record in records if record.messages]
    seldom = list(map(_seldom, records))
    plain = seldom.count(_NOTHING_SELDOM) == len(seldom)
    known = plain or all(values[_BUT_SENT] == _NOTHING_SELDOM[_BUT_SENT] for values in seldom)
    if len(messages) != len(records) or not known:
        return None
    times = _times_of(records)
    tools = [record.tools for record in records]
    try:
        return {
            "messages": encoded_conversations(messages),
            **({"tools": list(map(canonical_tools, tools))} if any(tools) else {}),
            **({"arrival_us": arrivals_us(times)} if times else {}),
            **({"utc_offset_min": list(map(utc_offset_min, times))} if str in set(map(type, times)) else {}),
            "namespace": _namespaces([record.model for record in records]),
            **{name: values for name, values_of in _TEXT_COLUMNS.items() if (values := values_of(records))},
            **({} if plain else _all_stated(records)),
        }
    except (Rejected, BadTime):
        return None  # one of them is a reject


def _stated(record: ChatRecord) -> Row:
    kind, *holders = _sent(record)
    return stated({"request_type": kind}, *holders)


def _all_stated(records: list[ChatRecord]) -> Columns:
    said = list(map(_stated, records))
    return {name: [row.get(name) for row in said] for name in set().union(*said)}


def _namespaces(models: list[Any]) -> list[str | None]:
    if set(map(type, models)) == {str}:
        return list(map(_namespace, models))
    return [_namespace(text(model)) for model in models]


@lru_cache(maxsize=256)
def _namespace(model: str | None) -> str | None:
    return namespace_of(model, None, None)


def _measured(record: ChatRecord) -> Row:
    row = usage_counts(record.usage)
    row |= {"provider": text(record.provider), "attempt": int64(record.attempt)}
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
    columns=chat_columns,
)
