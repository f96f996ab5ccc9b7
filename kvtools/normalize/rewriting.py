"""Apply moves and byte forms to requests. What a text becomes depends on that text alone: history stays equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvtools.fields.sections import FLAT, with_texts
from kvtools.normalize.hoist import Moved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.normalize.forms import OneForm
    from kvtools.normalize.hoist import Moves, Reason

MEMO_TEXTS = 4096
"""Texts whose rewriting is kept: one system prompt stands in many requests."""


@dataclass(slots=True)  # not frozen: one is made for each text, and a frozen one takes three times as long
class Rewritten:
    """What became of one text.

    ``text`` is what is sent; ``formed`` is the text in its one byte form; ``moved`` says which values left it, by
    which ``moves``; ``refused`` why values that should move stay.
    """

    formed: str
    moves: Moves | None = None
    moved: Moved | None = None
    refused: Reason | None = None
    text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.text = self.formed if self.moved is None else self.moved.text


@dataclass(slots=True)
class Rewriting:
    """Moves and byte forms, each for the sections of its role."""

    moves: Sequence[Moves] = ()
    forms: Sequence[OneForm] = ()
    _memo: dict[tuple[str, str], str] = field(default_factory=dict)
    _of_role: dict[str, list[tuple[str, str, Moves]]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for moves in self.moves:
            template = moves.template
            ends = template.literals[0], template.literals[-1], moves
            self._of_role.setdefault(template.role, []).append(ends)

    @property
    def roles(self) -> frozenset[str]:
        """The sections in which anything can change."""
        return frozenset(moves.template.role for moves in self.moves) | {form.role for form in self.forms}

    def text(self, role: str, text: str) -> str:
        """Return the section's text rewritten; as it is where nothing fits."""
        known = self._memo.get((role, text))
        if known is None:
            known = self.rewritten(role, text).text
            if len(self._memo) >= MEMO_TEXTS:
                self._memo.clear()
            self._memo[role, text] = known
        return known

    def messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """Return the messages rewritten, ``None`` where nothing changes."""
        return with_texts(messages, self.text)

    def prompt(self, prompt: str) -> str | None:
        """Return a flat prompt rewritten, ``None`` where nothing changes."""
        rewritten = self.text(FLAT, prompt)
        return None if rewritten == prompt else rewritten

    def rewritten(self, role: str, text: str) -> Rewritten:
        """Return what becomes of a section's text, and how."""
        for form in self.forms:
            if form.role == role:
                text = form.apply(text)
        refused: Reason | None = None
        for first, last, moves in self._of_role.get(role, ()):
            # Most texts are made from none or one of many templates: their ends tell it at once.
            if text.startswith(first) and text.endswith(last):
                moved = moves.moved(text)
                if isinstance(moved, Moved):
                    return Rewritten(text, moves, moved)
                refused = refused or moved
        return Rewritten(text, refused=refused)
