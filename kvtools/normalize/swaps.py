"""What replaces the JSON string of a text that changes, made of the string's own bytes wherever they stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.normalize.hoist import BLOCK_GAP
from kvtools.normalize.json_text import end_of, style_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvtools.normalize.hoist import Moved
    from kvtools.normalize.places import Place
    from kvtools.normalize.rewriting import Rewritten

_GAP = BLOCK_GAP.replace("\n", "\\n").encode()

Stretch = tuple[int, int, int]
"""Which replacement (its place in the list), and from which of its bytes to which."""


@dataclass(slots=True)
class Swap:
    """A stretch of the logged line, and what replaces it.

    ``back`` gives the stretch again: text, or stretches of this or another replacement. ``text`` is what the new
    string says, ``None`` where it is no string.
    """

    begin: int
    end: int
    data: bytes
    back: list[Stretch | str]
    text: str | None = None


@dataclass(slots=True)
class _Written:
    """A moved text in bytes: the insides of two strings, and the pieces that give the logged one (in the block?)."""

    head: bytes
    block: bytes
    pieces: list[tuple[bool, int, int]]


def text_swap(place: Place, one: Rewritten, number: int) -> Swap:
    """Return the swap of one text; it is ``number`` in the list of all."""
    raw = bytes(place.raw)
    written = None if one.moved is None or one.formed != place.text else _written(raw, one.moved)
    if written is None:
        return replaced(place, one.text)
    data = b"".join((b'"', written.head, _GAP, written.block, b'"'))
    behind = 1 + len(written.head) + len(_GAP)
    back = [
        (number, at + (behind if late else 1), end + (behind if late else 1))
        for late, at, end in written.pieces
    ]
    last = len(data)
    return Swap(*place.span(), data, [(number, 0, 1), *back, (number, last - 1, last)], one.text)


def replaced(place: Place, text: str) -> Swap:
    """Return the swap of a string by another text; the logged one is kept beside."""
    raw = bytes(place.raw)
    return Swap(*place.span(), b'"' + style_of(raw)(text) + b'"', [raw.decode()], text)


def to_prompt_end(user: Place | None, changed: Sequence[tuple[Place, Rewritten]]) -> list[Swap] | None:
    """Return the swaps that put the values of a system text behind the last user message, or ``None``.

    Only where nothing else changes in the line, and both strings are written alike.
    """
    if user is None or len(changed) != 1:
        return None
    ((place, one),) = changed
    raw, behind = bytes(place.raw), bytes(user.raw)
    if one.moved is None or place.role != "system" or one.formed != place.text:
        return None
    written = _written(raw, one.moved)
    if written is None:
        return None
    late = len(behind) - 1 + len(_GAP)
    back: list[Stretch | str] = [
        (1, at + late, end + late) if in_block else (0, at + 1, end + 1)
        for in_block, at, end in written.pieces
    ]
    head, block = b'"' + written.head + b'"', behind[:-1] + _GAP + written.block + b'"'
    return [
        Swap(*place.span(), head, [(0, 0, 1), *back, (0, len(head) - 1, len(head))], one.moved.head),
        Swap(
            *user.span(),
            block,
            [(1, 0, len(behind) - 1), (1, len(block) - 1, len(block))],
            user.text + BLOCK_GAP + one.moved.block,
        ),
    ]


def _written(raw: bytes, moved: Moved) -> _Written | None:
    """Return a moved text in the bytes of its logged string, ``None`` where that has escapes of its own."""
    style = style_of(raw)
    spans = _spans(raw, moved, style)
    if spans is None:
        return None
    head, in_head = _side(raw, moved.head, spans, style, behind=False)
    block, in_block = _side(raw, moved.block, spans, style, behind=True)
    pieces = [(piece[0], *(in_block if piece[0] else in_head)[piece[1]]) for piece in moved.pieces]
    return _Written(head, block, pieces)


def _spans(
    raw: bytes, moved: Moved, style: Callable[[str], bytes]
) -> dict[tuple[bool, int, int], tuple[int, int]] | None:
    """Return where each piece of the logged text stands in its string."""
    at, spans = 1, {}
    for number, piece in enumerate(moved.pieces):
        behind, begin, end = piece
        if number + 1 == len(moved.pieces):
            until: int | None = len(raw) - 1  # the longest piece most times: it need not be looked at
        else:
            until = end_of(raw, at, (moved.block if behind else moved.head)[begin:end], style)
        if until is None:
            return None
        spans[piece] = at, until
        at = until
    return spans


def _side(
    raw: bytes,
    text: str,
    spans: dict[tuple[bool, int, int], tuple[int, int]],
    style: Callable[[str], bytes],
    *,
    behind: bool,
) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """Return head or block in bytes, and where in it each piece stands, by its first character."""
    parts: list[bytes] = []
    places: dict[int, tuple[int, int]] = {}
    done = length = 0
    for (_, begin, end), (first, last) in sorted(item for item in spans.items() if item[0][0] == behind):
        between = style(text[done:begin])
        length += len(between)
        places[begin] = length, length + last - first
        length += last - first
        parts += (between, raw[first:last])
        done = end
    parts.append(style(text[done:]))
    return b"".join(parts), places
