"""Parquet: any table whose columns have the usual names, or are named by a mapping; a request is named by its row.

Only the columns that are wanted are read, a few hundred rows at a time. A struct column is looked into as JSON
is, with its nulls left out: in a struct every row has every key. A timestamp without zone is UTC.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kvtools.readers.columns import columns_of
from kvtools.readers.document import Record, chunks, rejected
from kvtools.readers.records import Rejected
from kvtools.readers.sources import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from kvtools.readers.base import Chunk, ReadOptions, Row
    from kvtools.readers.columns import Columns
    from kvtools.readers.sources import Opened, Source

_MAGIC = (b"PAR1", b"PARE")
# A dictionary page can hold one long prompt for all rows: the file's own sizes do not bound what rows take.
_BATCH_ROWS = 256
_BUFFER_BYTES = 1 << 20
MAX_UNPACKED_BYTES = 16 << 30
"""A compressed file that unpacks to more is rejected: its copy has to fit on the disk. A plain one has no limit."""
_TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAULTS = (pa.ArrowException, OSError, ValueError, KeyError, OverflowError, MemoryError)
"""What pyarrow raises for a file that is damaged, or that it cannot read."""


_NOT_PARQUET = "not parquet, damaged or cut short"
_NO_VALUE = (ValueError, OverflowError, RecursionError, pa.ArrowException)


class _Unreadable:
    """Stands for a cell that has no value in Python: text that is not UTF-8, a day after the year 9999."""


_UNREADABLE = _Unreadable()


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """The format."""

    name: str = "parquet"

    def sniff(self, head: bytes) -> bool:
        """Return whether the file begins as parquet does."""
        return head.startswith(_MAGIC)

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks; where the file cannot be read (further), that is one reject.

        Raises:
            UsageError: the mapping names a column that there is not.
        """
        yield from chunks(_records(file, source, options), source, options)


def _records(file: Opened, source: Source, options: ReadOptions) -> Iterator[Record]:
    row = 0
    try:
        with _seekable(file, source) as place, _opened(place) as table:
            names = table.schema_arrow.names
            wanted = [names[number] for number in _columns(names, options).needed]
            for batch in table.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
                columns = _columns(batch.schema.names, options)
                yield from _rows(batch, columns, row)
                row += batch.num_rows
    except Rejected as fault:
        yield rejected(1, fault)
    except DAMAGED:
        yield rejected(row + 1, Rejected("damaged_stream", "the compressed file is damaged or cut short"))
    except _FAULTS:
        what = _NOT_PARQUET if row == 0 else "damaged here; what follows is lost"
        yield rejected(row + 1, Rejected("bad_parquet", what))


def _opened(place: Any) -> Any:
    # Without pre-buffering, pages are streamed: with it the columns of a whole row group are held at once.
    return pq.ParquetFile(place, buffer_size=_BUFFER_BYTES, pre_buffer=False)


def _columns(names: Sequence[str], options: ReadOptions) -> Columns:
    columns = columns_of(names, getattr(options, "mapping", None), options.route_key)
    if not columns.places:
        raise Rejected("no_known_column", "no column of the file is known; name them with --map")
    return columns


@contextmanager
def _seekable(file: Opened, source: Source) -> Iterator[Any]:
    """Give parquet, whose index stands at its end, bytes to seek in: the file, or a copy without its compression."""
    with source.path.open("rb") as stored:
        if stored.read(4) in _MAGIC:
            yield stored
            return
    magic = file.stream.read(len(_MAGIC[0]))
    if magic not in _MAGIC:
        raise Rejected("bad_parquet", _NOT_PARQUET)
    with tempfile.TemporaryFile(prefix="kvtools-parquet-") as copy:
        copy.write(magic)
        while part := file.stream.read(_BUFFER_BYTES):
            if copy.tell() + len(part) > MAX_UNPACKED_BYTES:
                raise Rejected(
                    "file_too_long",
                    f"over {MAX_UNPACKED_BYTES >> 30} GiB once decompressed; decompress it and name that file",
                )
            copy.write(part)
        copy.seek(0)
        yield copy


def _rows(batch: pa.RecordBatch, columns: Columns, before: int) -> Iterator[Record]:
    size = max(1, batch.nbytes // max(1, batch.num_rows))
    cells = [_cells(column) for column in batch.columns]
    for row in range(batch.num_rows):
        yield Record(before + row + 1, size, partial(_row, columns, [column[row] for column in cells]))


def _row(columns: Columns, cells: Sequence[Any]) -> Iterable[Row]:
    if any(cell is _UNREADABLE for cell in cells):
        raise Rejected("bad_cell", "a cell that Python has no value for: not UTF-8, or a time out of range")
    return columns.rows(cells)


def _cells(column: pa.Array) -> list[Any]:
    """Return the values of a column as JSON has them."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _cells(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        return _moments(column)
    values = _python(column)
    # Ids come in long lists: only what may hold something else is gone through.
    return values if _is_json(kind) else [_converted(value) for value in values]


def _is_json(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    scalar = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_integer,
        pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean, pa.types.is_null,
    )  # fmt: skip
    return any(check(kind) for check in scalar)


def _moments(column: pa.Array) -> list[Any]:
    """Return timestamps as ISO 8601, with an offset where the column has a zone."""
    zone = None
    with suppress(LookupError, ValueError):  # a zone that is not known here; the instant is
        zone = pa.lib.string_to_tzinfo(column.type.tz) if column.type.tz else None
    ticks = _TICKS_PER_SECOND[column.type.unit]
    # In whole numbers, not by a cast: one time out of range would spoil all of them.
    return [_moment(count, ticks, zone) for count in column.cast(pa.int64()).to_pylist()]


def _moment(count: int | None, ticks_per_second: int, zone: tzinfo | None) -> Any:
    if count is None:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=count * 1_000_000 // ticks_per_second)
        return (moment.astimezone(zone) if zone else moment.replace(tzinfo=None)).isoformat()
    except (OverflowError, ValueError):
        return _UNREADABLE


def _python(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except _NO_VALUE:
        # One cell spoils the whole list: take them one by one.
        return [_one(scalar) for scalar in column]
    return values


def _one(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except _NO_VALUE:
        return _UNREADABLE


def _converted(value: Any) -> Any:
    try:
        return _plain(value)
    except _NO_VALUE:
        return _UNREADABLE


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON has nothing for becomes text."""
    if value is None or value is _UNREADABLE or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(held) for key, held in value.items() if held is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(held) for held in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value.isoformat() if isinstance(value, (datetime, date)) else str(value)


READER = ParquetReader()
