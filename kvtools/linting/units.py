"""What of a prompt template may be put elsewhere: parts of lines, lines, and what must stay together.

Together stay: statements up to their end, fenced code, a tag and its end tag, open brackets, numbered lines, a label
that ends in a colon and what it labels. A line is cut only where each part is a field of its own
(``用户{{user_type}}``, ``order={{order_id}}``) or between sentences. A part that leaves its line takes the
line's label with it (``[系统]``), a line that leaves its section the heading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvtools.linting.names import CHANGES, Changes
from kvtools.linting.pieces import Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kvtools.linting.reading import Reading

_LABEL = re.compile(r"[ \t]*(?:\[[^\[\]\n]{1,30}\]|【[^【】\n]{1,30}】)")
_HEADING = re.compile(r"\s*(?:#{1,6}\s+\S|={3,}|\[[^\[\]\n]{1,30}\]\s*$|【[^【】\n]{1,30}】\s*$)")
_SENTENCE_END = re.compile(r"(?<=[。\uff01\uff1f\uff1b])[ \t]*(?=\S)|(?<=[.!?;])[ \t]+(?=\S)")
_FIELD_GAP = re.compile(r"[ \t]+(?=\S)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_TAG = re.compile(r"\s*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
_NUMBERED = re.compile(r"\s*\d{1,3}[.)、]")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_REACH = 500
"""Rows in which the end of a tag or bracket is looked for; what stands open longer is taken for text."""
_LABEL_SIGNS = "=:#\uff1a\uff1d\uff08([@"
_OPEN, _CLOSE = "([{\uff08【", ")]}\uff09】"


@dataclass(frozen=True, slots=True)
class Read:
    """A piece and what it reads."""

    piece: Piece
    reading: Reading

    @property
    def changes(self) -> Changes:
        """How often what it prints changes: never, where it prints nothing; those who use what it sets change."""
        return "never" if self.piece.kind == "silent" else self.reading.changes


@dataclass(frozen=True, slots=True)
class Unit:
    """What moves as a whole. ``label`` and ``heading`` go with it; ``row`` and ``section`` say where it stood.

    ``closing``: the cue that a template ends in (``Answer:``), which stays last.
    """

    reads: tuple[Read, ...]
    row: int
    section: int = 0
    label: str = ""
    heading: str = ""
    closing: bool = False

    @property
    def changes(self) -> Changes:
        """How often what the unit prints changes: the worst of its pieces."""
        return max((read.changes for read in self.reads), key=CHANGES.index, default="never")

    @property
    def source(self) -> str:
        """The unit as it stands in the template, without its label."""
        return "".join(read.piece.source for read in self.reads)

    @property
    def plain(self) -> str:
        """The text that the unit prints itself."""
        return "".join(read.piece.text for read in self.reads)


class _Row:
    """A line, or lines that stay together: ``plain`` is its own text, ``depth`` how many brackets it leaves open."""

    def __init__(self, reads: list[Read]) -> None:
        self.reads = reads
        self.plain = "".join(read.piece.text for read in reads)
        self.depth = _depth(self.plain)
        self.blank = not self.plain.strip() and all(read.piece.kind == "text" for read in reads)
        self.fixed = all(read.piece.kind in {"text", "silent"} for read in reads)

    @property
    def remark(self) -> bool:
        """A comment alone: it stays with what it is about."""
        others = [read.piece for read in self.reads if read.piece.kind != "text"]
        return bool(others) and not self.plain.strip() and all(one.source.startswith("{#") for one in others)

    @property
    def labels(self) -> bool:
        """A label or comment for what follows."""
        colon = (
            self.fixed and self.plain.rstrip().endswith((":", "\uff1a")) and not _HEADING.match(self.plain)
        )
        return not self.blank and (colon or self.remark)


def units_of(reads: Sequence[Read]) -> list[Unit]:
    """Return the units in the template's order; their sources and labels joined are the template."""
    rows = list(_together(list(_rows(reads))))
    last = max((at for at, row in enumerate(rows) if not row.blank), default=-1)
    units: list[Unit] = []
    section, heading = 0, ""
    for at, row in enumerate(rows):
        if row.fixed and _HEADING.match(row.plain) and row.plain.count("\n") <= 1 and at < last:
            section, heading = at + 1, row.plain
            units.append(Unit(tuple(row.reads), at, section))
        elif at >= last >= 0 and row.fixed and at > 0 and _is_cue(row.plain):
            units.append(Unit(tuple(row.reads), at, section, closing=True))
        else:
            units += [replace(unit, section=section, heading=heading) for unit in _parts(row, at)]
    return units


def _is_cue(text: str) -> bool:
    return text.rstrip().endswith((":", "\uff1a", ">", "]"))


def _rows(reads: Iterable[Read]) -> Iterator[_Row]:
    row: list[Read] = []
    for read in reads:
        if read.piece.kind != "text" or read.piece.source != read.piece.text:
            row.append(read)
            continue
        line = read.piece.line
        for text in _LINE.findall(read.piece.text):
            row.append(replace(read, piece=Piece("text", text, line, text)))
            if text.endswith("\n"):
                yield _Row(row)
                row = []
            line += 1
    if row:
        yield _Row(row)


