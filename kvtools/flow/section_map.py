"""The section map that a trace of block ids may carry: which tokens are the system text, the tools, which message.

A line of a Mooncake-style trace may hold ``"sections": [{"name": "system", "start": 0, "end": 61}, …]`` in tokens, so
that a place can be named without any text. It is read from the lines of the few requests that are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.readers.lines import lines
from kvtools.readers.sources import opened

if TYPE_CHECKING:
    from kvtools.readers import InputLog


class TokenSection(msgspec.Struct, frozen=True):
    """Tokens ``start`` to ``end`` of the prompt, half open."""

    name: str
    start: int
    end: int


class _Mapped(msgspec.Struct):
    sections: list[TokenSection] = []


_MAPPED = msgspec.json.Decoder(_Mapped)


def section_map(log: InputLog, place: str) -> list[TokenSection]:
    """Return the sections that the line at ``place`` (``path:line``) lists, none where none can be read."""
    name, _, number = place.rpartition(":")
    for file in log.files:
        if file.source.name != name or file.reader.name != "mooncake":
            continue
        with opened(file.source) as stream:
            for line in lines(stream.stream):
                if str(line.number) == number:
                    return _sections(line.data)
    return []


def section_of_token(sections: list[TokenSection], token: int) -> str | None:
    """Return the name of the section that holds a token."""
    return next((section.name for section in sections if section.start <= token < section.end), None)


def _sections(data: bytes) -> list[TokenSection]:
    try:
        return _MAPPED.decode(data).sections
    except msgspec.DecodeError:
        return []
