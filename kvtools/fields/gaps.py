"""From aligned pieces to a template: which gaps are one value, which stable text is too thin to stand between two.

Words that a few texts share by chance would cut a value in two. So stable text between gaps counts only where it
says something: a label, a few letters, the sign between two values of a known kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.fields.template import RESERVED_NAMES, Gap, SectionTemplate, Shape
from kvtools.fields.words import substance, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.catalogue import Catalogue, Kind

VALUE_WORDS = 24
"""A value of more words (blanks and signs counted) is free text: a question, a passage, an answer."""

VALUE_CHARS = 120

LABEL_SUBSTANCE = 4
TEXT_SUBSTANCE = 12
"""Letters that stable text must have between two values, and beside free text, where chance repeats words."""

SAME_TEXTS = 3
"""Texts in which two values must be equal to be one value; two are enough where the value has ``LABEL_SUBSTANCE``."""

_LABEL = re.compile(r"([^\W\d_][\w ./-]{0,24})\s*[:=#\uff1a\uff1d]\s*[\"'(\[<]*$")
# What a value is written with: letters and digits that a joining sign ties to it, no brackets, no colon.
_JOINED_BEFORE = re.compile(r"[A-Za-z0-9_$][\w$]*(?:[-/.@][\w$]+)*[-/.@]$|[$€£¥]$", re.ASCII)
_JOINED_BEHIND = re.compile(r"[-/.@]\w+(?:[-/.@]\w+)*", re.ASCII)
_NOT_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Piece:
    """Stable text, or the values of one gap (one per aligned text)."""

    literal: str = ""
    values: tuple[str, ...] = ()
    run: int = 0
    shape: Shape | None = None

    @classmethod
    def of_literal(cls, text: str) -> Piece:
        """Stable text."""
        return cls(literal=text)

    @classmethod
    def of_values(cls, values: Sequence[str], run: int, shape: Shape | None = None) -> Piece:
        """The values of a gap; without a shape it follows from the values."""
        return cls(values=tuple(values), run=run, shape=shape)

    @property
    def is_text(self) -> bool:
        """Whether the values are free text rather than values of a field."""
        if self.shape is not None:
            return self.shape == "text"
        longest = max(self.values, key=len)
        return (
            len(longest) > VALUE_CHARS or "\n" in longest.strip("\n") or len(words_of(longest)) > VALUE_WORDS
        )


def pieces_to_template(role: str, pieces: Sequence[Piece], catalogue: Catalogue) -> SectionTemplate | None:
    """Return the template that the pieces make, ``None`` where no stable text is left."""
    joined = _merged(_joined_literals(pieces), catalogue)
    literals, values = [""], []
    for piece in joined:
        if piece.values:
            values.append(piece)
            literals.append("")
        else:
            literals[-1] += piece.literal
    for number in range(len(values)):
        values[number] = _bounded(literals, number, values[number], catalogue)
    if not substance("".join(literals)):
        return None
    template = SectionTemplate(role, tuple(literals), _named(literals, values, catalogue, share=True))
    if template.repeats and not _gives_back(template, values):
        return SectionTemplate(role, tuple(literals), _named(literals, values, catalogue, share=False))
    return template


def _named(
    literals: Sequence[str], values: Sequence[Piece], catalogue: Catalogue, *, share: bool
) -> tuple[Gap, ...]:
    """Return the gaps; with ``share`` those that always have an earlier one's value have its name."""
    gaps: list[Gap] = []
    for number, piece in enumerate(values):
        kind = catalogue.kind_of(piece.values, literals[number], literals[number + 1])
        shape = piece.shape or ("text" if _is_text(piece, kind) else "field")
        same = _equal_before(values, number) if share else None
        if same is not None and shape == gaps[same].shape:
            name, kind = gaps[same].name, gaps[same].kind
        else:
            name = _unique(_identifier(_name(kind, shape, piece, literals[number])), gaps)
        gaps.append(Gap(name, kind, shape, piece.run))
    return tuple(gaps)


def _gives_back(template: SectionTemplate, values: Sequence[Piece]) -> bool:
    """Tell whether the template matches the texts that it was learned from: it may cut their values elsewhere."""
    rows = zip(*(piece.values for piece in values), strict=True)
    return all(template.match(template.render(row)) is not None for row in rows)


def _equal_before(values: Sequence[Piece], number: int) -> int | None:
    """Return the first gap before ``number`` that has its values in every text, ``None`` where that may be chance."""
    mine = values[number].values
    least = min(map(substance, mine))
    if not all(mine) or len(set(mine)) == 1 or (len(mine) < SAME_TEXTS and least < LABEL_SUBSTANCE):
        return None
    return next((place for place in range(number) if values[place].values == mine), None)


