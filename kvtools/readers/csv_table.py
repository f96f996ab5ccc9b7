"""CSV with a header: any table whose columns have the usual names, or are named by a mapping.

RFC 4180 with comma, semicolon, tab or bar: a quoted field may hold line breaks, a quote in it is doubled. A
record is named by the line it begins on.
"""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kvtools.readers.columns import Columns, columns_of
from kvtools.readers.document import Record, chunks, rejected
from kvtools.readers.lines import MAX_LINE_BYTES
from kvtools.readers.records import FAULTS, Rejected
from kvtools.readers.sources import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from io import BufferedIOBase

    from kvtools.readers.base import Chunk, ReadOptions, Row
    from kvtools.readers.sources import Opened, Source

_DELIMITERS = (",", ";", "\t", "|")
_BOM = b"\xef\xbb\xbf"


class _Lines:
    """The lines of a stream as text, with what the record that is being read has come to so far.

    Raises ``Rejected`` out of the csv reader, which begins anew with the next line.
    """

    def __init__(self, stream: BufferedIOBase) -> None:
        self._stream = stream
        self._ended = False
        self.number = 0
        self.record_bytes = 0
        self.fault: Rejected | None = None

    def begin_record(self) -> None:
        self.record_bytes = 0
        self.fault = None

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        data = self._read()
        self.number += 1
        self.record_bytes += len(data)
        if self.number == 1:
            data = data.removeprefix(_BOM)
        if b"\0" in data:
            self.fault = Rejected("zero_bytes", "holds zero bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.fault = Rejected("bad_utf8", "not UTF-8 text")
            return data.decode(errors="replace")

    def _read(self) -> bytes:
        if self._ended:
            raise StopIteration
        try:
            data = self._stream.readline(MAX_LINE_BYTES + 1)
            if self.record_bytes + len(data) > MAX_LINE_BYTES:
                raise self._too_long(data)
        except DAMAGED:
            self._ended = True
            self.number += 1
            raise Rejected("damaged_stream", FAULTS["damaged_stream"]) from None
        if not data:
            self._ended = True
            raise StopIteration
        return data

    def _too_long(self, data: bytes) -> Rejected:
        self.number += 1
        while data and not data.endswith(b"\n"):
            data = self._stream.readline(1 << 20)
        if self.record_bytes:
            return Rejected("line_too_long", "a quoted field that is not closed within 32 MiB begins here")
        return Rejected("line_too_long", FAULTS["line_too_long"])


def _header_of(line: str, mapping: Mapping[str, str] | None = None) -> tuple[str, list[str]]:
    """Return the separator of a header line and its names: the separator that parts most names."""
    sources = set((mapping or {}).values())
    readings = []
    for delimiter in _DELIMITERS:
        try:
            names = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            continue
        known = len(columns_of(names).places) + len(sources & set(names))
        readings.append((known, len(names), delimiter, names))
    if not readings:
        return ",", []
    _, _, delimiter, names = max(readings, key=lambda reading: reading[:2])
    return delimiter, names


def first_line(head: bytes) -> str:
    """Return the first line of ``head`` that is not blank, as text; empty where it cannot be a header."""
    line = next((part for part in head.removeprefix(_BOM).split(b"\n") if part.strip()), b"").strip(b"\r")
    if line.lstrip().startswith((b"{", b"[")) or b"\0" in line:
        return ""
    return line.decode(errors="replace")


def _unchanged(row: Row) -> Row:
    return row


@dataclass(frozen=True, slots=True)
class CsvReader:
    """A format in CSV. ``header``: the columns that mark it (none: any recognised one does).

    ``mapping``: the format's own columns by table column; those that a file lacks are left out. ``finish``
    completes each row.
    """

    name: str
    header: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)
    finish: Callable[[Row], Row] = _unchanged

    def sniff(self, head: bytes) -> bool:
        """Return whether the first line is a header of this format."""
        _, names = _header_of(first_line(head))
        if self.header:
            return set(self.header) <= {name.strip() for name in names}
        return columns_of(names).recognised

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks; a file without a header that can be used is one reject.

        Raises:
            UsageError: the mapping names a column that there is not.
        """
        lines = _Lines(file.stream)
        # The limit is the whole interpreter's; a record over 32 MiB never reaches it.
        csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
        try:
            columns, reader, width = self._begin(lines, options)
        except Rejected as fault:
            yield from chunks([rejected(max(lines.number, 1), fault)], source, options)
            return
        records = _records(reader, lines, width, lambda cells: map(self.finish, columns.rows(cells)))
        yield from chunks(records, source, options)

    def _begin(self, lines: _Lines, options: ReadOptions) -> tuple[Columns, Iterator[list[str]], int]:
        asked: Mapping[str, str] | None = getattr(options, "mapping", None)
        first = next((line for line in lines if line.strip()), "")
        if lines.fault is not None:
            raise lines.fault
        delimiter, _ = _header_of(first, asked)
        reader = csv.reader(itertools.chain([first], lines), delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(reader, [])]
        except csv.Error as error:
            raise Rejected("bad_csv", f"the header is not CSV ({error})") from None
        own = {target: name for target, name in self.mapping.items() if name in header}
        columns = columns_of(header, own | dict(asked or {}) if header else {}, options.route_key)
        if header and not columns.places:
            raise Rejected("no_known_column", "no column of the header is known; name them with --map")
        return columns, reader, len(header)


def _records(
    reader: Iterator[list[str]],
    lines: _Lines,
    width: int,
    rows_of: Callable[[Sequence[str]], Iterable[Row]],
) -> Iterator[Record]:
    while True:
        lines.begin_record()
        begins = lines.number + 1
        cells: Sequence[str] = ()
        try:
            cells = next(reader)
            fault = lines.fault
        except StopIteration:
            return
        except Rejected as refused:
            fault = refused
        except csv.Error as error:
            fault = lines.fault or _not_csv(error, lines.number - begins + 1)
        if not cells and fault is None:
            continue  # a blank line
        if fault is None and len(cells) != width:
            fault = Rejected("wrong_fields", f"{len(cells):,} fields where the header has {width:,}")
        if fault is not None:
            yield rejected(begins, fault)
        else:
            yield Record(begins, lines.record_bytes, partial(rows_of, cells))


def _not_csv(error: csv.Error, lines: int) -> Rejected:
    if "end of data" in str(error):
        return Rejected("bad_csv", f"a quoted field is open where the file ends, {lines:,} lines on")
    return Rejected("bad_csv", f"not CSV ({error})")


READER = CsvReader("csv")
