"""Mooncake-style hash traces: ``timestamp`` (ms from the start), ``input_length``, ``output_length``, ``hash_ids``.

One id stands for one block *and all before it*, so equal ids mean equal prefixes. The last block may be partial.
Format: github.com/kvcache-ai/Mooncake, FAST25-release/traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.chat_jsonl import ID_NAMES, ROUTE_NAMES
from kvtools.readers.records import Rejected, count, first, text
from kvtools.readers.times import BadTime
from kvtools.table import digest64, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator


_BEYOND_64_BITS = 1 << 63
_LARGEST_BLOCK_TOKENS = (1 << 31) - 1


class TraceRecord(msgspec.Struct):
    """The fields of a line that are read."""

    id: Any = None
    request_id: Any = None
    timestamp: int | float | str | None = None
    input_length: Any = None
    output_length: Any = None
    hash_ids: list[Any] | None = None
    block_size: Any = None
    model: Any = None
    tenant: Any = None
    route: Any = None
    app: Any = None
    endpoint: Any = None
    session_id: Any = None


def trace_rows(record: TraceRecord) -> Iterator[Row]:
    """Yield the row of one line; without ids it is a request without prompt.

    Raises:
        Rejected: an id is neither a whole number nor text, or a length is missing or negative.
        BadTime: the time is no number of milliseconds.
    """
    ids = record.hash_ids
    input_tokens = count(record.input_length, "input_length")
    if ids and not input_tokens:
        raise Rejected("bad_input_length", "hash_ids without the input_length that they cover")
    yield {
        "request_id": text(first(record, ID_NAMES)),
        "arrival_us": _milliseconds(record.timestamp),
        "namespace": namespace_of(text(record.model), None, None),
        "route": text(first(record, ROUTE_NAMES)),
        "session_id": text(record.session_id),
        "block_keys": [_key(block) for block in ids] if ids else None,
        "block_size": _block_size(record.block_size),
        "prompt_tokens": input_tokens,
        "output_tokens": count(record.output_length, "output_length"),
    }


def _milliseconds(value: float | str | None) -> int | None:
    if value is None or value == "":
        return None
    try:
        arrival = round(float(value) * 1000)
    except (ValueError, OverflowError):
        arrival = _BEYOND_64_BITS
    if abs(arrival) >= _BEYOND_64_BITS:
        raise BadTime(f"timestamp {str(value)[:40]!r} is no number of milliseconds")
    return arrival


def _block_size(value: Any) -> int | None:
    size = count(value, "block_size") or None
    if size is not None and size > _LARGEST_BLOCK_TOKENS:
        raise Rejected("bad_block_size", f"block_size is {size}, more tokens than any prompt has")
    return size


def _key(block: Any) -> int:
    if isinstance(block, int) and not isinstance(block, bool) and -(1 << 63) <= block < 1 << 64:
        return block % (1 << 64)
    if isinstance(block, str):
        return digest64(block)
    raise Rejected("bad_hash_ids", f"{str(block)[:20]!r} is not a block id")


READER = JsonLinesReader(
    name="mooncake",
    record=TraceRecord,
    rows=trace_rows,
    keys=(("hash_ids",),),
)
