"""Apply moves and byte forms to requests. What a text becomes depends on that text alone: history stays equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvtools.fields.sections import FLAT, with_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.normalize.forms import OneForm
    from kvtools.normalize.hoist import Moves

MEMO_TEXTS = 4096
"""Texts whose rewriting is kept: one system prompt stands in many requests."""


@dataclass(slots=True)
class Rewriting:
    """Moves and byte forms, each for the sections of its role."""

    moves: Sequence[Moves] = ()
    forms: Sequence[OneForm] = ()
    _memo: dict[tuple[str, str], str] = field(default_factory=dict)

    def text(self, role: str, text: str) -> str:
        """Return the section's text rewritten; as it is where nothing fits."""
        known = self._memo.get((role, text))
        if known is None:
            known = self._rewritten(role, text)
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

    def _rewritten(self, role: str, text: str) -> str:
        for form in self.forms:
            if form.role == role:
                text = form.apply(text)
        for moves in self.moves:
            if moves.template.role == role:
                moved = moves.apply(text)
                if moved is not None:
                    return moved
        return text
