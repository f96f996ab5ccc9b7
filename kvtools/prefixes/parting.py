"""Two prompts side by side: how far they are equal, what differs first, and what is equal again behind it."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUN_TOKENS = 16
"""Shorter runs of equal tokens behind the parting point are chance, and are not counted."""

_REPEATS = 100
"""A window of tokens that one prompt holds more often is padding: it starts no run, but may belong to one."""

CONTEXT_CHARS = 24
VALUE_CHARS = 40
_RESYNC_CHARS = 8
_WINDOW_CHARS = 400
_WORD_CHARS = 16
_ODD = 0x9E3779B97F4A7C15


def common_length(one: NDArray[Any], other: NDArray[Any]) -> int:
    """Return how many leading values two arrays share."""
    length = min(len(one), len(other))
    different = one[:length] != other[:length]
    place = int(different.argmax()) if length else 0
    return place if length and different[place] else length


def identical_tokens(one: NDArray[np.int32], other: NDArray[np.int32]) -> int:
    """Return the tokens of ``one`` in runs of at least ``RUN_TOKENS`` that ``other`` holds too, in the same order.

    The longest run is taken first, then the longest to the left and to the right of it (Ratcliff and Obershelp, as
    ``difflib``), on the windows of ``RUN_TOKENS`` tokens: equal windows in a row are one run.
    """
    if min(len(one), len(other)) < RUN_TOKENS:
        return 0
    both, cut = np.concatenate((_windows(one), _windows(other))), len(one) - RUN_TOKENS + 1
    names = np.unique(both, return_inverse=True)[1].reshape(-1).tolist()
    mine, theirs = names[:cut], names[cut:]
    padding = {name for name, count in Counter(theirs).items() if count > _REPEATS}
    matcher = SequenceMatcher(padding.__contains__ if padding else None, mine, theirs, autojunk=False)
    covered = np.zeros(len(one), dtype=np.bool_)
    for start, _, size in matcher.get_matching_blocks():
        if size:
            covered[start : start + size + RUN_TOKENS - 1] = True
    return int(covered.sum())


def _windows(tokens: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each run of ``RUN_TOKENS`` tokens: a polynomial modulo 2**64 over spread ids."""
    spread = (tokens.astype(np.uint64) + np.uint64(1)) * np.uint64(_ODD)
    spread ^= spread >> np.uint64(29)
    count = len(tokens) - RUN_TOKENS + 1
    hashes = np.zeros(count, dtype=np.uint64)
    for place in range(RUN_TOKENS):
        hashes = hashes * np.uint64(_ODD) + spread[place : place + count]
    return hashes


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What one prompt holds where two part: the differing ``value`` and a bit of text before and after it.

    ``cut``: the value goes on beyond what is shown.
    """

    before: str
    value: str
    after: str
    cut: bool = False


def first_difference(one: str, other: str) -> int:
    """Return the first character at which two texts differ: so many are equal before it."""
    return common_length(_code_points(one), _code_points(other))


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def excerpts(one: str, other: str, at: int) -> tuple[Excerpt, Excerpt]:
    """Return what both texts hold at character ``at``, their first difference.

    A value reaches from the word in which they part to where they are equal again for some characters.
    """
    lengths = _resync(one[at : at + _WINDOW_CHARS], other[at : at + _WINDOW_CHARS])
    start = at
    while start and _in_word(one, start - 1):
        start -= 1
    if at - start > _WORD_CHARS:  # no word: what differs must not drown in what does not
        start = at
    stops = [at + length for length in lengths]
    while (
        (stops[0] > start or stops[1] > start)
        and stops[0] - start < VALUE_CHARS
        and _same_word(one, other, stops)
    ):
        stops = [stop + 1 for stop in stops]
    return _excerpt(one, start, stops[0]), _excerpt(other, start, stops[1])


def masked(excerpt: Excerpt) -> Excerpt:
    """Return the excerpt with ``x`` for each letter and ``0`` for each digit; punctuation and blanks stay."""
    return Excerpt(_mask(excerpt.before), _mask(excerpt.value), _mask(excerpt.after), excerpt.cut)


def _mask(text: str) -> str:
    return "".join({"L": "x", "M": "x", "N": "0"}.get(unicodedata.category(char)[0], char) for char in text)


def _in_word(text: str, place: int) -> bool:
    return place < len(text) and text[place].isascii() and text[place].isalnum()


def _same_word(one: str, other: str, stops: list[int]) -> bool:
    """Whether both go on with the same character, inside a word."""
    inside = _in_word(one, stops[0]) and _in_word(other, stops[1])
    begun = _in_word(one, stops[0] - 1) or _in_word(other, stops[1] - 1)
    return inside and begun and one[stops[0]] == other[stops[1]]


def _resync(one: str, other: str) -> list[int]:
    """Return after how many characters each the two are equal again: the fewest in sum; all where they never are."""
    end = "\0" * _RESYNC_CHARS  # the ends of two texts are equal too
    mine, theirs = one + end, other + end
    first: dict[str, int] = {}
    for place in range(len(other) + 1):
        first.setdefault(theirs[place : place + _RESYNC_CHARS], place)
    best = (len(one), len(other))
    for place in range(len(one) + 1):
        if place >= sum(best):
            break
        at = first.get(mine[place : place + _RESYNC_CHARS])
        if at is not None and place + at < sum(best):
            best = (place, at)
    return list(best)


def _excerpt(text: str, start: int, stop: int) -> Excerpt:
    return Excerpt(
        before=text[max(0, start - CONTEXT_CHARS) : start],
        value=text[start : min(stop, start + VALUE_CHARS)],
        after="" if stop > start + VALUE_CHARS else text[stop : stop + CONTEXT_CHARS],
        cut=stop > start + VALUE_CHARS,
    )
