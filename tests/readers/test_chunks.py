"""Rows to columns: whatever the rows name, and however many there are."""

from __future__ import annotations

import pytest

from kvtools.readers.base import ChunkBuilder, ReadOptions, Row
from kvtools.table import SCHEMA, arrow_column, check

COUNT = 1_000
"""More rows than wait at once."""


def columns(rows: list[Row]) -> dict[str, list[object]]:
    builder = ChunkBuilder("log", ReadOptions())
    for number, row in enumerate(rows, 1):
        builder.add(dict(row), number)
    table = builder.chunk().requests
    check(table)
    for name in SCHEMA.names:
        arrow_column(table, name).validate(full=True)
    assert len(builder.chunk().requests) == 0
    return {name: arrow_column(table, name).to_pylist() for name in SCHEMA.names}


@pytest.mark.parametrize("first", [0, 1, 63, 64, 65, COUNT - 1])
@pytest.mark.parametrize("name", ["messages", "prompt"])
def test_a_column_that_only_later_rows_name(name: str, first: int) -> None:
    texts = [f"é{row}" for row in range(COUNT)]
    found = columns([{} if row < first else {name: texts[row]} for row in range(COUNT)])
    assert found[name] == [None] * first + texts[first:]
    assert found["source"] == [f"log:{row}" for row in range(1, COUNT + 1)]


def test_messages_as_text_as_bytes_empty_and_missing() -> None:
    kinds = ["é", "é".encode(), "", b"", None]
    found = columns([{"messages": kinds[row % 5]} for row in range(COUNT)])
    assert found["messages"] == ["é", "é", "", "", None] * (COUNT // 5)


def test_no_rows() -> None:
    assert columns([]) == {name: [] for name in SCHEMA.names}
