"""Qwen-Bailian traces: hash traces in blocks of 16 tokens, with the tree of each conversation.

``timestamp`` counts seconds from the start; ``parent_chat_id`` is the request that a turn continues, -1 for the
first. Format: github.com/alibaba-edu/qwen-bailian-usagetraces-anon, ``qwen_*_blksz_16.jsonl``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.hash_trace import TraceRecord, trace_rows
from kvtools.readers.records import text
from kvtools.readers.times import arrival_us

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.readers.base import Chunk, ReadOptions
    from kvtools.readers.sources import Opened, Source

BLOCK_TOKENS = 16
_NO_PARENT = "-1"


class BailianRecord(msgspec.Struct):
    """The fields of a line that are read."""

    chat_id: Any = None
    parent_chat_id: Any = None
    timestamp: Any = None
    input_length: Any = None
    output_length: Any = None
    hash_ids: list[Any] | None = None


def bailian_rows(roots: dict[str, str], record: BailianRecord) -> Iterator[Row]:
    """Yield the row of one line; ``roots`` knows the first request of each conversation, and learns this one.

    A parent that the trace does not hold (it came before the first line) stands for the conversation itself.

    Raises:
        Rejected: an id is none, or a length is missing or negative.
        BadTime: the time is none.
    """
    (row,) = trace_rows(
        TraceRecord(
            input_length=record.input_length, output_length=record.output_length, hash_ids=record.hash_ids
        )
    )
    own, parent = text(record.chat_id), text(record.parent_chat_id)
    root = own if parent in (None, _NO_PARENT) else roots.get(parent or "", parent)
    if own is not None and root is not None:
        roots[own] = root
    yield row | {
        "request_id": own,
        "arrival_us": arrival_us(record.timestamp),
        "session_id": root,
        "block_size": BLOCK_TOKENS,
    }


@dataclass(frozen=True, slots=True)
class BailianReader:
    """The format; each file is a trace, whose chat ids are its own."""

    name: str = "bailian"

    def sniff(self, head: bytes) -> bool:
        """Return whether most of the first lines are requests of a conversation tree."""
        return self._lines({}).sniff(head)

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks; a line that cannot be used becomes a reject of its chunk."""
        return self._lines({}).read(file, source, options)

    def _lines(self, roots: dict[str, str]) -> JsonLinesReader:
        return JsonLinesReader(
            name=self.name,
            record=BailianRecord,
            rows=partial(bailian_rows, roots),
            keys=(("chat_id", "hash_ids"),),
        )


READER = BailianReader()
