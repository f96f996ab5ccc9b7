"""The fast tokenizer, checked against its reference in every run.

Builds of ``gigatoken`` have differed from the reference on single code points (another Unicode version), so each
run compares (1) whole prompts of every chunk and (2) every code point that the run meets, once, in the text around
its first place. The first difference raises ``FastTokenizerDiffers``, and the run starts again on the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kvtools.jit import kernel
from kvtools.table import Ragged, offsets_of
from kvtools.tokens.base import FastTokenizerDiffers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.tokens.base import Tokenizer

PROMPTS_CHECKED_PER_CHUNK = 2
_CHECKED_CHARS = 20_000
_CONTEXT_CHARS = 24
_CODE_POINTS = 0x110000


class Checks(NamedTuple):
    """What was compared in a stretch of a run: how many prompts, and which code points."""

    prompts: int
    code_points: NDArray[np.int64]


@dataclass(slots=True)
class CheckedTokenizer:
    """The fast tokenizer beside its reference. ``checked_prompts`` and ``checked_code_points`` count comparisons."""

    reference: Tokenizer
    _fast: Any = field(repr=False)
    checked_prompts: int = 0
    checked_code_points: int = 0
    _seen: NDArray[np.bool_] = field(
        default_factory=lambda: np.zeros(_CODE_POINTS, dtype=np.bool_), repr=False
    )
    _frame: tuple[list[int], list[int]] | None = None
    _taken: int = 0
    _known: list[int] = field(default_factory=list, repr=False)

    def taken_checks(self) -> Checks:
        """Return what was compared since this was asked for last: another process adds it to its own."""
        checks = Checks(self.checked_prompts - self._taken, np.array(self._known, dtype=np.int64))
        self._taken, self._known = self.checked_prompts, []
        return checks

    def add_checks(self, checks: Checks) -> None:
        """Count what another process compared; a code point that was met here too counts once."""
        fresh = checks.code_points[~self._seen[checks.code_points]]
        self._seen[fresh] = True
        self.checked_prompts += checks.prompts
        self.checked_code_points += len(fresh)

    @property
    def name(self) -> str:
        """The name of the reference: the ids are the same."""
        return self.reference.name

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text, nothing added.

        Raises:
            FastTokenizerDiffers: the sample of this chunk does not agree with the reference.
        """
        if not texts:
            return Ragged(np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64))
        self._check(texts)
        return self._encode_fast(texts)

    def framed(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text between the special tokens that the reference adds to every text.

        Raises:
            FastTokenizerDiffers: the sample of this chunk does not agree with the reference.
        """
        inner = self.encode(texts)
        if self._frame is None:
            self._frame = _frame_of(self.reference)
        before, after = self._frame
        if not before and not after:
            return inner
        lengths = inner.lengths() + len(before) + len(after)
        rows = [np.concatenate((before, inner.row(i), after)) for i in range(len(inner))]
        return Ragged(np.concatenate(rows).astype(np.int32), offsets_of(lengths))

    def _encode_fast(self, texts: Sequence[str]) -> Ragged:
        layout = self._fast.encode_batch(list(texts)).layout
        offsets = np.asarray(layout.offsets.data).astype(np.int64)
        ids = np.asarray(layout.content.data)[offsets[0] : offsets[-1]].view(np.int32)
        return Ragged(ids, offsets - offsets[0])

    def _check(self, texts: Sequence[str]) -> None:
        step = max(1, len(texts) // PROMPTS_CHECKED_PER_CHUNK)
        whole = [text[:_CHECKED_CHARS] for text in texts[::step]]
        around = self._unseen_code_points(texts)
        excerpts = whole + around
        expected, found = self.reference.encode(excerpts), self._encode_fast(excerpts)
        for index, excerpt in enumerate(excerpts):
            if not np.array_equal(expected.row(index), found.row(index)):
                raise FastTokenizerDiffers(f"an excerpt of {len(excerpt):,} characters")
        self.checked_prompts += len(whole)
        self.checked_code_points += len(around)

    def _unseen_code_points(self, texts: Sequence[str]) -> list[str]:
        excerpts = []
        for text in texts:
            # "surrogatepass": a lone surrogate cannot come from a reader, but must not crash here.
            if all_seen(np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8), self._seen):
                continue
            points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            for point in np.unique(points[~self._seen[points]]).tolist():
                place = text.index(chr(point))
                excerpts.append(text[max(0, place - _CONTEXT_CHARS) : place + _CONTEXT_CHARS + 1])
                self._seen[point] = True
                self._known.append(point)
        return excerpts


@kernel
def all_seen(utf8: NDArray[np.uint8], seen: NDArray[np.bool_]) -> bool:
    """Return whether all code points of a text (UTF-8, lone surrogates as they come) are marked in ``seen``."""
    at = 0
    while at < len(utf8):
        point = np.int64(utf8[at])
        more = 0
        if point >= 0x80:
            more = 1 + int(point >= 0xE0) + int(point >= 0xF0)
            point &= 0x3F >> more
            for place in range(at + 1, at + 1 + more):
                point = (point << 6) | (utf8[place] & 0x3F)
        if not seen[point]:
            return False
        at += 1 + more
    return True


def _frame_of(reference: Tokenizer) -> tuple[list[int], list[int]]:
    plain = reference.encode(["x"]).values.tolist()
    framed = reference.framed(["x"]).values.tolist()
    for start in range(len(framed) - len(plain) + 1):
        if framed[start : start + len(plain)] == plain:
            return framed[:start], framed[start + len(plain) :]
    raise FastTokenizerDiffers("a text whose special tokens change its own")
