"""Members of the groups of a warm-up set, found again in the log that it was built from."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from kvtools.errors import InputError
from kvtools.flow.warmup_lines import as_members
from kvtools.readers import ReadOptions, discard_spool, find_inputs, read
from kvtools.table import text_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

    from kvtools.readers import FileTally
    from kvtools.warmup.lines import Member

    Place = tuple[str, str | None]

_ABOUT_PLACE = ("model", "cache_salt")
"""What a member shares with its line besides the prompt."""


def members_in(
    paths: Sequence[str], wanted: Mapping[str, Place], input_format: str | None
) -> dict[str, Member]:
    """Return the member of each line, by the line's id; ``wanted``: file and line, and id, of each member.

    Raises:
        InputError: the log cannot be read, or a member is not in it.
    """
    by_place: dict[Place, list[str]] = {}
    for line, place in wanted.items():
        by_place.setdefault(place, []).append(line)
    found: dict[str, Member] = {}
    for table in _tables(paths, input_format):
        rows = [(row, lines) for row, place in enumerate(_places(table)) if (lines := by_place.get(place))]
        members = as_members(table, [row for row, _ in rows], [False] * len(rows))
        found |= {line: member for (_, lines), member in zip(rows, members, strict=True) for line in lines}
    missing = [line for line in wanted if line not in found]
    if missing:
        raise InputError(
            f"{paths[0]}: the member of {missing[0]} ({wanted[missing[0]][0]}) is not in it, nor {len(missing) - 1:,} "
            "others: give --members the log that the set was built from."
        )
    return found


def body_of(member: Member, line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request that asks for a member as its ``line`` was asked for: its model, its salt, one token."""
    shared = {name: line[name] for name in _ABOUT_PLACE if name in line}
    return shared | member.body() | {"max_tokens": 1, "temperature": 0}


def _tables(paths: Sequence[str], input_format: str | None) -> Iterator[pd.DataFrame]:
    log = find_inputs(list(paths), input_format)
    tallies: list[FileTally] = []
    try:
        for chunk in read(log, ReadOptions(), tallies):
            yield chunk.requests
    finally:
        discard_spool(log)


def _places(table: pd.DataFrame) -> list[Place]:
    sources, names = text_column(table, "source"), text_column(table, "request_id")
    return [(PurePath(source or "").name, name) for source, name in zip(sources, names, strict=True)]
