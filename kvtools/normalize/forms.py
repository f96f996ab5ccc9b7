"""Byte forms: one text written in several ways that a reader cannot tell apart.

Each rule can be applied twice without a change. Code, preformatted text and diffs stay as they are (``protected``), and
so do indentation, blanks inside a line, and the end of the text: a completion goes on from there. Compatibility forms
(NFKC) are never folded: they change what is said. Markdown's hard line break (two blanks before a line feed) is lost
with the blanks: that rule is asked for by name.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.normalize.protected import code_spans, machine_spans, outside, verbatim_spans
from kvtools.table import digest64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kvtools.normalize.protected import Span

_LINE_END = re.compile(r"\r\n?")
_BLANK_AT_END = re.compile(r"\n(?<=[ \t]\n)")
"""Half the time of two ``in`` tests: blanks are everywhere, line feeds are not."""
_TRAILING = re.compile(r"(?<![ \t])[ \t]++(?=[\r\n])")
_NO_BREAK = re.compile("((?:\\A|(?<=[\r\n]))[ \t\u00a0]+)|\u00a0")
_BLANK_LINES = re.compile(r"\n{3,}")
_BEYOND_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
_ASCII_IN_DISGUISE = re.compile("([\u037e\u1fef\u212a])")
"""The only signs whose NFC is ASCII: Greek question mark (``;``), Greek varia (a backtick), Kelvin sign (``K``)."""


def line_ends(text: str) -> str:
    """Return the text with line feeds for CRLF and lone CR; fences, ``<pre>`` and diffs keep theirs."""
    if "\r" not in text:
        return text
    return outside(text, verbatim_spans(text), lambda piece: _LINE_END.sub("\n", piece))


def no_break_spaces(text: str) -> str:
    """Return the text with blanks for no-break spaces (U+00A0), outside code, JSON, URLs, indentation and its end."""
    if "\u00a0" not in text:
        return text
    return _within(
        text, machine_spans, lambda piece: _NO_BREAK.sub(lambda match: match.group(1) or " ", piece)
    )


def trailing_blanks(text: str) -> str:
    """Return the text without blanks and tabs before line ends, outside code; white space at its end stays."""
    if "\r" not in text and not _BLANK_AT_END.search(text):
        return text
    return _within(text, code_spans, lambda piece: _TRAILING.sub("", piece))


def blank_lines(text: str) -> str:
    """Return the text with two line feeds for three or more in a row, outside code; those at its end stay."""
    return (
        _within(text, code_spans, lambda piece: _BLANK_LINES.sub("\n\n", piece)) if "\n\n\n" in text else text
    )


def unicode_form(text: str) -> str:
    """Return the text in NFC, outside code, JSON and URLs; ASCII signs neither go nor come.

    ``<`` with a combining overlay would become one sign that is no operator any more, and a Greek varia a backtick:
    such signs are left.
    """
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return outside(text, machine_spans(text), lambda piece: _BEYOND_ASCII.sub(_composed, piece))


def _within(text: str, spans: Callable[[str], list[Span]], rewrite: Callable[[str], str]) -> str:
    """Return the text rewritten outside its ``spans``, with the white space at its end as it is."""
    body = text.rstrip(" \t\r\n\u00a0")
    return outside(body, spans(body), rewrite) + text[len(body) :]


def _composed(match: re.Match[str]) -> str:
    """Return an ASCII character, if there is one, and what follows it up to the next, in NFC where ASCII stays."""
    piece = match.group()
    if _keeps_ascii(piece, composed := unicodedata.normalize("NFC", piece)):
        return composed
    # The first character with its marks by itself, then what lies between the signs that would become ASCII.
    end = 1
    while end < len(piece) and unicodedata.combining(piece[end]):
        end += 1
    head = unicodedata.normalize("NFC", piece[:end])
    parts = [head if _keeps_ascii(piece[:end], head) else piece[:end]]
    parts += (
        part if _ASCII_IN_DISGUISE.match(part) else unicodedata.normalize("NFC", part)
        for part in _ASCII_IN_DISGUISE.split(piece[end:])
    )
    return "".join(parts)


def _keeps_ascii(piece: str, composed: str) -> bool:
    """Tell whether the NFC of a piece has its ASCII sign and no other; a letter may have taken an accent."""
    before = piece[0] if piece[0].isascii() else ""
    after = "".join(filter(str.isascii, composed))
    return after == before or (before.isalpha() and not after)


FORMS: Mapping[str, Callable[[str], str]] = {
    "line_ends": line_ends,
    "trailing_blanks": trailing_blanks,
    "unicode_form": unicode_form,
}
"""The forms that a reader cannot tell apart: what ``analyze`` looks for."""

TEXT_RULES: Mapping[str, Callable[[str], str]] = {
    "line_ends": line_ends,
    "no_break_spaces": no_break_spaces,
    "trailing_blanks": trailing_blanks,
    "blank_lines": blank_lines,
    "unicode_form": unicode_form,
}
"""All rules in the order in which they are applied.

Line ends come first, so that no CR stands between line feeds; no-break spaces become blanks before these go, and
blanks go before blank lines are counted.
"""


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
    """Return the text with these rules applied, in their order; names of other rules have no effect."""
    for name, rule in TEXT_RULES.items():
        if name in rules:
            text = rule(text)
    return text
