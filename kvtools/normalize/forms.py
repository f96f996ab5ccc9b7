"""Byte forms: one text written in several ways that a reader cannot tell apart.

Each rule can be applied twice without a change. Blanks at line ends stay inside code fences; the end of the text stays
as it is. Markdown's hard line break (two blanks before a line feed) is lost with the blanks: that rule is asked for by
name.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.table import digest64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LINE_END = re.compile(r"\r\n?")
_FENCE = re.compile(r"^\s{0,3}(?:```|~~~)")
_TRAILING = re.compile(r"[ \t\r]+\Z")


def line_ends(text: str) -> str:
    """Return the text with line feeds for CRLF and lone CR."""
    return _LINE_END.sub("\n", text) if "\r" in text else text


def trailing_blanks(text: str) -> str:
    """Return the text without blanks before line ends, outside code fences; the last line keeps its own."""
    if " \n" not in text and "\t\n" not in text and " \r" not in text and "\t\r" not in text:
        return text
    lines, fenced = text.split("\n"), False
    for number, line in enumerate(lines[:-1]):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            lines[number] = _TRAILING.sub(lambda end: "\r" * end.group().count("\r"), line, count=1)
    return "\n".join(lines)


def unicode_form(text: str) -> str:
    """Return the text in NFC, character by character; what would take in an ASCII sign stays apart.

    ``<`` with a combining overlay would become one sign that is no operator any more: such a pair is left.
    """
    if unicodedata.is_normalized("NFC", text):
        return text
    out: list[str] = []
    start = 0
    for place in range(1, len(text) + 1):
        if place == len(text) or not (unicodedata.combining(text[place]) or _joins(text[place])):
            piece = text[start:place]
            out.append(_composed(piece))
            start = place
    return "".join(out)


def _joins(sign: str) -> bool:
    """Tell whether a sign may join the one before it although it is no combining mark: Hangul vowels and finals."""
    return "ᅠ" <= sign <= "ᇿ"


def _composed(piece: str) -> str:
    composed = unicodedata.normalize("NFC", piece)
    ascii_lost = sum(sign.isascii() and not sign.isalnum() for sign in piece) - sum(
        sign.isascii() and not sign.isalnum() for sign in composed
    )
    return piece if ascii_lost else composed


FORMS: Mapping[str, Callable[[str], str]] = {
    "line_ends": line_ends,
    "trailing_blanks": trailing_blanks,
    "unicode_form": unicode_form,
}
"""The rules in the order in which they are applied: line ends first, so that blanks before a CR are seen."""


@dataclass(frozen=True, slots=True)
class OneForm:
    """Make one form of certain texts of a role and of no others: ``texts`` are digests of what they become."""

    role: str
    rules: tuple[str, ...]
    texts: frozenset[int]

    def apply(self, text: str) -> str:
        """Return the text in its one form, as it is where it is another text."""
        formed = one_form(text, self.rules)
        return formed if formed != text and digest64(formed) in self.texts else text


def one_form(text: str, rules: Sequence[str] = tuple(FORMS)) -> str:
    """Return the text with these rules applied, in their order."""
    for name, rule in FORMS.items():
        if name in rules:
            text = rule(text)
    return text
