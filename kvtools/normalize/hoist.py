r"""Move values to the end of their own message; a placeholder stays where each of them stood.

``Current time: 10:41\nYou are …`` becomes ``Current time: [time]\nYou are …\n\n[time]: 10:41``. The message keeps
its role, every value and all of its other text: what was logged can be put together from pieces of what is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvtools.normalize.references import refers_to_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.template import SectionTemplate

BLOCK_GAP = "\n\n"
"""Stands between a message's text and its block of values."""

MAX_VALUE_CHARS = 512
"""A longer value is no field, whatever stands around it."""

Reason = Literal["placeholder_in_text", "value_too_long", "refers_to_place"]
"""Why a text that is made from a template stays as it is."""


class Moved(NamedTuple):
    """A text whose values stand behind it.

    ``pieces`` joined give the logged text: each says whether it lies in the ``block`` (else in the ``head``), where
    it begins and where it ends, in characters. ``values`` are those that moved, by name.
    """

    head: str
    block: str
    pieces: tuple[tuple[bool, int, int], ...]
    values: dict[str, str]

    @property
    def text(self) -> str:
        """The text with its block of values at its end."""
        return self.head + BLOCK_GAP + self.block

    def logged(self) -> str:
        """Return the text as it was logged."""
        return "".join(
            self.block[begin:end] if behind else self.head[begin:end] for behind, begin, end in self.pieces
        )


@dataclass(frozen=True, slots=True)
class Moves:
    """Which gaps of a template move (their numbers, in order)."""

    template: SectionTemplate
    gaps: tuple[int, ...]
    marks: tuple[str, ...] = field(init=False, compare=False, repr=False)
    template_id: str = field(init=False, compare=False, repr=False)
    sections: bool = field(init=False, compare=False, repr=False)
    """Whether whole lines leave their place."""
    _fields: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        shapes = {gap: self.template.gaps[gap].shape for gap in self.gaps}
        object.__setattr__(self, "template_id", self.template.template_id)
        object.__setattr__(self, "marks", marks_of(self.template))
        object.__setattr__(self, "sections", "section" in shapes.values())
        object.__setattr__(self, "_fields", tuple(gap for gap in self.gaps if shapes[gap] == "field"))

    def apply(self, text: str) -> str | None:
        """Return the message with these values at its end, ``None`` where it is not made from the template."""
        moved = self.moved(text)
        return moved.text if isinstance(moved, Moved) else None

    def moved(self, text: str) -> Moved | Reason | None:
        """Return the text moved, why it must stay, or ``None`` where it is not made from the template.

        A text whose values stand behind it already is none: the rewriting can be done twice.
        """
        values = self.template.match(text)
        return None if values is None else self.moved_values(text, values)

    def moved_values(self, text: str, values: Sequence[str]) -> Moved | Reason | None:
        """Return what ``moved`` does, for a text with these values."""
        marks = self.marks
        for gap in self.gaps:
            if values[gap].startswith(marks[gap]) and _first_line(values[gap]) == marks[gap]:
                return None
        for gap in self.gaps:
            if marks[gap] in text:
                return "placeholder_in_text"
        for gap in self._fields:
            if len(values[gap]) > MAX_VALUE_CHARS:
                return "value_too_long"
        if self.sections and self._refers(values):
            return "refers_to_place"
        return hoisted(self.template, values, self.gaps, self.marks)

    def _refers(self, values: Sequence[str]) -> bool:
        kept = [value for gap, value in enumerate(values) if self.template.gaps[gap].shape != "section"]
        return _literals_refer(self.template.literals) or any(refers_to_place(text) for text in kept)


@lru_cache(maxsize=64)
def _literals_refer(literals: tuple[str, ...]) -> bool:
    return any(refers_to_place(text) for text in literals)


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def marks_of(template: SectionTemplate) -> tuple[str, ...]:
    """Return the placeholder of each gap: ``[name]``, with a number where the stable text has that already."""
    marks: dict[str, str] = {}
    for gap in template.gaps:
        if gap.name not in marks:
            mark, number = f"[{gap.name}]", 2
            while mark in marks.values() or any(mark in literal for literal in template.literals):
                mark, number = f"[{gap.name}_{number}]", number + 1
            marks[gap.name] = mark
    return tuple(marks[gap.name] for gap in template.gaps)


def hoisted(
    template: SectionTemplate, values: Sequence[str], gaps: Sequence[int], marks: Sequence[str]
) -> Moved:
    """Return the text with the values of ``gaps`` behind it, each under the placeholder that it left.

    Gaps of one name have one value: it stands behind the text once.
    """
    block, places = _block(values, gaps, marks)
    head, pieces = [template.literals[0]], []
    begin, end = 0, len(template.literals[0])
    for gap, value in enumerate(values):
        if gap in gaps:
            # A value of whole lines leaves a whole line.
            stands = marks[gap] + "\n" if value.endswith("\n") else marks[gap]
            pieces += [(False, begin, end), (True, *places[marks[gap]])]
            begin = end = end + len(stands)
        else:
            stands = value
            end += len(value)
        literal = template.literals[gap + 1]
        head += (stands, literal)
        end += len(literal)
    pieces.append((False, begin, end))
    kept = tuple(piece for piece in pieces if piece[1] < piece[2])
    return Moved("".join(head), block, kept, {template.gaps[gap].name: values[gap] for gap in gaps})


def _block(
    values: Sequence[str], gaps: Sequence[int], marks: Sequence[str]
) -> tuple[str, dict[str, tuple[int, int]]]:
    """Return the block of values, and where in it the value of each placeholder stands."""
    lines: list[str] = []
    places: dict[str, tuple[int, int]] = {}
    length = 0
    for gap in gaps:
        mark, value = marks[gap], values[gap]
        if mark in places:
            continue
        label = f"{mark}: " if "\n" not in value else f"{mark}:\n"
        length += len(label) + (1 if lines else 0)
        places[mark] = length, length + len(value)
        length += len(value)
        lines.append(label + value)
    return "\n".join(lines), places
