"""The shape of a value without its content, for reports that carry no prompt text."""

from __future__ import annotations

import unicodedata

MASKED_CHARACTERS = 40
"""Length of the longest masked value; a longer one ends in an ellipsis."""

_CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")


def mask(value: str) -> str:
    """Return the shape of ``value``: letters become ``x``, digits ``0``, CJK letters ``□``, at most 40 characters.

    Punctuation, currency and mathematical signs and blanks stay. Combining marks are left out, so that composed and
    decomposed forms look alike. Other symbols (emoji) and control characters become ``□``, line ends a blank.
    """
    shape: list[str] = []
    for character in value:
        sign = _sign(character)
        if not sign:
            continue
        if len(shape) == MASKED_CHARACTERS:
            shape[-1] = "…"
            break
        shape.append(sign)
    return "".join(shape)


def _sign(character: str) -> str:
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category[0] == "N":
        return "0"
    if category[0] == "M":
        return ""
    if category[0] == "L":
        return "□" if unicodedata.name(character, "").startswith(_CJK) else "x"
    if category[0] == "P" or category in {"Sc", "Sm", "Sk"}:
        return character
    return "□"
