"""A section's template: the text that all its members share, with a gap for each value that varies."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.catalogue import Kind

Shape = Literal["field", "section", "text"]
"""What a gap holds: a short value, whole lines in changing order, or free text that nothing moves."""

_HEAD_CHARS = 64

RESERVED_NAMES = frozenset(
    ("true", "false", "none", "and", "or", "not", "in", "is", "if", "else", "elif", "for", "recursive", "self",
     "super", "loop", "caller", "varargs", "kwargs", "range", "dict", "lipsum", "cycler", "joiner", "namespace")
)  # fmt: skip
"""Words that mean something else to jinja2 where a variable could stand: no gap has such a name."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One place where the members of a template differ. Gaps of one ``name`` have one value.

    ``run`` numbers the stretch of neighbouring lines that the gap stands in: gaps of one run vary together.
    """

    name: str
    kind: Kind
    shape: Shape
    run: int


@dataclass(frozen=True, slots=True)
class SectionTemplate:
    """Stable text with gaps: ``literals[0] + value + literals[1] + … + literals[-1]`` gives a member's text.

    ``role`` is the section's: ``system``, ``user``, ``tool``, or ``prompt`` for a flat prompt. ``repeats`` are pairs
    of gaps of one name.
    """

    role: str
    literals: tuple[str, ...]
    gaps: tuple[Gap, ...]
    repeats: tuple[tuple[int, int], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        first: dict[str, int] = {}
        pairs = [(first.setdefault(gap.name, number), number) for number, gap in enumerate(self.gaps)]
        object.__setattr__(self, "repeats", tuple(pair for pair in pairs if pair[0] != pair[1]))

    @property
    def template_id(self) -> str:
        """A name made of the stable text, and of which values are equal: the same whatever the log's order."""
        parts = (self.role, *self.literals, *(f"{one}={other}" for one, other in self.repeats))
        # kvtools.table.digest64 in hexadecimal: that module loads pandas, and a service has none.
        return (
            blake2b(chr(0).join(parts).encode("utf-8", "surrogatepass"), digest_size=8)
            .digest()[::-1]
            .hex()[:8]
        )

    def match(self, text: str) -> tuple[str, ...] | None:
        """Return the values with which the template gives ``text``, ``None`` where it cannot.

        Where gaps of one name would have different values it cannot.

        Literals before the first gap of lines or free text are found from the front, those behind it from the end:
        such a gap may hold anything, a literal of the template too.
        """
        values = self._cut(text)
        if values and self.repeats and any(values[one] != values[other] for one, other in self.repeats):
            return None
        return values

    def _cut(self, text: str) -> tuple[str, ...] | None:
        literals = self.literals
        if not self.gaps:
            return () if text == literals[0] else None
        if not (text.startswith(literals[0]) and text.endswith(literals[-1])):
            return None
        begin, end = len(literals[0]), len(text) - len(literals[-1])
        wide = next((n for n, gap in enumerate(self.gaps) if gap.shape != "field"), len(self.gaps) - 1)
        front: list[str] = []
        for literal in literals[1 : wide + 1]:
            found = _find(text, literal, begin, end)
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


def _find(text: str, literal: str, begin: int, end: int) -> int:
    """Return what ``text.find`` returns; a long literal is nearly always where its head is.

    Python prepares a search for a long string (10 us for 4,000 characters), which the comparison does without.
    """
    if len(literal) <= _HEAD_CHARS:
        return text.find(literal, begin, end)
    found = text.find(literal[:_HEAD_CHARS], begin, end)
    if found < 0 or text.startswith(literal, found, end):
        return found
    return text.find(literal, found + 1, end)
