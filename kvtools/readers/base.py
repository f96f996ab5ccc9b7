"""What a reader is, and the one loop that all line-based formats share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pyarrow as pa

from kvtools.errors import RejectedInput, UsageError
from kvtools.readers.lines import lines
from kvtools.readers.records import Rejected, decode, mended, sniff_records, text
from kvtools.readers.times import BadTime
from kvtools.table import offsets_of, rejects_table, request_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pandas as pd

    from kvtools.readers.lines import Line
    from kvtools.readers.sources import Opened, Source

CHUNK_BYTES = 8 << 20
"""Decompressed bytes that one chunk holds: 64 MiB would cost 200 MB more and be no faster."""

Row = dict[str, Any]
_ROWS_AT_ONCE = 64
"""Rows that wait to be moved into columns together: few enough for their texts to stay in the processor's cache."""

_PROMPT_COLUMNS = ("messages", "prompt", "token_ids", "block_keys")
_PROMPT_KEYS: dict[str, type | tuple[type, ...]] = {
    "messages": list,
    "prompt": (str, list),
    "prompt_token_ids": list,
    "token_ids": list,
    "hash_ids": list,
    "body": dict,
}
_PROMPTS = msgspec.json.Decoder(
    msgspec.defstruct("HeldPrompts", [(key, Any, msgspec.field(default=None)) for key in _PROMPT_KEYS])
)


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


class Reader(Protocol):
    """One log format."""

    @property
    def name(self) -> str:
        """The name for ``--input-format``."""

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is in this format."""

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield the file as chunks of about 8 MiB, in its own order."""


class _Texts:
    """A text column as Arrow keeps it, one buffer of UTF-8: the texts themselves are free to go."""

    def __init__(self, missing: int) -> None:
        self._data = bytearray()
        self._lengths: list[int | None] = [None] * missing

    def extend(self, values: list[Any]) -> None:
        encoded = [value.encode() if type(value) is str else value for value in values]
        self._data += b"".join([value for value in encoded if value is not None])
        self._lengths += [None if value is None else len(value) for value in encoded]

    def array(self) -> pa.Array:
        lengths = pa.array(self._lengths, type=pa.int64())
        offsets = offsets_of(lengths.fill_null(0).to_numpy())
        buffers = [lengths.buffers()[0], pa.py_buffer(offsets), pa.py_buffer(self._data)]
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

    def add(self, row: Row, line: int) -> None:
        """Append one request, read from ``line``."""
        row["source"] = f"{self.source}:{line}"
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) == _ROWS_AT_ONCE:
            self._store()

    def _store(self) -> None:
        """Move the waiting rows into columns; one that no row has named so far is left out."""
        waiting = self._waiting
        before = self.rows - len(waiting)
        for name in set(self._columns).union(*waiting):
            values = self._columns.get(name)
            if values is None:
                values = self._columns[name] = _Texts(before) if name == "messages" else [None] * before
            values.extend([row.get(name) for row in waiting])
        self._waiting = []

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
        requests = request_table(columns, self.rows)
        chunk = Chunk(requests, rejects_table(self.rejects), self.records, self.repaired)
        self._columns = {}
        self.rows, self.rejects, self.records, self.size_bytes = 0, [], 0, 0
        self.repaired = Counter()
        return chunk


@dataclass(frozen=True, slots=True)
class JsonLinesReader:
    """A format of one JSON object per line.

    ``record`` is the typed struct of a line, ``rows`` turns one into the rows of the request table (it
    raises ``Rejected`` or ``BadTime`` where it cannot), ``keys`` are the sets of keys one of which marks
    the format; ``marks`` replaces them where a record's keys alone do not tell.
    """

    name: str
    record: type[msgspec.Struct]
    rows: Callable[[Any], Iterable[Row]]
    keys: tuple[tuple[str, ...], ...]
    marks: Callable[[dict[str, Any]], bool] | None = None

    def sniff(self, head: bytes) -> bool:
        """Return whether most of the first lines carry one of the format's key sets."""
        return sniff_records(head, self.marks or self._marked, self.keys)

    def _marked(self, record: dict[str, Any]) -> bool:
        return any(all(key in record for key in wanted) for wanted in self.keys)

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks; a record that cannot be used becomes a reject of its chunk."""
        decoder = msgspec.json.Decoder(self.record)
        route_of = _route_reader(options.route_key)
        builder = ChunkBuilder(source.name, options)
        for line in lines(file.stream):
            try:
                record = decode(line, decoder)
            except Rejected as fault:
                for entry in mended(line, fault, decoder):
                    builder.repaired.update(entry.repairs)
                    self._add(builder, entry.line, entry.fault or entry.record, route_of)
                    if builder.size_bytes >= CHUNK_BYTES:
                        yield builder.chunk()
            else:
                self._add(builder, line, record, route_of)
            if builder.size_bytes >= CHUNK_BYTES:
                yield builder.chunk()
        yield builder.chunk()

    def _add(
        self,
        builder: ChunkBuilder,
        line: Line,
        record: Any,
        route_of: Callable[[Line], str | None] | None,
    ) -> None:
        """Add the rows of one record, or the reject that it is."""
        builder.records += 1
        builder.size_bytes += len(line.data)
        try:
            if isinstance(record, Rejected):
                raise record
            rows = list(self.rows(record))
            if not _hold_prompt(rows):
                self._refuse_other_formats(line)
            if route_of is not None:
                route = route_of(line)
                for row in rows:
                    row["route"] = route
        except Rejected as fault:
            builder.reject(line.number, fault)
        except BadTime as fault:
            builder.reject(line.number, Rejected("bad_time", str(fault)))
        else:
            # One record can hold several prompts; each is a request of its own.
            builder.records += len(rows) - 1
            for row in rows:
                builder.add(row, line.number)

    def _refuse_other_formats(self, line: Line) -> None:
        """Raise ``Rejected`` where a line without prompt holds one under a key of another format."""
        own = {key for keys in self.keys for key in keys}
        held = decode(line, _PROMPTS)
        for key, kinds in _PROMPT_KEYS.items():
            value = getattr(held, key)
            if key not in own and isinstance(value, kinds) and value:
                raise Rejected(
                    "other_format", f"its prompt stands under {key!r}, which {self.name} does not read"
                )


def _hold_prompt(rows: list[Row]) -> bool:
    for row in rows:
        for name in _PROMPT_COLUMNS:
            if row.get(name) is not None:
                return True
    return False


def _route_reader(key: str | None) -> Callable[[Line], str | None] | None:
    if key is None:
        return None
    top, *rest = key.split(".")
    try:
        holder = msgspec.defstruct("RouteHolder", [("value", Any, msgspec.field(name=top, default=None))])
    except ValueError:
        raise UsageError(
            f"--route-key {key!r}: a key without quotes, backslashes and control characters."
        ) from None
    decoder = msgspec.json.Decoder(holder)

    def route_of(line: Line) -> str | None:
        value: Any = getattr(decode(line, decoder), "value")  # noqa: B009 - the struct is made at run time
        for part in rest:
            value = value.get(part) if isinstance(value, dict) else None
        return text(value)

    return route_of
