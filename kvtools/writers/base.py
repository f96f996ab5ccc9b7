"""What a writer is, and the one loop that all line-based formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from kvtools.table import SCHEMA, arrow_column, present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pandas as pd

Row = dict[str, Any]
"""One request: the columns that are not NA."""

_ROWS_AT_ONCE = 1_000


class Writer(Protocol):
    """One log format. ``columns`` are those of the request table that it can hold."""

    @property
    def name(self) -> str:
        """The name for ``--output-format``."""

    @property
    def columns(self) -> frozenset[str]:
        """The columns that come back when a reader reads what was written."""

    def write(self, tables: Iterable[pd.DataFrame]) -> Iterator[bytes]:
        """Yield the file piece by piece."""


@dataclass(frozen=True, slots=True)
class JsonLinesWriter:
    """A format of one JSON object per line; ``record`` makes it of a row and of the row's number in the file."""

    name: str
    columns: frozenset[str]
    record: Callable[[Row, int], dict[str, Any]]

    def write(self, tables: Iterable[pd.DataFrame]) -> Iterator[bytes]:
        """Yield one line per request, its line feed included."""
        encode = msgspec.json.Encoder().encode
        number = 0
        for table in tables:
            for row in rows(table, self.columns):
                number += 1
                yield encode(self.record(row, number)) + b"\n"


def rows(table: pd.DataFrame, columns: Iterable[str]) -> Iterator[Row]:
    """Yield the requests of ``table``, each with those of ``columns`` that it sets."""
    held = {name: arrow_column(table, name) for name in columns}
    # By stretches: as Python objects the ids of a whole chunk would take many times its bytes.
    for start in range(0, len(table), _ROWS_AT_ONCE):
        lists = {name: column.slice(start, _ROWS_AT_ONCE).to_pylist() for name, column in held.items()}
        for values in zip(*lists.values(), strict=True):
            yield {name: value for name, value in zip(lists, values, strict=True) if value is not None}


def lost_columns(writer: Writer, table: pd.DataFrame) -> list[str]:
    """Return the columns that hold a value in ``table`` and have no place in the format, in the table's order."""
    kept = writer.columns | {"source"}
    return [name for name in SCHEMA.names if name not in kept and present(table, name).any()]
