"""What replaces the JSON string of a text that changes, made of the string's own bytes wherever they stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.normalize.hoist import BLOCK_GAP
from kvtools.normalize.json_text import end_of, style_of
from kvtools.normalize.splicing import joined, restored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvtools.normalize.hoist import Moved
    from kvtools.normalize.places import Place
    from kvtools.normalize.rewriting import Rewritten
    from kvtools.normalize.splicing import Piece

_GAP = BLOCK_GAP.replace("\n", "\\n").encode()

_Span = tuple[bool, int, int, int, int]
"""A piece of a moved text (in the block? from, to), and from where to where it stands in the logged string."""

Stretch = tuple[int, int, int]
"""Which replacement (its place in the list), and from which of its bytes to which."""


@dataclass(slots=True)
class Swap:
    """A stretch of the logged line, and what replaces it.

    ``back`` gives the stretch again: text, or stretches of this or another replacement. ``text`` is what the new
    string must say, ``role`` the section in which the rewriting must not change it again; ``None``: nothing to check.
    """

    begin: int
    end: int
    data: bytes
    back: list[Stretch | str]
    text: str | None = None
    role: str | None = None


@dataclass(slots=True)
class _Written:
    """A moved text in bytes: the insides of two strings, and the pieces that give the logged one (in the block?)."""

    head: bytes
    block: bytes
    pieces: list[tuple[bool, int, int]]


def written(raw: bytes, text: str, one: Rewritten) -> tuple[bytes, tuple[Piece, ...]]:
    """Return the string that replaces ``raw``, which says ``text``, and the stretches of it that give ``raw`` again."""
    data = quoted(raw, text, one.text)
    if one.moved is None or one.formed != text:
        return data, (raw.decode(),)
    back = stretches(one.moved, style_of(raw, text), len(data))
    if restored(data, back) == raw:
        return data, back
    # The log has escapes of its own: its bytes are taken over, not written anew.
    moved = _written(raw, text, one.moved)
    if moved is None:
        return data, (raw.decode(),)
    data = b"".join((b'"', moved.head, _GAP, moved.block, b'"'))
    behind = 1 + len(moved.head) + len(_GAP)
    pieces = ((at + (behind if late else 1), end + (behind if late else 1)) for late, at, end in moved.pieces)
    last = len(data)
    return data, joined(((0, 1), *pieces, (last - 1, last)))


def stretches(moved: Moved, style: Callable[[str], bytes], length: int) -> tuple[tuple[int, int], ...]:
    """Return where the pieces of the logged text stand in a new string of ``length`` bytes, quotes included."""
    block = length - 1 - len(style(moved.block))
    ends = block - len(_GAP)
    found = [(0, 1)]
    at, done = 1, 0
    for behind, begin, end in moved.pieces:
        if behind:
            start = block + len(style(moved.block[:begin]))
            until = start + len(style(moved.block[begin:end]))
        else:
            start = at + len(style(moved.head[done:begin]))
            # The last piece is most of the text: it need not be written to know where it ends.
            until = ends if end == len(moved.head) else start + len(style(moved.head[begin:end]))
            at, done = until, end
        found.append((start, until))
    found.append((length - 1, length))
    return joined(found)


def quoted(raw: bytes, text: str, new: str) -> bytes:
    """Return a string that says ``new``, written as ``raw`` says ``text``."""
    return b'"' + style_of(raw, text)(new) + b'"'


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
    moved = _written(raw, place.text, one.moved)
    if moved is None:
        return None
    late = len(behind) - 1 + len(_GAP)
    back: list[Stretch | str] = [
        (1, at + late, end + late) if in_block else (0, at + 1, end + 1) for in_block, at, end in moved.pieces
    ]
    head, block = b'"' + moved.head + b'"', behind[:-1] + _GAP + moved.block + b'"'
    return [
        Swap(
            *place.span(), head, [(0, 0, 1), *back, (0, len(head) - 1, len(head))], one.moved.head, "system"
        ),
        Swap(
            *user.span(),
            block,
            [(1, 0, len(behind) - 1), (1, len(block) - 1, len(block))],
            user.text + BLOCK_GAP + one.moved.block,
            "user",
        ),
    ]


def _written(raw: bytes, text: str, moved: Moved) -> _Written | None:
    """Return a moved text in the bytes of its logged string, ``None`` where that has escapes of its own."""
    style = style_of(raw, text)
    spans: list[_Span] = []
    at, last = 1, len(raw) - 1
    for behind, begin, end in moved.pieces:
        if len(spans) + 1 == len(moved.pieces):
            until: int | None = last  # the longest piece most times: it need not be looked at
        else:
            until = end_of(raw, at, (moved.block if behind else moved.head)[begin:end], style)
        if until is None:
            return None
        spans.append((behind, begin, end, at, until))
        at = until
    head, in_head = _side(raw, moved.head, [span for span in spans if not span[0]], style)
    block, in_block = _side(
        raw, moved.block, sorted({span[1]: span for span in spans if span[0]}.values()), style
    )
    return _Written(
        head, block, [(behind, *(in_block if behind else in_head)[begin]) for behind, begin, *_ in spans]
    )


def _side(
    raw: bytes, text: str, spans: Sequence[_Span], style: Callable[[str], bytes]
) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """Return head or block in bytes, and where in it each piece stands, by its first character."""
    parts: list[bytes] = []
    places: dict[int, tuple[int, int]] = {}
    done = length = 0
    for _, begin, end, first, last in spans:
        if done < begin:
            between = style(text[done:begin])
            length += len(between)
            parts.append(between)
        parts.append(raw[first:last])
        start, length = length, length + last - first
        places[begin] = start, length
        done = end
    if done < len(text):
        parts.append(style(text[done:]))
    return b"".join(parts), places