def _together(rows: list[_Row]) -> Iterator[_Row]:
    """Join the rows that only make sense together, each with the blank rows behind it."""
    at = 0
    while at < len(rows):
        begun = at
        while rows[begun].labels and (following := _first(rows, begun + 1, lambda row: not row.blank)) < len(
            rows
        ):
            begun = following
        end = _end(rows, begun)
        while end < len(rows) and rows[end].blank:
            end += 1
        yield _Row([read for row in rows[at:end] for read in row.reads])
        at = end


def _end(rows: list[_Row], at: int) -> int:
    """Return the place behind what must stay with the row at ``at``."""
    text, reach = rows[at].plain, min(len(rows), at + _REACH)
    if _FENCE.match(text):
        return min(_first(rows, at + 1, lambda row: bool(_FENCE.match(row.plain))) + 1, len(rows))
    if _NUMBERED.match(text):
        return _first(rows, at + 1, lambda row: not _NUMBERED.match(row.plain))
    tag = _TAG.match(text)
    if tag and (end := f"</{tag[1]}>") not in text:
        return next((place + 1 for place in range(at + 1, reach) if end in rows[place].plain), at + 1)
    depth = rows[at].depth
    for place in range(at + 1, reach if depth > 0 else at):
        depth += rows[place].depth
        if depth <= 0:
            return place + 1
    return at + 1


def _first(rows: list[_Row], start: int, wanted: Callable[[_Row], bool]) -> int:
    return next((at for at in range(start, len(rows)) if wanted(rows[at])), len(rows))


def _depth(text: str) -> int:
    return sum(text.count(sign) for sign in _OPEN) - sum(text.count(sign) for sign in _CLOSE)


def _parts(row: _Row, at: int) -> Iterator[Unit]:
    """Yield the parts of a row: one for each field or sentence, the row itself where it cannot be cut."""
    whole = [Unit(tuple(row.reads), at)]
    if row.fixed or row.plain.rstrip("\n").count("\n") or row.reads[0].piece.kind == "block":
        yield from whole
        return
    label, reads = _without_label(row.reads)
    sentences = _cut(reads, _SENTENCE_END)
    parts = [part for sentence in sentences for part in (_fields(sentence) or [sentence])]
    if not all(_balanced(part) for part in parts):
        yield from whole
        return
    yield from (Unit(tuple(part), at, label=label) for part in parts)


def _without_label(reads: list[Read]) -> tuple[str, list[Read]]:
    first = reads[0]
    found = _LABEL.match(first.piece.text) if first.piece.kind == "text" else None
    if not found or first.piece.source != first.piece.text:
        return "", reads
    rest = first.piece.text[found.end() :]
    kept = [replace(first, piece=Piece("text", rest, first.piece.line, rest))] if rest else []
    return found[0], kept + reads[1:]


def _cut(reads: Sequence[Read], where: re.Pattern[str]) -> list[list[Read]]:
    """Cut the text pieces behind each match of ``where``; the blanks stay with the part in front."""
    parts: list[list[Read]] = [[]]
    for read in reads:
        text = read.piece.text
        if read.piece.kind != "text" or read.piece.source != text:
            parts[-1].append(read)
            continue
        start = 0
        for match in where.finditer(text):
            if match.end() > start:
                parts[-1].append(_slice(read, start, match.end()))
                parts.append([])
                start = match.end()
        if text[start:]:
            parts[-1].append(_slice(read, start, len(text)))
    return [part for part in parts if part]


def _slice(read: Read, start: int, end: int) -> Read:
    text = read.piece.text[start:end]
    return replace(read, piece=replace(read.piece, source=text, text=text))


def _fields(reads: Sequence[Read]) -> list[list[Read]] | None:
    """Return the fields between blanks, or nothing where one part is prose and not a field."""
    parts: list[list[Read]] = []
    for part in _cut(reads, _FIELD_GAP):
        # "Plan: {{ plan }}" is one field: its label stands in front of a blank.
        if parts and all(read.piece.kind == "text" for read in parts[-1]) and _names_a_field(parts[-1]):
            parts[-1] += part
        else:
            parts.append(part)
    return parts if all(_is_field(part) for part in parts) else None


def _names_a_field(part: Sequence[Read]) -> bool:
    return "".join(read.piece.text for read in part).rstrip().endswith(tuple(_LABEL_SIGNS))


def _is_field(part: Sequence[Read]) -> bool:
    values = [at for at, read in enumerate(part) if read.piece.kind == "value"]
    if len(values) != 1 or any(read.piece.kind == "block" for read in part):
        return False
    before = "".join(read.piece.text for read in part[: values[0]]).rstrip()
    return bool(before) and (before[-1] in _LABEL_SIGNS or "㐀" <= before[-1] <= "鿿")


def _balanced(part: Sequence[Read]) -> bool:
    text = "".join(read.piece.text for read in part)
    return _depth(text) == 0 and text.count('"') % 2 == 0
