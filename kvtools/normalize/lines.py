"""Rewrite one logged line: only the JSON strings of changed texts are replaced, every other byte stays.

What was written knows how to become what was logged: ``pieces`` are stretches of the new line, and text that it has
no more. Each rewriting is tried backwards before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvtools.normalize.hoist import BLOCK_GAP, Moved
from kvtools.normalize.json_text import byte_offsets, style_of, utf8
from kvtools.normalize.places import Place, places_in
from kvtools.normalize.references import refers_to_place
from kvtools.normalize.tool_forms import canonical_arguments, canonical_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvtools.normalize.modes import TextRewriter
    from kvtools.normalize.places import Places
    from kvtools.normalize.rewriting import Rewritten

Piece = tuple[int, int] | str
"""Bytes from here to there of the new line, or text that stands in the logged line alone."""

Where = Literal["message", "prompt-end"]
"""Where values go: to the end of their own message, or behind the last user message."""

Changed = Literal["not_restored", "not_stable", "other_texts"]
"""Which check at run time a rewriting failed."""


@dataclass(frozen=True, slots=True)
class NewLine:
    """A rewritten line. ``pieces`` joined give the logged one; ``sections`` say what became of each changed text.

    ``reasons`` say why other texts of it stay.
    """

    data: bytes
    pieces: tuple[Piece, ...]
    sections: tuple[tuple[Place, Rewritten], ...]
    reasons: tuple[str, ...] = ()
    requests: int = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """A line that stays as it is, and why: nothing to change (no reasons), or what could not be done."""

    reasons: tuple[str, ...] = ()
    requests: int = 1


@dataclass(slots=True)
class _Swap:
    """A stretch of the logged line and what replaces it.

    ``back`` gives the stretch again: text, or stretches of this or another replacement (its place in the list).
    """

    begin: int
    end: int
    data: bytes
    back: list[tuple[int, int, int] | str]


@dataclass(frozen=True, slots=True)
class LineRewriter:
    """A rewriting, for the lines of one format."""

    rewriting: TextRewriter
    log_format: str
    where: Where = "message"
    tool_order: bool = False
    argument_keys: bool = False

    def rewrite(self, line: bytes) -> NewLine | Kept:
        """Return the line rewritten and proven, or why it stays. ``line`` is without its line end."""
        places = places_in(line, self.log_format)
        if places is None:
            return Kept(("not_this_format",))
        sections = [(place, self.rewriting.rewritten(place.role, place.text)) for place in places.texts]
        refused = tuple(dict.fromkeys(one.refused for _, one in sections if one.refused))
        if any(_moves_lines(one) for _, one in sections) and _referred(sections):
            refused = (*refused, "refers_to_place")
            sections = [(place, one) for place, one in sections if not _moves_lines(one)]
        changed = [(place, one) for place, one in sections if one.text != place.text]
        swaps = self._swaps(line, places, changed)
        if not swaps:
            return Kept(refused, places.requests)
        new = _spliced(line, swaps)
        failed = self._failed(line, new, {place.begin: one for place, one in changed}, places)
        if failed:
            return Kept((*refused, failed), places.requests)
        return NewLine(new.data, new.pieces, tuple(changed), refused, places.requests)

    def _swaps(self, line: bytes, places: Places, changed: Sequence[tuple[Place, Rewritten]]) -> list[_Swap]:
        swaps = _to_prompt_end(line, places, changed) if self.where == "prompt-end" else None
        if swaps is None:
            swaps = [_text_swap(line, place, one, number) for number, (place, one) in enumerate(changed)]
        if self.tool_order and places.tools:
            begin, end = places.tools
            tools = canonical_tools(line[begin:end])
            if tools is not None:
                swaps.append(_Swap(begin, end, tools, [line[begin:end].decode()]))
        for place in places.arguments if self.argument_keys else ():
            arguments = canonical_arguments(place.text)
            if arguments is not None:
                swaps.append(_replaced(line, place, arguments))
        return swaps

    def _failed(
        self, line: bytes, new: NewLine, changed: dict[int, Rewritten], places: Places
    ) -> Changed | None:
        if restored(new.data, new.pieces) != line:
            return "not_restored"
        again = places_in(new.data, self.log_format)
        if again is None or len(again.texts) != len(places.texts):
            return "other_texts"
        for before, after in zip(places.texts, again.texts, strict=True):
            one = changed.get(before.begin)
            told = before.text if one is None else one.text
            if self.where == "message" and (before.role, told) != (after.role, after.text):
                return "other_texts"
            if one is not None and self.rewriting.rewritten(after.role, after.text).text != after.text:
                return "not_stable"
        return None


def restored(data: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return the logged line from a rewritten one and its pieces."""
    return b"".join(
        piece.encode() if isinstance(piece, str) else data[piece[0] : piece[1]] for piece in pieces
    )