def _bounded(literals: list[str], number: int, piece: Piece, catalogue: Catalogue) -> Piece:
    """Give blanks around all values to the stable text, and to a value the signs and letters that it is written with.

    ``node-a`` and ``node-b`` are values of their own, not the endings of ``node-``.
    """
    values = piece.values
    while all(value[-1:] == " " for value in values):
        literals[number + 1] = " " + literals[number + 1]
        values = tuple(value[:-1] for value in values)
    while all(value[:1] == " " for value in values):
        literals[number] += " "
        values = tuple(value[1:] for value in values)
    if piece.shape is None and not piece.is_text and all(values):
        typed = _typed(Piece.of_values(values, piece.run), catalogue)
        before = None if typed else _JOINED_BEFORE.search(literals[number])
        behind = None if typed else _JOINED_BEHIND.match(literals[number + 1])
        head, tail = (found.group() if found else "" for found in (before, behind))
        # Stable text between two values stays: without it nothing would tell them apart.
        head = "" if number and head == literals[number] else head
        tail = "" if number + 2 < len(literals) and tail == literals[number + 1] else tail
        literals[number] = literals[number].removesuffix(head)
        literals[number + 1] = literals[number + 1].removeprefix(tail)
        values = tuple(head + value + tail for value in values)
    return Piece.of_values(values, piece.run, piece.shape)


def _is_text(piece: Piece, kind: Kind) -> bool:
    """Tell free text from a value: words of no kind that some texts lack are text."""
    return piece.is_text or (kind.name == "text" and not all(piece.values))


def _joined_literals(pieces: Sequence[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        if joined and not piece.values and not joined[-1].values:
            joined[-1] = Piece.of_literal(joined[-1].literal + piece.literal)
        else:
            joined.append(piece)
    return joined


def _merged(pieces: list[Piece], catalogue: Catalogue) -> list[Piece]:
    """Merge gaps whose stable text between them is too thin, until none is left."""
    changed = True
    while changed:
        changed = False
        for place in range(len(pieces) - 2):
            left, middle, right = pieces[place : place + 3]
            if left.values and right.values and not middle.values and _thin(left, middle, right, catalogue):
                pieces[place : place + 3] = [_one(left, middle.literal, right)]
                changed = True
                break
        for place in range(len(pieces) - 1):
            left, right = pieces[place : place + 2]
            if left.values and right.values:
                pieces[place : place + 2] = [_one(left, "", right)]
                changed = True
                break
    return pieces


def _one(left: Piece, between: str, right: Piece) -> Piece:
    values = [a + between + b for a, b in zip(left.values, right.values, strict=True)]
    shape: Shape | None = "text" if "text" in (left.shape, right.shape) else None
    if shape is None and "section" in (left.shape, right.shape):
        shape = "section"
    return Piece.of_values(values, left.run, shape)


def _thin(left: Piece, middle: Piece, right: Piece, catalogue: Catalogue) -> bool:
    """Tell whether the stable text between two gaps may have been shared by chance."""
    text = middle.literal
    if "section" in (left.shape, right.shape):
        return False
    if left.is_text or right.is_text:
        return substance(text) < TEXT_SUBSTANCE and "\n" not in text
    if text.isspace() and "\n" not in text:
        return not (_typed(left, catalogue) and _typed(right, catalogue))
    # A value that is missing in some texts is a part of its neighbour: Ada, Ada Example, Dr Ada B Example.
    if not all(left.values) or not all(right.values):
        return substance(text) < TEXT_SUBSTANCE
    if substance(text) < LABEL_SUBSTANCE and "\n" not in text:
        return not (_typed(left, catalogue) and _typed(right, catalogue))
    return False


def _typed(piece: Piece, catalogue: Catalogue) -> bool:
    return catalogue.kind_of(piece.values, "", "").name not in {"text", "number"}


def _name(kind: Kind, shape: Shape, piece: Piece, before: str) -> str:
    """Name a gap by its kind, or by its label where the kind says nothing."""
    if shape == "section":
        return "examples" if "xample" in before[-200:] + piece.values[0][:40] else "section"
    if shape == "text":
        return "text"
    if kind.name in {"text", "number", "hex"}:
        label = _LABEL.search(before[-40:])
        plain = _NOT_NAME.sub("_", label.group(1).rsplit("\n", 1)[-1].lower()).strip("_") if label else ""
        return plain or ("value" if kind.name == "text" else kind.name)
    return kind.name


def _identifier(name: str) -> str:
    """Return a name that jinja2 reads as a variable."""
    if name[0].isdigit():
        return f"value_{name}"
    return f"{name}_value" if name in RESERVED_NAMES else name


def _unique(name: str, gaps: Sequence[Gap]) -> str:
    taken = {gap.name for gap in gaps}
    number, unique = 2, name
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique
