"""Token logs: prompts as the engine saw them, ``{"id", "ts", "prompt_token_ids": [...], "output_tokens": n}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.bodies import given_media, token_ids
from kvtools.readers.labels import ID_NAMES, ROUTE_NAMES, SESSION_NAMES, TIME_NAMES, Labels
from kvtools.readers.records import count, first, int64, text
from kvtools.readers.request_headers import stated
from kvtools.readers.times import arrival_us
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class TokenRecord(Labels):
    """The fields of a line that are read."""

    adapter: Any = None
    cache_salt: Any = None
    prompt_token_ids: list[Any] | None = None
    token_ids: list[Any] | None = None
    output_tokens: Any = None
    cached_tokens: Any = None
    priority: Any = None
    request_type: Any = None
    headers: Any = None
    metadata: Any = None
    prompt_logprobs: Any = None
    mm: list[Any] | None = None


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
        "media": given_media(record.mm) if ids else None,
        **stated({"request_type": record.request_type}, record.headers, record.metadata),
    }


READER = JsonLinesReader(
    name="token-log",
    record=TokenRecord,
    rows=token_rows,
    keys=(("prompt_token_ids",), ("token_ids",)),
)
