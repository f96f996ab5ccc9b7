"""The request table as a parquet file: every column, zstd, one row group per chunk."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kvtools.table import SCHEMA, arrow_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd


class _Outlet(io.RawIOBase):
    """Takes what the parquet writer writes, which only ever appends, and hands it on."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def taken(self) -> bytes:
        """Return what was written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class ParquetWriter:
    """Holds every column, so that nothing is lost."""

    name: str = "parquet"
    columns: frozenset[str] = frozenset(SCHEMA.names)

    def write(self, tables: Iterable[pd.DataFrame]) -> Iterator[bytes]:
        """Yield the file: its bytes so far after every table, the footer at last."""
        outlet = _Outlet()
        # pandas' own metadata would make its readers rebuild an index and lose the list columns' types.
        with pq.ParquetWriter(outlet, SCHEMA, compression="zstd") as file:
            for table in tables:
                arrays = [arrow_column(table, name) for name in SCHEMA.names]
                file.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA))
                yield outlet.taken()
        yield outlet.taken()


PARQUET = ParquetWriter()
