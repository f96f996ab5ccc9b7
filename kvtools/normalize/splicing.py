"""Put replacements into a line, and take them out again: the logged line in pieces of the new one."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kvtools.normalize.strings import NewString
    from kvtools.normalize.swaps import Swap

Piece = tuple[int, int] | str
"""Bytes from here to there of the new line, or text that stands in the logged line alone."""


def restored(data: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return the logged line from a rewritten one and its pieces."""
    return b"".join(
        [piece.encode() if isinstance(piece, str) else data[piece[0] : piece[1]] for piece in pieces]
    )


def with_string(line: bytes, begin: int, end: int, new: NewString) -> tuple[bytes, tuple[Piece, ...]]:
    """Return what ``spliced`` does where one string changes, as in most lines."""
    behind = begin + len(new.data)
    pieces: list[Piece] = [
        piece if isinstance(piece, str) else (begin + piece[0], begin + piece[1]) for piece in new.back
    ]
    first, last = pieces[0], pieces[-1]
    total = behind + len(line) - end
    if isinstance(first, str) or isinstance(last, str):
        return line[:begin] + new.data + line[end:], ((0, begin), *pieces, (behind, total))
    # The string keeps its quotes, with which what stands around it goes on.
    pieces[0] = 0, first[1]
    pieces[-1] = last[0], total
    return line[:begin] + new.data + line[end:], tuple(pieces)


def joined(pieces: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the stretches, neighbours as one and empty ones left out."""
    found: list[tuple[int, int]] = []
    start = last = 0
    for begin, end in pieces:
        if begin != last:
            if start < last:
                found.append((start, last))
            start = begin
        last = end
    if start < last:
        found.append((start, last))
    return tuple(found)


def spliced(line: bytes, swaps: Sequence[Swap]) -> tuple[bytes, tuple[Piece, ...]]:
    """Return the line with its replacements, and the pieces that give the logged one."""
    order = sorted(swaps, key=attrgetter("begin")) if len(swaps) > 1 else swaps
    parts: list[bytes] = []
    starts: dict[int, int] = {}
    at = done = 0
    for swap in order:
        at += swap.begin - done
        starts[id(swap)] = at
        parts += (line[done : swap.begin], swap.data)
        at += len(swap.data)
        done = swap.end
    parts.append(line[done:])
    begins = [starts[id(swap)] for swap in swaps]
    pieces: list[Piece] = []
    behind = 0  # where what stays in front of the next replacement begins, in the new line
    for swap in order:
        start = starts[id(swap)]
        _append(pieces, behind, start)
        for piece in swap.back:
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                begin = begins[piece[0]]
                _append(pieces, begin + piece[1], begin + piece[2])
        behind = start + len(swap.data)
    _append(pieces, behind, at + len(line) - done)
    return b"".join(parts), tuple(pieces)


def _append(pieces: list[Piece], begin: int, end: int) -> None:
    last = pieces[-1] if pieces else ""
    if not isinstance(last, str) and last[1] == begin:
        pieces[-1] = last[0], end
    elif begin < end:
        pieces.append((begin, end))
