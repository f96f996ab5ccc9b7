"""Formats whose records are not lines: JSON documents that hold many records, and the loop from records to chunks.

Tracing tools export one document, often indented over many lines, or one document per line. ``documents``
gives both the same way. What is inside stays raw bytes until its own record is read, so that one broken
record is one reject.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import CHUNK_BYTES, ChunkBuilder, Row
from kvtools.readers.lines import Line, lines
from kvtools.readers.records import Rejected, decode, text
from kvtools.readers.times import BadTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from io import BufferedIOBase

    from kvtools.readers.base import Chunk, ReadOptions
    from kvtools.readers.sources import Source

MAX_DOCUMENT_BYTES = 256 << 20
"""A document is held whole while it is read: a longer one is rejected unread. A file of many lines has no limit."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a file: its line (from 1), its size, and how to read it.

    ``rows`` gives its rows of the request table, none where it is no request, and raises ``Rejected`` or
    ``BadTime`` where it cannot.
    """

    line: int
    size_bytes: int
    rows: Callable[[], Iterable[Row]]


def chunks(records: Iterable[Record], source: Source, options: ReadOptions) -> Iterator[Chunk]:
    """Yield chunks of about 4 MiB; a record that cannot be used is a reject, one without rows is not counted.

    Raises:
        RejectedInput: ``options.strict`` and a record cannot be used.
    """
    builder = ChunkBuilder(source.name, options)
    for record in records:
        builder.size_bytes += record.size_bytes
        try:
            rows = list(record.rows())
        except Rejected as fault:
            builder.records += 1
            builder.reject(record.line, fault)
        except BadTime as fault:
            builder.records += 1
            builder.reject(record.line, Rejected("bad_time", str(fault)))
        except RecursionError:
            builder.records += 1
            builder.reject(record.line, Rejected("too_deep", "nested too deep"))
        else:
            builder.records += len(rows)
            for row in rows:
                builder.add(row, record.line)
        if builder.size_bytes >= CHUNK_BYTES:
            yield builder.chunk()
            builder = ChunkBuilder(source.name, options)
    yield builder.chunk()


def rejected(line: int, fault: Rejected) -> Record:
    """Return a record that is ``fault``."""

    def rows() -> Iterable[Row]:
        raise fault

    return Record(line, 0, rows)


def documents(stream: BufferedIOBase, limit: int = MAX_DOCUMENT_BYTES) -> Iterator[Line]:
    """Yield the JSON documents of ``stream``: one per line, or all of it as one.

    An indented document breaks off in its first two lines; where one of these is whole JSON, the file is JSON
    lines. A document over ``limit`` bytes is yielded empty with the fault ``document_too_long``; one that is
    cut short by a damaged stream carries the fault ``damaged_stream``.
    """
    found = (_long_document(line) for line in lines(stream, limit))
    first = list(islice(found, 2))
    indented = bool(first) and first[0].data in (b"[", b"{")
    if not indented and any(line.fault or _is_json(line.data) for line in first):
        yield from chain(first, found)
    elif first:
        yield _joined(chain(first, found), first[0].number, limit)


def _long_document(line: Line) -> Line:
    return Line(line.number, b"", "document_too_long") if line.fault == "line_too_long" else line


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _joined(parts: Iterable[Line], number: int, limit: int) -> Line:
    """Join the lines of one document; blank ones stay, so that a place in it still says its line."""
    data = bytearray()
    at = number
    for line in parts:
        if line.fault:
            return Line(number, b"", line.fault)
        data += b"\n" * (line.number - at)
        data += line.data
        at = line.number
        if len(data) > limit:
            return Line(number, b"", "document_too_long")
    return Line(number, bytes(data))


def decode_document(document: Line, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode a document, or a part of one, into the decoder's type.

    Raises:
        Rejected: too long, not JSON, not UTF-8, nested too deep, or of another shape.
    """
    if document.fault == "document_too_long":
        raise Rejected(
            "document_too_long",
            f"a document over {MAX_DOCUMENT_BYTES >> 20} MiB; rejected unread, export it as JSON lines",
        )
    return decode(document, decoder)


class Places:
    """The lines on which the parts of a document begin; parts are asked for in their own order."""

    def __init__(self, document: Line) -> None:
        self._data = document.data
        self._line = document.number
        self._at = 0

    def part(self, raw: bytes) -> Line:
        """Return the raw value as a line of its own, with the number of the line that it begins on."""
        found = self._data.find(raw, self._at)
        if found >= 0:
            self._line += self._data.count(b"\n", self._at, found)
            self._at = found + 1  # what stands inside begins later, and so does an equal part
        return Line(self._line, bytes(raw))


def route_at(key: str | None, *holders: Any) -> Row:
    """Return the route under ``key`` (as it stands, or dots into objects) of the first holder that has it.

    Empty where no key is asked for.
    """
    if key is None:
        return {}
    for holder in holders:
        value = holder.get(key) if isinstance(holder, dict) else None
        if value is None:
            value = holder
            for part in key.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        if (route := text(value)) is not None:
            return {"route": route}
    return {"route": None}
