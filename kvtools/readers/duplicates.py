"""The same call logged twice: equal request id *and* equal prompt. Equal content alone is real traffic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.table import arrow_column, present, text_column

if TYPE_CHECKING:
    import pandas as pd

    from kvtools.readers.base import Chunk


@dataclass(slots=True)
class Deduplicator:
    """Drops calls that an earlier chunk, or an earlier row, held already."""

    _seen: set[int] = field(default_factory=set)

    def first_time(self, chunk: Chunk) -> tuple[Chunk, int]:
        """Return the chunk without repeated calls, and how many were dropped. A request without id is kept."""
        table = chunk.requests
        keep = np.ones(len(table), dtype=np.bool_)
        for row, call in enumerate(_calls(table)):
            if call is None:
                continue
            keep[row] = call not in self._seen
            self._seen.add(call)
        dropped = int(len(keep) - keep.sum())
        if not dropped:
            return chunk, 0
        return replace(chunk, requests=table[keep].reset_index(drop=True)), dropped


def _calls(table: pd.DataFrame) -> list[int | None]:
    """Return a hash of id and prompt per request, ``None`` where it has no id.

    Python's own: it stays in this process, and takes half the time of a digest that would mean something outside.
    """
    content = [text_column(table, name) for name in ("messages", "prompt")]
    content += [_lists(table, name) for name in ("token_ids", "block_keys") if present(table, name).any()]
    return [
        None if own_id is None else hash((own_id, next((p for p in parts if p is not None), "")))
        for own_id, *parts in zip(text_column(table, "request_id"), *content, strict=True)
    ]


def _lists(table: pd.DataFrame, name: str) -> list[str | None]:
    return [None if values is None else str(values) for values in arrow_column(table, name).to_pylist()]
