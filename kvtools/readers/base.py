"""What a reader is, and the one loop that all line-based formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kvtools.errors import UsageError
from kvtools.readers.chunks import ROWS_AT_ONCE, Chunk, ChunkBuilder, Columns, ReadOptions, Row
from kvtools.readers.lines import MAX_LINE_BYTES, stretches
from kvtools.readers.records import Mended, Rejected, decode, mended, sniff_records, text
from kvtools.readers.times import BadTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kvtools.readers.lines import Line, Stretch
    from kvtools.readers.sources import Opened, Source

__all__ = [
    "CHUNK_BYTES",
    "Chunk",
    "ChunkBuilder",
    "Columns",
    "JsonLinesReader",
    "ReadOptions",
    "Reader",
    "Row",
]

CHUNK_BYTES = 4 << 20
"""Decompressed bytes that one chunk holds: 64 MiB would cost 220 MB more and be no faster."""

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


class Reader(Protocol):
    """One log format."""

    @property
    def name(self) -> str:
        """The name for ``--input-format``."""

    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with ``head`` is in this format."""

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield the file as chunks of about 8 MiB, in its own order."""


@dataclass(frozen=True, slots=True)
class JsonLinesReader:
    """A format of one JSON object per line.

    ``record`` is the typed struct of a line, ``rows`` turns one into the rows of the request table (it
    raises ``Rejected`` or ``BadTime`` where it cannot), ``keys`` are the sets of keys one of which marks
    the format; ``marks`` replaces them where a record's keys alone do not tell. ``columns``, where there is one,
    does for several records at once what ``rows`` does for each, or returns ``None`` where one of them is special.
    """

    name: str
    record: type[msgspec.Struct]
    rows: Callable[[Any], Iterable[Row]]
    keys: tuple[tuple[str, ...], ...]
    marks: Callable[[dict[str, Any]], bool] | None = None
    columns: Callable[[list[Any]], Columns | None] | None = None

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
        together = _Together(decoder, self.columns if route_of is None else None)
        for stretch in stretches(file.stream):
            rest: Stretch | None = stretch
            while rest is not None:
                piece, rest = rest.parted(CHUNK_BYTES - builder.size_bytes, ROWS_AT_ONCE)
                columns = together.columns(piece)
                if columns is not None:
                    builder.extend(columns, piece)
                for line in () if columns is not None else piece.lines():
                    for entry in _entries(line, decoder):
                        builder.repaired.update(entry.repairs)
                        self._add(builder, entry.line, entry.fault or entry.record, route_of)
                        if builder.size_bytes >= CHUNK_BYTES:
                            yield builder.chunk()
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


class _Together:
    """Takes records by column where it can. One that is special keeps its neighbours from it, and others follow it."""

    MOST_SKIPPED = 63

    def __init__(
        self, decoder: msgspec.json.Decoder[Any], columns_of: Callable[[list[Any]], Columns | None] | None
    ) -> None:
        self._decoder = decoder
        self._columns_of = columns_of
        self._failures = 0
        self._skipped = 0

    def columns(self, lines: Stretch) -> Columns | None:
        """Return the requests of these lines by column, ``None`` where they have to be read one by one."""
        if self._columns_of is None or len(lines.ends) < 2:
            return None
        if self._skipped < self._failures:
            self._skipped += 1
            return None
        records = _records(lines, self._decoder)
        columns = None if records is None else self._columns_of(records)
        # Tried in vain costs a second decoding: after each failure in a row twice as many are left alone.
        self._failures = min(2 * self._failures + 1, self.MOST_SKIPPED) if columns is None else 0
        self._skipped = 0
        return columns


def _entries(line: Line, decoder: msgspec.json.Decoder[Any]) -> Iterator[Mended]:
    """Yield what a line holds: its record, or what ``mended`` makes of it."""
    try:
        record = decode(line, decoder)
    except Rejected as fault:
        yield from mended(line, fault, decoder)
    else:
        yield Mended(line, record)


def _records(lines: Stretch, decoder: msgspec.json.Decoder[Any]) -> list[Any] | None:
    """Return one record per line, ``None`` where a line holds anything else."""
    if len(lines.data) > MAX_LINE_BYTES or not lines.holds_objects():
        return None
    try:
        records = decoder.decode_lines(lines.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return records if len(records) == len(lines.ends) else None


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
