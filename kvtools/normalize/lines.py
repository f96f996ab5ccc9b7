"""Rewrite one logged line: only the JSON strings of changed texts are replaced, every other byte stays.

What was written knows how to become what was logged: ``pieces`` are stretches of the new line, and text that it has
no more. Each rewriting is tried backwards before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import msgspec

from kvtools.normalize.places import TEXT, Place, places_in
from kvtools.normalize.references import refers_to_place
from kvtools.normalize.swaps import Swap, replaced, text_swap, to_prompt_end
from kvtools.normalize.tool_forms import canonical_arguments, canonical_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        try:
            return self._rewritten(line, places)
        except msgspec.MsgspecError:
            return Kept(("not_this_format",))

    def _rewritten(self, line: bytes, places: Places) -> NewLine | Kept:
        roles = self.rewriting.roles
        sections = [
            (place, self.rewriting.rewritten(place.role, place.text))
            for place in places.texts
            if roles is None or place.role in roles
        ]
        refused = tuple(dict.fromkeys(one.refused for _, one in sections if one.refused))
        if any(_moves_lines(one) for _, one in sections) and _referred(sections, places):
            refused = (*refused, "refers_to_place")
            sections = [(place, one) for place, one in sections if not _moves_lines(one)]
        changed = [(place, one) for place, one in sections if one.text != place.text]
        swaps = self._swaps(line, places, changed)
        if not swaps:
            return Kept(refused, places.requests)
        new = _spliced(line, swaps)
        failed = self._failed(line, new, swaps, changed)
        if failed:
            return Kept((*refused, failed), places.requests)
        return NewLine(new.data, new.pieces, tuple(changed), refused, places.requests)

    def _swaps(self, line: bytes, places: Places, changed: Sequence[tuple[Place, Rewritten]]) -> list[Swap]:
        swaps = to_prompt_end(places.last_user(), changed) if self.where == "prompt-end" else None
        if swaps is None:
            swaps = [text_swap(place, one, number) for number, (place, one) in enumerate(changed)]
        where = places.tools() if self.tool_order else None
        if where is not None:
            begin, end = where
            tools = _ordered_tools(line[begin:end])
            if tools is not None:
                swaps.append(Swap(begin, end, tools, [line[begin:end].decode()]))
        for place in places.arguments() if self.argument_keys else ():
            arguments = canonical_arguments(place.text)
            if arguments is not None:
                swaps.append(replaced(place, arguments))
        return swaps

    def _failed(
        self, line: bytes, new: NewLine, swaps: Sequence[Swap], changed: Sequence[tuple[Place, Rewritten]]
    ) -> Changed | None:
        """Name the check that fails: the logged line comes back, each string says what it should, twice is once."""
        if restored(new.data, new.pieces) != line:
            return "not_restored"
        if any(swap.text is not None and TEXT.decode(swap.data) != swap.text for swap in swaps):
            return "other_texts"
        for place, one in changed:
            if self.rewriting.rewritten(place.role, one.text).text != one.text:
                return "not_stable"
        return None


@lru_cache(maxsize=256)
def _ordered_tools(raw: bytes) -> bytes | None:
    """Return a list of tools in its one order; one list stands in many requests."""
    return canonical_tools(raw)


def restored(data: bytes, pieces: Sequence[Piece]) -> bytes:
    """Return the logged line from a rewritten one and its pieces."""
    return b"".join(
        piece.encode() if isinstance(piece, str) else data[piece[0] : piece[1]] for piece in pieces
    )


def _moves_lines(one: Rewritten) -> bool:
    return one.moves is not None and any(
        one.moves.template.gaps[gap].shape == "section" for gap in one.moves.gaps
    )


def _referred(sections: Sequence[tuple[Place, Rewritten]], places: Places) -> bool:
    """Tell whether a text beside the lines that move refers to their number or place."""
    moving = {id(place) for place, one in sections if _moves_lines(one)}
    return any(refers_to_place(place.text) for place in places.texts if id(place) not in moving)


def _spliced(line: bytes, swaps: Sequence[Swap]) -> NewLine:
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
