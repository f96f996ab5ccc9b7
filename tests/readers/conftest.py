"""Read a few lines with one reader and look at plain rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kvtools.readers import FileTally, ReadOptions, find_inputs, read
from kvtools.table import SCHEMA, arrow_column, check


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file came to: per request the columns that are not NA, the rejects, and the number of records."""

    rows: list[dict[str, Any]]
    rejects: list[tuple[str, str, str]]
    records: int
    tallies: list[FileTally]

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.rejects]

    def column(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]


def read_paths(*paths: Path | str, input_format: str | None = None, **options: Any) -> Reading:
    rows: list[dict[str, Any]] = []
    rejects: list[tuple[str, str, str]] = []
    tallies: list[FileTally] = []
    records = 0
    log = find_inputs([str(path) for path in paths], input_format)
    for chunk in read(log, ReadOptions(**options), tallies):
        check(chunk.requests)
        columns = {name: arrow_column(chunk.requests, name).to_pylist() for name in SCHEMA.names}
        rows += [
            {name: values[row] for name, values in columns.items() if values[row] is not None}
            for row in range(len(chunk.requests))
        ]
        rejects += chunk.reject_rows()
        records += chunk.records
    return Reading(rows, rejects, records, tallies)


Reader: TypeAlias = Callable[..., Reading]


@pytest.fixture
def paths() -> Reader:
    """Read files: ``paths(path, …, input_format=None, route_key=None, strict=False)``."""
    return read_paths


@pytest.fixture
def lines_as(tmp_path: Path) -> Reader:
    """Read lines (text or bytes) in a named format: ``lines_as("chat-jsonl", line, …)``."""

    def read_lines(input_format: str, *lines: str | bytes, **options: Any) -> Reading:
        path = tmp_path / "log.jsonl"
        data = [line.encode() if isinstance(line, str) else line for line in lines]
        path.write_bytes(b"".join(line + b"\n" for line in data))
        return read_paths(path, input_format=input_format, **options)

    return read_lines
