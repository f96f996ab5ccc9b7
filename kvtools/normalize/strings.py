"""What becomes of one JSON string of a line, and whether that holds; the same string in a later line is known.

A system text stands in many requests, an earlier turn in every later one: they are looked up by their logged bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvtools.normalize.bytewise import byte_moves, tried
from kvtools.normalize.places import TEXT
from kvtools.normalize.swaps import Swap, written

if TYPE_CHECKING:
    from kvtools.normalize.bytewise import ByteMoves
    from kvtools.normalize.modes import TextRewriter
    from kvtools.normalize.places import Place
    from kvtools.normalize.rewriting import Rewritten
    from kvtools.normalize.splicing import Piece

MEMO_BYTES = 2 << 20
"""Logged bytes of the strings that are kept, twice at most: what is known of one is about five times its size."""

Failed = Literal["not_restored", "not_stable", "other_texts"]
"""Which check at run time a rewriting failed."""


class NewString(NamedTuple):
    """A string that replaces a logged one, quotes included; ``back`` gives that: text, or stretches of ``data``.

    ``failed`` names the check that it does not pass. ``moves_lines``: whole lines leave their place in it.
    """

    data: bytes
    back: tuple[Piece, ...]
    one: Rewritten
    failed: Failed | None = None
    moves_lines: bool = False

    def swap(self, place: Place, number: int) -> Swap:
        """Return the swap of the string at ``place``; it is ``number`` in the list of all."""
        back = [piece if isinstance(piece, str) else (number, *piece) for piece in self.back]
        return Swap(*place.span(), self.data, back)


Known = tuple["str | None", NewString | None]
"""Why a part of a string stays, and the string that replaces it (``None``: it stays as it is)."""


@dataclass(slots=True)
class KnownStrings:
    """Strings that were seen of late, by role and bytes: of two halves the older one goes when the younger is full."""

    rewriting: TextRewriter
    _late: dict[tuple[str, bytes], Known] = field(default_factory=dict)
    _early: dict[tuple[str, bytes], Known] = field(default_factory=dict)
    _bytes: int = 0
    _on_bytes: dict[str, list[ByteMoves]] = field(init=False)

    def __post_init__(self) -> None:
        self._on_bytes = byte_moves(self.rewriting)

    def known(self, place: Place) -> Known:
        """Return what becomes of a string of a line.

        Raises:
            msgspec.MsgspecError: it is no Unicode text.
        """
        raw = bytes(place.raw)
        key = place.role, raw
        known = self._late.get(key)
        if known is None:
            known = self._early.get(key) or self._made(place, raw)
            self._bytes += len(raw)
            if self._bytes > MEMO_BYTES:
                self._early, self._late, self._bytes = self._late, {}, len(raw)
            self._late[key] = known
        return known

    def _made(self, place: Place, raw: bytes) -> Known:
        role = place.role
        failed: Failed | None = None
        done = tried(self._on_bytes.get(role, ()), raw)
        if done is not None:
            _, one, data, back = done
        else:
            one = self.rewriting.rewritten(role, place.text)
            if one.text == place.text:
                return one.refused, None
            data, back = written(raw, place.text, one)
            failed = None if TEXT.decode(data) == one.text else "other_texts"
        if failed is None and self.rewriting.rewritten(role, one.text).text != one.text:
            failed = "not_stable"
        return one.refused, NewString(data, back, one, failed, one.moves is not None and one.moves.sections)
