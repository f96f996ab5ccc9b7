"""Rewrite one logged line: only the JSON strings of changed texts are replaced, every other byte stays.

What was written knows how to become what was logged: ``pieces`` are stretches of the new line, and text that it has
no more. Each rewriting is tried backwards before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from kvtools.normalize.places import TEXT, places_in
from kvtools.normalize.references import refers_to_place
from kvtools.normalize.splicing import restored, spliced, with_string
from kvtools.normalize.strings import KnownStrings
from kvtools.normalize.swaps import Swap, quoted, to_prompt_end
from kvtools.normalize.tool_forms import canonical_arguments, canonical_tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.normalize.modes import TextRewriter
    from kvtools.normalize.places import Place, Places
    from kvtools.normalize.rewriting import Rewritten
    from kvtools.normalize.splicing import Piece
    from kvtools.normalize.strings import Failed, NewString

Where = Literal["message", "prompt-end"]
"""Where values go: to the end of their own message, or behind the last user message."""


class NewLine(NamedTuple):
    """A rewritten line. ``pieces`` joined give the logged one; ``sections`` say what became of each changed text.

    ``reasons`` say why other texts of it stay.
    """

    data: bytes
    pieces: tuple[Piece, ...]
    sections: tuple[tuple[Place, Rewritten], ...]
    reasons: tuple[str, ...] = ()
    requests: int = 1


class Kept(NamedTuple):
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
    _roles: frozenset[str] | None = field(init=False, compare=False, repr=False)
    _strings: KnownStrings = field(init=False, compare=False, repr=False)
    _texts_only: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_roles", self.rewriting.roles)
        object.__setattr__(self, "_strings", KnownStrings(self.rewriting))
        alone = self.where == "message" and not (self.tool_order or self.argument_keys)
        object.__setattr__(self, "_texts_only", alone)

    def rewrite(self, line: bytes) -> NewLine | Kept:
        """Return the line rewritten and proven, or why it stays. ``line`` is without its line end."""
        places = places_in(line, self.log_format, self._roles)
        if places is None:
            return Kept(("not_this_format",))
        try:
            return self._rewritten(line, places)
        except msgspec.MsgspecError:
            return Kept(("not_this_format",))

    def _rewritten(self, line: bytes, places: Places) -> NewLine | Kept:
        refused: tuple[str, ...] = ()
        changed: list[tuple[Place, NewString]] = []
        for place in places.texts:
            refusal, new = self._strings.known(place)
            if new is not None:
                changed.append((place, new))
            if refusal is not None and refusal not in refused:
                refused = (*refused, refusal)
        if not changed and self._texts_only:
            return Kept(refused, places.requests)
        if any(new.moves_lines for _, new in changed) and _referred(changed, places):
            refused = (*refused, "refers_to_place")
            changed = [(place, new) for place, new in changed if not new.moves_lines]
        sections = tuple([(place, new.one) for place, new in changed])
        if self._texts_only and len(changed) == 1:
            ((place, new),) = changed
            data, pieces = with_string(line, *place.span(), new)
            failed: Failed | None = new.failed
        else:
            swaps = self._swaps(line, places, changed, sections)
            if not swaps:
                return Kept(refused, places.requests)
            data, pieces = spliced(line, swaps)
            failed = next((new.failed for _, new in changed if new.failed), None) or self._failed(swaps)
        if restored(data, pieces) != line:
            failed = "not_restored"
        if failed is not None:
            return Kept((*refused, failed), places.requests)
        return NewLine(data, pieces, sections, refused, places.requests)

    def _swaps(
        self,
        line: bytes,
        places: Places,
        changed: Sequence[tuple[Place, NewString]],
        sections: Sequence[tuple[Place, Rewritten]],
    ) -> list[Swap]:
        swaps = to_prompt_end(places.last_user(), sections) if self.where == "prompt-end" else None
        if swaps is None:
            swaps = [new.swap(place, number) for number, (place, new) in enumerate(changed)]
        where = places.tools() if self.tool_order else None
        if where is not None:
            begin, end = where
            tools = _ordered_tools(line[begin:end])
            if tools is not None:
                swaps.append(Swap(begin, end, tools, [line[begin:end].decode()]))
        for place in places.arguments() if self.argument_keys else ():
            arguments = canonical_arguments(place.text)
            if arguments is not None:
                raw = bytes(place.raw)
                swaps.append(
                    Swap(*place.span(), quoted(raw, place.text, arguments), [raw.decode()], arguments)
                )
        return swaps

    def _failed(self, swaps: Sequence[Swap]) -> Failed | None:
        """Name the check that fails: each string says what it should, twice is once."""
        for swap in swaps:
            if swap.text is not None and TEXT.decode(swap.data) != swap.text:
                return "other_texts"
            if (
                swap.role is not None
                and self.rewriting.rewritten(swap.role, swap.text or "").text != swap.text
            ):
                return "not_stable"
        return None


@lru_cache(maxsize=256)
def _ordered_tools(raw: bytes) -> bytes | None:
    """Return a list of tools in its one order; one list stands in many requests."""
    return canonical_tools(raw)


def _referred(changed: Sequence[tuple[Place, NewString]], places: Places) -> bool:
    """Tell whether a text beside the lines that move refers to their number or place."""
    moving = {place.span() for place, new in changed if new.moves_lines}
    return any(refers_to_place(place.text) for place in places.every_text() if place.span() not in moving)
