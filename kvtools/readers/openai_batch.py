"""OpenAI batch files: ``custom_id``, ``method``, ``url`` and the request itself under ``body``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.chat_jsonl import ChatRecord, chat_rows
from kvtools.readers.records import Rejected, text

if TYPE_CHECKING:
    from collections.abc import Iterator


class BatchRecord(msgspec.Struct):
    """One line of a batch file. ``url`` becomes the route: a batch file names no other."""

    custom_id: Any = None
    url: Any = None
    body: ChatRecord | None = None


def batch_rows(record: BatchRecord) -> Iterator[Row]:
    """Yield the rows of one line.

    Raises:
        Rejected: the line has no body, or its body cannot be used.
        BadTime: the body's time is none.
    """
    if record.body is None:
        raise Rejected("no_body", "a batch line without body")
    own_id, url = text(record.custom_id), text(record.url)
    for index, row in enumerate(chat_rows(record.body, url)):
        row["request_id"] = own_id if index == 0 or own_id is None else f"{own_id}#{index}"
        row["route"] = row["route"] or url
        yield row


READER = JsonLinesReader(
    name="openai-batch",
    record=BatchRecord,
    rows=batch_rows,
    keys=(("custom_id", "body"),),
)
