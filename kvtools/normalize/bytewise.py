"""Match a template on the bytes of a JSON string: its stable text is compared, only the values are read.

Most of a long prompt is its template's stable text, the same in each request. A JSON string is read escape by escape:
where pieces of it can be read one by one, together they say what it says. What is not clear from the bytes (escapes
that the log chose otherwise, several ways to cut) is no match here; the text decides then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.normalize.hoist import BLOCK_GAP, Moved
from kvtools.normalize.json_text import utf8
from kvtools.normalize.places import TEXT
from kvtools.normalize.rewriting import Rewriting, Rewritten
from kvtools.normalize.splicing import joined, restored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvtools.normalize.hoist import Moves
    from kvtools.normalize.modes import TextRewriter
    from kvtools.normalize.splicing import Piece

_GAP = utf8(BLOCK_GAP)


class ByteMoves:
    """The moves of one template, for strings with no other escapes than JSON demands."""

    def __init__(self, moves: Moves) -> None:
        """Take moves that ``fits`` accepts."""
        self.moves = moves
        literals = moves.template.literals
        written = [utf8(literal) for literal in literals]
        self._first, self._last = b'"' + written[0], written[-1] + b'"'
        self._between = list(zip(literals[1:-1], written[1:-1], strict=True))
        self._head, self._head_data = "", b""
        self._spans: dict[tuple[int, int], tuple[int, int]] = {}

    def rewritten(self, raw: bytes) -> tuple[str, Rewritten, bytes, tuple[Piece, ...]] | None:
        """Return what ``raw`` says, what becomes of it, the new string, and its stretches that give ``raw`` again.

        The new string is read again here, but for its head where that was read before. ``None``: the text decides.
        """
        values = self._values(raw)
        if values is None:
            return None
        text = self.moves.template.render(values)
        moved = self.moves.moved_values(text, values)
        if not isinstance(moved, Moved):
            return None
        if moved.head != self._head:
            self._head, self._head_data, self._spans = moved.head, utf8(moved.head), {}
            if _read(self._head_data) != moved.head:
                return None
        block = utf8(moved.block)
        data = b"".join((b'"', self._head_data, _GAP, block, b'"'))
        back = self._stretches(moved, block, len(data))
        if _read(block) != moved.block or restored(data, back) != raw:
            return None
        return text, Rewritten(text, self.moves, moved), data, back

    def _stretches(self, moved: Moved, block: bytes, length: int) -> tuple[Piece, ...]:
        """Return where the pieces of the logged text stand in a new string of ``length`` bytes, quotes included."""
        shift = length - 1 - len(block)
        plain = len(block) == len(moved.block)  # each character is one byte
        found = [(0, 1)]
        for behind, begin, end in moved.pieces:
            if not behind:
                found.append(self._spans.get((begin, end)) or self._in_head(begin, end))
            elif plain:
                found.append((begin + shift, end + shift))
            else:
                start = shift + len(utf8(moved.block[:begin]))
                found.append((start, start + len(utf8(moved.block[begin:end]))))
        found.append((length - 1, length))
        return joined(found)

    def _in_head(self, begin: int, end: int) -> tuple[int, int]:
        """Return where a piece of the head stands in the new string; the next string's head is the same most times."""
        start = 1 + len(utf8(self._head[:begin]))
        last = (
            1 + len(self._head_data) if end == len(self._head) else start + len(utf8(self._head[begin:end]))
        )
        self._spans[begin, end] = start, last
        return start, last

    def _values(self, raw: bytes) -> list[str] | None:
        """Return the values as ``SectionTemplate.match`` finds them."""
        if not (raw.startswith(self._first) and raw.endswith(self._last)):
            return None
        begin, end = len(self._first), len(raw) - len(self._last)
        values: list[str] = []
        for literal, written in self._between:
            found = raw.find(written, begin, end)
            value = _read(raw[begin:found]) if found >= 0 else None
            # The bytes may have another first place than the text, inside of an escape or behind one.
            if value is None or (value + literal).find(literal) != len(value):
                return None
            values.append(value)
            begin = found + len(written)
        value = _read(raw[begin:end]) if begin <= end else None
        return None if value is None else [*values, value]


def _read(inner: bytes) -> str | None:
    """Return what the inside of a JSON string says, ``None`` where it is none."""
    try:
        return TEXT.decode(b'"' + inner + b'"')
    except msgspec.MsgspecError:
        return None


def fits(moves: Moves) -> bool:
    """Tell whether a template can be matched on bytes: each value has its own name, and is found from the front."""
    template = moves.template
    return (
        bool(template.gaps)
        and not template.repeats
        and all(gap.shape == "field" for gap in template.gaps[:-1])
    )


def byte_moves(rewriter: TextRewriter) -> dict[str, list[ByteMoves]]:
    """Return by role the moves that can be tried on bytes in the order of all: those before the first that cannot."""
    found: dict[str, list[ByteMoves]] = {}
    if isinstance(rewriter, Rewriting):
        closed = {form.role for form in rewriter.forms}
        for moves in rewriter.moves:
            role = moves.template.role
            if not fits(moves):
                closed.add(role)
            elif role not in closed:
                found.setdefault(role, []).append(ByteMoves(moves))
    return found


def tried(every: Iterable[ByteMoves], raw: bytes) -> tuple[str, Rewritten, bytes, tuple[Piece, ...]] | None:
    """Return what the first template makes of a string, ``None`` where the text has to decide."""
    before: list[Moves] = []
    for one in every:
        done = one.rewritten(raw)
        if done is not None:
            # A template before this one may fit the text where its bytes are written otherwise.
            return None if any(moves.template.match(done[0]) is not None for moves in before) else done
        before.append(one.moves)
    return None
