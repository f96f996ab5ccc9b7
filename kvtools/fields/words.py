"""Words: the smallest pieces in which texts are compared. Joined again they give the text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

# Ideographs, kana and hangul have no blanks between words: each character is one.
_IDEOGRAPHS = "぀-ヿ㐀-䶿一-鿿가-힯豈-﫿"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+|\n|[^\S\n]+|.", re.DOTALL)
_IDEOGRAPH = re.compile(rf"[{_IDEOGRAPHS}]")

IDEOGRAPH_WEIGHT = 4
"""An ideograph says about as much as four letters."""


def words_of(text: str) -> list[str]:
    """Split a text into words, blanks, line feeds and single signs; nothing is dropped."""
    return _WORD.findall(text)


def substance(text: str) -> int:
    """Return how many letters and digits a text has, an ideograph counted as four."""
    ideographs = len(_IDEOGRAPH.findall(text))
    return sum(map(str.isalnum, text)) + (IDEOGRAPH_WEIGHT - 1) * ideographs


class Numbering:
    """Numbers for words: equal words have equal numbers. Only their equality means anything."""

    def __init__(self) -> None:
        """Begin with no word numbered."""
        self._number_of: dict[str, int] = {}

    def numbers(self, words: Sequence[str]) -> NDArray[np.int32]:
        """Return one int32 per word."""
        number_of = self._number_of
        return np.array([number_of.setdefault(word, len(number_of)) for word in words], dtype=np.int32)

    def rows(self, texts: Iterable[Sequence[str]]) -> Ragged:
        """Return the numbers of several texts' words, a row per text."""
        rows = [self.numbers(words) for words in texts]
        values = np.concatenate(rows) if rows else np.empty(0, dtype=np.int32)
        return Ragged(values, offsets_of(np.array([len(row) for row in rows], dtype=np.int64)))