def _moves_lines(one: Rewritten) -> bool:
    return one.moves is not None and any(
        one.moves.template.gaps[gap].shape == "section" for gap in one.moves.gaps
    )


def _referred(sections: Sequence[tuple[Place, Rewritten]]) -> bool:
    """Tell whether a text beside the lines that move refers to their number or place."""
    return any(refers_to_place(place.text) for place, one in sections if not _moves_lines(one))


def _text_swap(line: bytes, place: Place, one: Rewritten, number: int) -> _Swap:
    raw = line[place.begin : place.end]
    style = style_of(raw, place.text) if one.moved is not None and one.formed == place.text else None
    if style is None or one.moved is None:
        return _replaced(line, place, one.text)
    head, block = style(one.moved.head), style(one.moved.block)
    behind = 1 + len(head) + len(style(BLOCK_GAP))
    data = b'"' + head + style(BLOCK_GAP) + block + b'"'
    back = _stretches(one.moved, style, (head, block), ((number, 1), (number, behind)))
    return _Swap(place.begin, place.end, data, [(number, 0, 1), *back, (number, len(data) - 1, len(data))])


def _replaced(line: bytes, place: Place, text: str) -> _Swap:
    raw = line[place.begin : place.end]
    style = style_of(raw, place.text) or utf8
    return _Swap(place.begin, place.end, b'"' + style(text) + b'"', [raw.decode()])


def _stretches(
    moved: Moved,
    style: Callable[[str], bytes],
    encoded: tuple[bytes, bytes],
    origins: tuple[tuple[int, int], tuple[int, int]],
) -> list[tuple[int, int, int] | str]:
    """Return the pieces of a moved text as bytes; head and block begin at ``origins`` (which swap, byte in it)."""
    texts = (moved.head, moved.block)
    offsets = [
        byte_offsets(
            texts[behind],
            [cut for piece in moved.pieces if piece[0] == bool(behind) for cut in piece[1:]],
            style,
            encoded[behind],
        )
        for behind in (0, 1)
    ]
    out: list[tuple[int, int, int] | str] = []
    for behind, begin, end in moved.pieces:
        swap, at = origins[behind]
        out.append((swap, at + offsets[behind][begin], at + offsets[behind][end]))
    return out


def _to_prompt_end(
    line: bytes, places: Places, changed: Sequence[tuple[Place, Rewritten]]
) -> list[_Swap] | None:
    """Return the swaps that put the values of a system text behind the last user message, or ``None``.

    Only where nothing else changes in the line, and both texts are written in one style.
    """
    user = places.last_user()
    if user is None or len(changed) != 1:
        return None
    ((place, one),) = changed
    style = style_of(line[place.begin : place.end], place.text)
    if one.moved is None or place.role != "system" or one.formed != place.text or style is None:
        return None
    raw = line[user.begin : user.end]
    head, block = style(one.moved.head), style(one.moved.block)
    behind = len(raw) - 1 + len(style(BLOCK_GAP))
    back = _stretches(one.moved, style, (head, block), ((0, 1), (1, behind)))
    end = len(head) + 1
    system = _Swap(place.begin, place.end, b'"' + head + b'"', [(0, 0, 1), *back, (0, end, end + 1)])
    data = raw[:-1] + style(BLOCK_GAP) + block + b'"'
    return [system, _Swap(user.begin, user.end, data, [(1, 0, len(raw) - 1), (1, len(data) - 1, len(data))])]


def _spliced(line: bytes, swaps: Sequence[_Swap]) -> NewLine:
    order = sorted(range(len(swaps)), key=lambda number: swaps[number].begin)
    parts: list[bytes] = []
    starts = [0] * len(swaps)
    kept: list[tuple[int, int]] = []
    at = done = 0
    for number in order:
        swap = swaps[number]
        parts += (line[done : swap.begin], swap.data)
        kept.append((at, at + swap.begin - done))
        starts[number] = at + swap.begin - done
        at = starts[number] + len(swap.data)
        done = swap.end
    parts.append(line[done:])
    pieces: list[Piece] = []
    for place, number in enumerate(order):
        _append(pieces, kept[place])
        for piece in swaps[number].back:
            if isinstance(piece, str):
                _append(pieces, piece)
            else:
                start = starts[piece[0]]
                _append(pieces, (start + piece[1], start + piece[2]))
    _append(pieces, (at, at + len(line) - done))
    return NewLine(b"".join(parts), tuple(pieces), ())


def _append(pieces: list[Piece], piece: Piece) -> None:
    last = pieces[-1] if pieces else None
    if isinstance(piece, tuple) and isinstance(last, tuple) and last[1] == piece[0]:
        pieces[-1] = last[0], piece[1]
    elif isinstance(piece, str) or piece[0] < piece[1]:
        pieces.append(piece)
