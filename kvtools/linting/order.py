"""A better order of a prompt template: what is stable first, what changes with each request last."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import nodes

from kvtools.linting.names import CHANGES
from kvtools.linting.pieces import Unparsable, parse, pieces_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.linting.units import Unit

_ROLE_MARKS = re.compile(r"<[|\uff5c]|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>")
_PLACE_WORDS = re.compile(
    r"(?i)\b(?:above|below|following|preceding|previous|aforementioned|next line)\b|以上|以下|上述|下述|如下|上面|下面"
)
_CLASS = CHANGES.index("class")


@dataclass(frozen=True, slots=True)
class Order:
    """A proposed text. ``place_words``: it says "above" or "below" somewhere, so that a person has to look."""

    text: str
    place_words: bool


def shareable(unit: Unit) -> bool:
    """Say whether requests, or those of one class, share what the unit prints."""
    return CHANGES.index(unit.changes) <= _CLASS


def moves(units: Sequence[Unit]) -> list[tuple[Unit, bool]]:
    """Return each unit that changes, and whether something that requests share stands behind it."""
    behind, found = False, []
    for unit in reversed(units):
        if shareable(unit):
            behind = behind or (not unit.closing and _prints(unit))
        else:
            found.append((unit, behind))
    return found[::-1]


def refusal(tree: nodes.Template, source: str, assigned: Sequence[str], units: Sequence[Unit]) -> str | None:
    """Say why no order can be proposed for this template; ``None`` where one can."""
    if next(tree.find_all((nodes.Extends, nodes.Block)), None) is not None:
        return "it is built of blocks that another template may fill"
    twice = next((name for name, times in Counter(assigned).items() if times > 1), None)
    if twice is not None:
        return f"it sets {twice} more than once"
    if any(_sets(unit) and not shareable(unit) for unit in units):
        return "it sets a value inside text that would move behind its use"
    if _ROLE_MARKS.search(source):
        return "it writes role marks itself, and text must not cross roles"
    return None


def better_order(units: Sequence[Unit]) -> Order | str | None:
    """Return the units with the stable ones in front, in their own order otherwise; ``None`` where that is no change.

    Every placeholder stands in it as often as before: of an order that loses or doubles one only that is said.
    """
    placed = sorted(units, key=lambda unit: (unit.closing, CHANGES.index(unit.changes)))
    if placed == list(units):
        return None
    text = _joined(placed)
    if _printed(text) != _printed("".join(unit.source for unit in units)):
        return "its parts cannot be put together again in another order"
    stable = "".join(unit.plain for unit in units)
    return Order(text, bool(_PLACE_WORDS.search(stable)))


def _sets(unit: Unit) -> bool:
    return any(read.piece.kind == "silent" and not read.piece.source.startswith("{#") for read in unit.reads)


def _prints(unit: Unit) -> bool:
    return bool(unit.plain.strip()) or any(read.piece.kind in {"value", "block"} for read in unit.reads)


def _joined(units: Sequence[Unit]) -> str:
    headings = {unit.section: unit.heading for unit in units if unit.heading}
    written: list[str] = []
    row, section = None, 0
    for unit in units:
        if not unit.heading and unit.row + 1 == unit.section and unit.section in headings:
            continue  # a heading is written in front of the first unit of its section
        if unit.section != section and not unit.closing:
            section, row = unit.section, None
            _end_line(written)
            written.append(unit.heading)
        if unit.row == row:
            _go_on(written, unit.source)
            continue
        row = unit.row
        _end_line(written)
        written += [unit.label, unit.source]
    return "".join(written).rstrip(" \t\n")


def _go_on(written: list[str], source: str) -> None:
    """Write another part of the same line: it stays one line, with a blank where a blank parted the parts."""
    line = written[-1].rstrip("\n")
    end = written[-1][len(line) :]
    gap = " " if source[-1:] in {" ", "\t"} and line[-1:] not in {" ", "\t"} else ""
    written[-1] = f"{line}{gap}"
    written.append(source.rstrip(" \t") + end if end else source)


def _end_line(written: list[str]) -> None:
    """End the line that is being written, without the blanks that stood between its parts."""
    while written and not written[-1]:
        written.pop()
    if written and not written[-1].endswith("\n"):
        written[-1] = written[-1].rstrip(" \t") + "\n"


def _printed(source: str) -> Counter[str] | None:
    try:
        parse(source)
    except Unparsable:
        return None
    return Counter(piece.source for piece in pieces_of(source) if piece.kind != "text")
