"""Token logs: prompts as the engine saw them, ``{"id", "ts", "prompt_token_ids": [...], "output_tokens": n}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.chat_jsonl import ID_NAMES, ROUTE_NAMES, SESSION_NAMES, TIME_NAMES, token_ids
from kvtools.readers.records import count, first, int64, text
from kvtools.readers.times import arrival_us
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class TokenRecord(msgspec.Struct):
    """The fields of a line that are read."""

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
    model: Any = None
    adapter: Any = None
    cache_salt: Any = None
    tenant: Any = None
    route: Any = None
    app: Any = None
    endpoint: Any = None
    session_id: Any = None
    conversation_id: Any = None
    prompt_token_ids: list[Any] | None = None
    token_ids: list[Any] | None = None
    output_tokens: Any = None
    cached_tokens: Any = None
    priority: Any = None
    prompt_logprobs: Any = None


def token_rows(record: TokenRecord) -> Iterator[Row]:
    """Yield the row of one line; without ids it is a request without prompt.

    Raises:
        Rejected: an entry of the ids is none, or a count is negative.
        BadTime: the time is none.
    """
    ids = record.prompt_token_ids if record.prompt_token_ids is not None else record.token_ids
    yield {
        "request_id": text(first(record, ID_NAMES)),
        "arrival_us": arrival_us(first(record, TIME_NAMES)),
        "namespace": namespace_of(text(record.model), text(record.adapter), text(record.cache_salt)),
        "route": text(first(record, ROUTE_NAMES)),
        "session_id": text(first(record, SESSION_NAMES)),
        "token_ids": token_ids(ids) if ids else None,
        "prompt_tokens": len(ids) if ids else None,
        "output_tokens": count(record.output_tokens, "output_tokens"),
        "cached_tokens": count(record.cached_tokens, "cached_tokens"),
        "priority": int64(record.priority),
        "skip_lookup": None if record.prompt_logprobs is None else 1,
    }


READER = JsonLinesReader(
    name="token-log",
    record=TokenRecord,
    rows=token_rows,
    keys=(("prompt_token_ids",), ("token_ids",)),
)
