"""A section's template: the text that all its members share, with a gap for each value that varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvtools.table import digest64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.catalogue import Kind

Shape = Literal["field", "section", "text"]
"""What a gap holds: a short value, whole lines in changing order, or free text that nothing moves."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One place where the members of a template differ. ``name`` is unique in its template.

    ``run`` numbers the stretch of neighbouring lines that the gap stands in: gaps of one run vary together.
    """

    name: str
    kind: Kind
    shape: Shape
    run: int


@dataclass(frozen=True, slots=True)
class SectionTemplate:
    """Stable text with gaps: ``literals[0] + value + literals[1] + … + literals[-1]`` gives a member's text.

    ``role`` is the section's: ``system``, ``user``, ``tool``, or ``prompt`` for a flat prompt.
    """

    role: str
    literals: tuple[str, ...]
    gaps: tuple[Gap, ...]

    @property
    def template_id(self) -> str:
        """A name made of the stable text alone: the same whatever the log's order."""
        return f"{digest64(chr(0).join((self.role, *self.literals))):016x}"[:8]

    def match(self, text: str) -> tuple[str, ...] | None:
        """Return the values with which the template gives ``text``, ``None`` where it cannot.

        Literals before the first gap of lines or free text are found from the front, those behind it from the end:
        such a gap may hold anything, a literal of the template too.
        """
        literals = self.literals
        if not self.gaps:
            return () if text == literals[0] else None
        if not (text.startswith(literals[0]) and text.endswith(literals[-1])):
            return None
        begin, end = len(literals[0]), len(text) - len(literals[-1])
        wide = next((n for n, gap in enumerate(self.gaps) if gap.shape != "field"), len(self.gaps) - 1)
        front: list[str] = []
        for literal in literals[1 : wide + 1]:
            found = text.find(literal, begin, end)
            if found < 0:
                return None
            front.append(text[begin:found])
            begin = found + len(literal)
        back: list[str] = []
        for literal in reversed(literals[wide + 1 : -1]):
            found = text.rfind(literal, begin, end)
            if found < 0:
                return None
            back.append(text[found + len(literal) : end])
            end = found
        return None if end < begin else (*front, text[begin:end], *reversed(back))

    def render(self, values: Sequence[str]) -> str:
        """Return the text that has these values."""
        parts = [self.literals[0]]
        for value, literal in zip(values, self.literals[1:], strict=True):
            parts += (value, literal)
        return "".join(parts)

    def place_of(self, gap: int) -> int:
        """Return the character at which a gap begins, where all values before it are empty: its least place."""
        return sum(len(literal) for literal in self.literals[: gap + 1])
