"""What a reader is, and the one loop that all line-based formats share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kvtools.errors import RejectedInput, UsageError
from kvtools.readers.lines import lines
from kvtools.readers.records import Rejected, decode, sniff_keys, text
from kvtools.readers.times import BadTime
from kvtools.table import rejects_table, request_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd

    from kvtools.readers.lines import Line
    from kvtools.readers.sources import Opened, Source

CHUNK_BYTES = 8 << 20
"""Decompressed bytes that one chunk holds: 64 MiB would cost 200 MB more and be no faster."""

Row = dict[str, Any]

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
    record that has to be rejected.
    """

    route_key: str | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A stretch of one log: the requests, the rejected records, and how many records it held in all."""

    requests: pd.DataFrame
    rejects: pd.DataFrame
    records: int

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


@dataclass(slots=True)
class _Builder:
    """The columns of the chunk that is being read."""

    source: str
    options: ReadOptions
    columns: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    rows: int = 0
    rejects: list[tuple[str, str, str]] = field(default_factory=list)
    records: int = 0
    size_bytes: int = 0

    def add(self, row: Row, line: int) -> None:
        row["source"] = f"{self.source}:{line}"
        for name, values in self.columns.items():
            if name not in row:
                values.append(None)
        for name, value in row.items():
            values = self.columns[name]
            if len(values) < self.rows:
                values.extend([None] * (self.rows - len(values)))
            values.append(value)
        self.rows += 1

    def reject(self, line: int, fault: Rejected) -> None:
        where = f"{self.source}:{line}"
        if self.options.strict:
            raise RejectedInput(f"{where}: {fault.detail}; leave out --strict to count it and read on.")
        self.rejects.append((where, fault.reason, fault.detail))

    def chunk(self) -> Chunk:
        return Chunk(request_table(self.columns, self.rows), rejects_table(self.rejects), self.records)


@dataclass(frozen=True, slots=True)
class JsonLinesReader:
    """A format of one JSON object per line.

    ``record`` is the typed struct of a line, ``rows`` turns one into the rows of the request table (it
    raises ``Rejected`` or ``BadTime`` where it cannot), ``keys`` are the sets of keys one of which marks
    the format.
    """

    name: str
    record: type[msgspec.Struct]
    rows: Callable[[Any], Iterable[Row]]
    keys: tuple[tuple[str, ...], ...]

    def sniff(self, head: bytes) -> bool:
        """Return whether most of the first lines carry one of the format's key sets."""
        return any(sniff_keys(head, wanted) for wanted in self.keys)

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:
        """Yield chunks; a line that cannot be used becomes a reject of its chunk."""
        decoder = msgspec.json.Decoder(self.record)
        route_of = _route_reader(options.route_key)
        builder = _Builder(source.name, options)
        for line in lines(file.stream):
            builder.records += 1
            builder.size_bytes += len(line.data)
            try:
                self._add(builder, line, decoder, route_of)
            except Rejected as fault:
                builder.reject(line.number, fault)
            except BadTime as fault:
                builder.reject(line.number, Rejected("bad_time", str(fault)))
            if builder.size_bytes >= CHUNK_BYTES:
                yield builder.chunk()
                builder = _Builder(source.name, options)
        yield builder.chunk()

    def _add(
        self,
        builder: _Builder,
        line: Line,
        decoder: msgspec.json.Decoder[Any],
        route_of: Callable[[Line], str | None] | None,
    ) -> None:
        rows = list(self.rows(decode(line, decoder)))
        if not any(row.get(name) is not None for row in rows for name in _PROMPT_COLUMNS):
            self._refuse_other_formats(line)
        route = {} if route_of is None else {"route": route_of(line)}
        # One record can hold several prompts; each is a request of its own.
        builder.records += len(rows) - 1
        for row in rows:
            builder.add(row | route, line.number)

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
