"""The chunk of a log that is being read: rows to columns, a few at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kvtools.errors import RejectedInput
from kvtools.table import offsets_of, places_of, rejects_table, request_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from kvtools.readers.lines import Stretch
    from kvtools.readers.records import Rejected

Row = dict[str, Any]
Columns = dict[str, list[Any]]

_TEXT_BYTES = 9 << 20
"""Room for the texts of one chunk (8 MiB of lines and the line that goes over); more is made where it is short."""

ROWS_AT_ONCE = 64
"""Records, and rows, that wait to be moved into columns together: their texts are still in the processor's cache."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    ``route_key`` names the field (dots go into objects) that holds the route; ``strict`` stops at the first
    record that has to be rejected. ``mapping`` says, for CSV and parquet, which source column fills which
    column of the request table.
    """

    route_key: str | None = None
    strict: bool = False
    mapping: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A stretch of one log: the requests, the rejected records, and how many records it held in all.

    ``repaired`` counts what was read although it is not JSON lines to the letter: ``glued_line`` (a line of several
    objects), ``control_char`` (an object with raw control characters in its strings).
    """

    requests: pd.DataFrame
    rejects: pd.DataFrame
    records: int
    repaired: Counter[str] = field(default_factory=Counter)

    def reject_rows(self) -> list[tuple[str, str, str]]:
        """The rejected records as ``(source, reason, detail)``."""
        return list(self.rejects.itertuples(index=False, name=None))


class _Texts:
    """A text column as Arrow keeps it, one buffer of UTF-8: the texts themselves are free to go."""

    def __init__(self, missing: int) -> None:
        # As large as it will be: the system hands out a page when it is first written to.
        self._data = bytearray(_TEXT_BYTES)
        self._size = 0
        self._lengths: list[int | None] = [None] * missing

    def extend(self, values: list[Any]) -> None:
        if set(map(type, values)) != {bytes}:
            values = [value.encode() if type(value) is str else value for value in values]
        if None in values:
            self._add(b"".join([value for value in values if value is not None]))
            self._lengths += [None if value is None else len(value) for value in values]
        else:
            self._add(b"".join(values))
            self._lengths += map(len, values)

    def _add(self, text: bytes) -> None:
        start, self._size = self._size, self._size + len(text)
        if self._size > len(self._data):
            self._data += bytes(self._size)
        self._data[start : self._size] = text

    def array(self) -> pa.Array:
        lengths = pa.array(self._lengths, type=pa.int64())
        offsets = offsets_of(lengths.fill_null(0).to_numpy())
        texts = pa.py_buffer(memoryview(self._data)[: self._size])
        buffers = [lengths.buffers()[0], pa.py_buffer(offsets), texts]
        return pa.Array.from_buffers(pa.large_string(), len(lengths), buffers)


@dataclass(slots=True)
class ChunkBuilder:
    """The chunk that is being read."""

    source: str
    options: ReadOptions
    rows: int = 0
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    records: int = 0
    size_bytes: int = 0
    repaired: Counter[str] = field(default_factory=Counter)
    _columns: dict[str, list[Any] | _Texts] = field(default_factory=dict)
    _waiting: list[Row] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def add(self, row: Row, line: int) -> None:
        """Append one request, read from ``line``."""
        self._waiting.append(row)
        self._lines.append(line)
        self.rows += 1
        if len(self._waiting) == ROWS_AT_ONCE:
            self._store()

    def extend(self, columns: Columns, lines: Stretch) -> None:
        """Append one request per line; a column that is not named says nothing of them."""
        rows = len(lines.ends)
        self._store()
        self._append(columns, rows)
        self._lines += range(lines.number, lines.number + rows)
        self.rows += rows
        self.records += rows
        self.size_bytes += len(lines.data) - rows

    def _store(self) -> None:
        """Move the waiting rows into columns; one that no row has named so far is left out."""
        waiting, self._waiting = self._waiting, []
        self.rows -= len(waiting)
        self._append(
            {name: [row.get(name) for row in waiting] for name in set().union(*waiting)}, len(waiting)
        )
        self.rows += len(waiting)

    def _append(self, columns: Columns, rows: int) -> None:
        for name in self._columns.keys() | columns.keys():
            values = self._columns.get(name)
            if values is None:
                missing = self.rows
                values = self._columns[name] = _Texts(missing) if name == "messages" else [None] * missing
            values.extend(columns.get(name) or [None] * rows)

    def reject(self, line: int, fault: Rejected) -> None:
        """Record what could not be used; raise ``RejectedInput`` where that was asked for."""
        where = f"{self.source}:{line}"
        if self.options.strict:
            raise RejectedInput(f"{where}: {fault.detail}; leave out --strict to count it and read on.")
        self.rejects.append((where, fault.reason, fault.detail))

    def chunk(self) -> Chunk:
        """Return what was gathered and start anew."""
        self._store()
        columns = {
            name: values.array() if isinstance(values, _Texts) else values
            for name, values in self._columns.items()
        }
        columns["source"] = places_of(self.source, self._lines)
        requests = request_table(columns, self.rows)
        chunk = Chunk(requests, rejects_table(self.rejects), self.records, self.repaired)
        self._columns, self._lines = {}, []
        self.rows, self.rejects, self.records, self.size_bytes = 0, [], 0, 0
        self.repaired = Counter()
        return chunk
