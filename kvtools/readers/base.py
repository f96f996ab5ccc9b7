"""What a reader is, and the one loop that all line-based formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kvtools.errors import InputError, UsageError
from kvtools.readers.chunks import ROWS_AT_ONCE, Chunk, ChunkBuilder, Columns, ReadOptions, Row
from kvtools.readers.lines import lines
from kvtools.readers.records import Rejected, decode, mended, sniff_records, text
from kvtools.readers.times import BadTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kvtools.readers.lines import Line
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

CHUNK_BYTES = 8 << 20
"""Decompressed bytes that one chunk holds: 64 MiB would cost 200 MB more and be no faster."""

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
        waiting: list[tuple[Line, Any]] = []
        waiting_bytes = 0
        at_once = ROWS_AT_ONCE if self.columns and route_of is None else 1
        try:
            for line in lines(file.stream):
                try:
                    record = decode(line, decoder)
                except Rejected as fault:
                    self._add_all(builder, waiting, route_of)
                    for entry in mended(line, fault, decoder):
                        builder.repaired.update(entry.repairs)
                        self._add(builder, entry.line, entry.fault or entry.record, route_of)
                        if builder.size_bytes >= CHUNK_BYTES:
                            yield builder.chunk()
                else:
                    waiting.append((line, record))
                    waiting_bytes += len(line.data)
                    if len(waiting) < at_once and builder.size_bytes + waiting_bytes < CHUNK_BYTES:
                        continue
                    self._add_all(builder, waiting, route_of)
                waiting_bytes = 0
                if builder.size_bytes >= CHUNK_BYTES:
                    yield builder.chunk()
        except InputError:
            # What was read before the file broke off may hold a reject, which ``strict`` names first.
            self._add_all(builder, waiting, route_of)
            raise
        self._add_all(builder, waiting, route_of)
        yield builder.chunk()

    def _add_all(
        self,
        builder: ChunkBuilder,
        waiting: list[tuple[Line, Any]],
        route_of: Callable[[Line], str | None] | None,
    ) -> None:
        """Add the waiting records, in their order; none is left waiting."""
        held = waiting.copy()
        waiting.clear()
        if len(held) > 1 and self.columns is not None:
            columns = self.columns([record for _, record in held])
            if columns is not None:
                builder.records += len(held)
                builder.size_bytes += sum([len(line.data) for line, _ in held])
                builder.extend(columns, [line.number for line, _ in held])
                return
        for line, record in held:
            self._add(builder, line, record, route_of)

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
