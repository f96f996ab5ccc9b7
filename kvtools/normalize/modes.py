"""What may become of a text, by mode: the same interface as a ``Rewriting``, which is mode ``hoist``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from kvtools.fields.sections import FLAT
from kvtools.normalize.rewriting import Rewritten
from kvtools.normalize.rules import canonical_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.catalogue import Catalogue

Mode = Literal["canonicalize", "hoist", "mask"]

MODES: dict[Mode, str] = {
    "canonicalize": "same meaning, fewer byte forms; restore gives the logged bytes back",
    "hoist": "values move behind the stable text of their message; nothing is lost",
    "mask": "values become their kind, such as [TIME]; they are lost: for analysis only",
}
"""The modes in the order in which they are applied, each in one line."""

Within = Literal["all", "system", "user"]
"""Which messages are rewritten; a flat prompt is both."""


class TextRewriter(Protocol):
    """Says what becomes of a text of a section; the same text always becomes the same."""

    @property
    def roles(self) -> frozenset[str] | None:
        """The sections in which anything can change, ``None`` for all."""

    def rewritten(self, role: str, text: str) -> Rewritten:
        """Return what becomes of a section's text."""


def is_within(role: str, within: Within) -> bool:
    """Tell whether a section is one of those that are rewritten."""
    return within == "all" or role in (within, FLAT)


@dataclass(frozen=True, slots=True)
class Canonical:
    """Byte forms by these rules."""

    rules: Sequence[str]
    within: Within = "all"
    roles: frozenset[str] | None = None

    def rewritten(self, role: str, text: str) -> Rewritten:
        """Return the text in its one form."""
        return Rewritten(canonical_text(role, text, self.rules) if is_within(role, self.within) else text)


@dataclass(frozen=True, slots=True)
class Masking:
    """Each value of a known kind becomes the kind's name in brackets."""

    catalogue: Catalogue
    within: Within = "all"
    roles: frozenset[str] | None = None

    def rewritten(self, role: str, text: str) -> Rewritten:
        """Return the text with its values masked."""
        if not is_within(role, self.within):
            return Rewritten(text)
        parts: list[str] = []
        at = 0
        for span in self.catalogue.spans(text):
            parts += (text[at : span.start], f"[{span.kind.name.upper()}]")
            at = span.end
        return Rewritten("".join((*parts, text[at:])))
