"""Learn the templates of a group of texts: first by lines, then by words inside the lines that differ.

The words of a typed value (a time, a UUID, an amount) are one word, so that a value is never cut. What is learned
from ``ALIGNED`` texts is tried on all; the texts that it does not fit are learned from again, as templates of
their own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.fields.alignment import common_to_all, regions
from kvtools.fields.gaps import Piece, pieces_to_template
from kvtools.fields.shuffled import shuffled_lines, stretch_of
from kvtools.fields.words import Numbering, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kvtools.fields.catalogue import Catalogue
    from kvtools.fields.grouping import Group
    from kvtools.fields.sample import SectionText
    from kvtools.fields.template import SectionTemplate

ALIGNED = 24
"""Texts that one template is learned from; they are spread evenly over the group."""

ROUNDS = 4
"""Templates that one group may have; what none of them fits is left as it is."""


@dataclass(frozen=True, slots=True)
class Learned:
    """One template, the texts that it gives, and the values with which it gives them."""

    template: SectionTemplate
    texts: tuple[SectionText, ...]
    values: tuple[tuple[str, ...], ...]

    @property
    def requests(self) -> int:
        """In how many requests these texts stand."""
        return sum(text.requests for text in self.texts)


def learn_group(group: Group, catalogue: Catalogue) -> list[Learned]:
    """Return the templates of a group, and which of its texts each of them gives."""
    left, learned = list(group.texts), []
    for _ in range(ROUNDS):
        if len(left) < 2:
            break
        chosen = [left[place * len(left) // ALIGNED] for place in range(ALIGNED)]
        sample = list(dict.fromkeys(text.text for text in (chosen if len(left) > ALIGNED else left)))
        template = _template(group.role, sample, catalogue)
        if template is None:
            break
        matched = [(text, template.match(text.text)) for text in left]
        fitting = [(text, values) for text, values in matched if values is not None]
        if not fitting:
            break
        learned.append(
            Learned(template, tuple(text for text, _ in fitting), tuple(values for _, values in fitting))
        )
        left = [text for text, values in matched if values is None]
    return learned


def _template(role: str, texts: Sequence[str], catalogue: Catalogue) -> SectionTemplate | None:
    """Return the template of texts, ``None`` where they share no stable text."""
    numbering = Numbering()
    lined = [_lines(text) for text in texts]
    rows = [numbering.numbers(lines) for lines in lined]
    moving = shuffled_lines(rows)
    texts_with = Counter(line for row in rows for line in set(row.tolist()))
    pool = {line for line, count in texts_with.items() if count > 1}
    still = [row[[line not in moving for line in row.tolist()]] for row in rows]
    common = still[0][common_to_all(still)]
    pieces: list[Piece] = []
    places = [regions(row, common) for row in rows]
    for number in range(len(common) + 1):
        parts = [(line, row, spans[number]) for line, row, spans in zip(lined, rows, places, strict=True)]
        pieces += _region(parts, (moving, pool), catalogue, run=number)
        if number < len(common):
            begin = places[0][number][1]
            pieces.append(Piece.of_literal(lined[0][begin]))
    return pieces_to_template(role, pieces, catalogue)


def _lines(text: str) -> list[str]:
    """Split at line feeds alone, and keep them: other separators are text."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _region(
    parts: list[tuple[list[str], NDArray[np.int32], tuple[int, int]]],
    shuffled: tuple[set[int], set[int]],
    catalogue: Catalogue,
    run: int,
) -> list[Piece]:
    """Return the pieces of the lines between two that all texts share; ``shuffled``: lines that move, and the pool."""
    if all(begin == end for _, _, (begin, end) in parts):
        return []
    stretches = [stretch_of(row[begin:end], *shuffled) for _, row, (begin, end) in parts]
    if any(stretch is None or stretch[1] > stretch[0] for stretch in stretches):
        if any(stretch is None for stretch in stretches):
            return [Piece.of_values(["".join(lines[b:e]) for lines, _, (b, e) in parts], run, "text")]
        return _around_shuffled(parts, [stretch or (0, 0) for stretch in stretches], catalogue, run)
    return _by_words(["".join(lines[begin:end]) for lines, _, (begin, end) in parts], catalogue, run)


def _around_shuffled(
    parts: list[tuple[list[str], NDArray[np.int32], tuple[int, int]]],
    stretches: list[tuple[int, int]],
    catalogue: Catalogue,
    run: int,
) -> list[Piece]:
    """Return the pieces before the shuffled lines, these as one, and the pieces behind."""
    before, shuffled, behind = [], [], []
    for (lines, _, (begin, end)), (first, last) in zip(parts, stretches, strict=True):
        before.append("".join(lines[begin : begin + first]))
        shuffled.append("".join(lines[begin + first : begin + last]))
        behind.append("".join(lines[begin + last : end]))
    return [
        *_by_words(before, catalogue, run),
        Piece.of_values(shuffled, run, "section"),
        *_by_words(behind, catalogue, run),
    ]


def _by_words(texts: list[str], catalogue: Catalogue, run: int) -> list[Piece]:
    """Return the words that all texts share, and what stands between them."""
    if not any(texts):
        return []
    numbering = Numbering()
    worded = [_typed_words(text, catalogue) for text in texts]
    rows = [numbering.numbers(words) for words in worded]
    common = rows[0][common_to_all(rows)]
    places = [regions(row, common) for row in rows]
    pieces: list[Piece] = []
    for number in range(len(common) + 1):
        values = [
            "".join(words[spans[number][0] : spans[number][1]])
            for words, spans in zip(worded, places, strict=True)
        ]
        if any(values):
            pieces.append(Piece.of_values(values, run))
        if number < len(common):
            pieces.append(Piece.of_literal(worded[0][places[0][number][1]]))
    return pieces


def _typed_words(text: str, catalogue: Catalogue) -> list[str]:
    """Split a text into words, each value of a known kind as one word."""
    words: list[str] = []
    place = 0
    for span in catalogue.spans(text):
        words += words_of(text[place : span.start])
        words.append(text[span.start : span.end])
        place = span.end
    return words + words_of(text[place:])
