"""Bytes to lines: split at line feeds only, with a limit on the length of one line.

``str.splitlines`` would also split at U+2028 and others, which are valid inside a JSON string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.readers.sources import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedIOBase

MAX_LINE_BYTES = 32 << 20
"""A longer line is rejected unread: 32 MiB are about ten million tokens, more than any model takes."""

_BOM = b"\xef\xbb\xbf"


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line without its end. ``fault`` names why it cannot be read (``None``: it can); ``number`` counts from 1."""

    number: int
    data: bytes
    fault: str | None = None
    complete: bool = True


def lines(stream: BufferedIOBase, limit: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Yield the lines of ``stream``; blank ones are left out but counted in ``number``.

    A line over ``limit`` bytes is yielded empty with the fault ``line_too_long``; where a compressed
    stream breaks off, a last line carries the fault ``damaged_stream``. The last line is ``complete``
    only when it ends in a line feed.
    """
    number = 0
    begun = bytearray()
    while True:
        try:
            # As much as the stream itself buffers: a larger read of a damaged one would lose more before the damage.
            block = stream.read1()
        except DAMAGED:
            yield Line(number + 1, b"", "damaged_stream")
            return
        *ended, rest = block.split(b"\n") if block else (b"", b"")
        if ended and begun:
            begun += ended[0]
            ended[0] = bytes(begun)
            begun.clear()
        for data in ended:
            number += 1
            if len(data) > limit:
                yield Line(number, b"", "line_too_long")
            elif stripped := (data.removeprefix(_BOM) if number == 1 else data).strip():
                yield Line(number, stripped, complete=bool(block))
        if not block:
            return
        begun += rest
        del begun[limit + 1 :]  # enough to see that the line is too long
