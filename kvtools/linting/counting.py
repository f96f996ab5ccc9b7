"""How many tokens of a template are stable: those in front of the first value that changes, and those behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.linting.names import CHANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.linting.units import Read
    from kvtools.tokens import Tokenizer

_BEGINNINGS = (
    "0",
    "7",
    "a",
    "A",
    "é",
    "中",
    " a",
    " 7",
    "_",
    "-",
    "/",
    "#",
    '"',
    "\n",
    "\n\n",
    ".",
    "\uff0c",
    "]",
    "😀",
)
"""Beginnings of values: a token that the text in front ends in may become another one when a value follows."""

_CLASS = CHANGES.index("class")


@dataclass(frozen=True, slots=True)
class StableTokens:
    """``leading`` stand in front of the first value that changes (on ``line``), ``behind`` it the others.

    Only text that the template always prints is counted. Values count 0, also those that all requests of a class share,
    so ``leading`` is a lower bound. ``behind`` is ``None`` of a chat template: messages stand behind.
    """

    leading: int
    behind: int | None
    stopped_by: str | None
    line: int | None


def stable_tokens(reads: Sequence[Read], tokenizer: Tokenizer) -> StableTokens:
    """Count the template's own tokens; each run of text between values is tokenized by itself."""
    stop = next((at for at, read in enumerate(reads) if CHANGES.index(read.changes) > _CLASS), len(reads))
    front = _runs(reads[:stop])
    counts = [_kept(run, tokenizer) for run in front if run]
    behind = sum(_count(run, tokenizer) for run in _runs(reads[stop:]) if run)
    if stop == len(reads):
        if front and front[-1]:
            # The prompt ends with this run: nothing follows that could change its last token.
            counts[-1] = _count(front[-1], tokenizer)
        return StableTokens(sum(counts), behind, None, None)
    piece, reading = reads[stop].piece, reads[stop].reading
    names = [call.name for call in reading.calls] + [
        use.name for use in reading.uses if CHANGES.index(use.judgement.changes) > _CLASS
    ]
    return StableTokens(sum(counts), behind, names[0], piece.line)


def head_tokens(text: str, tokenizer: Tokenizer) -> int:
    """Return how many tokens of ``text`` stay what they are, whatever value follows."""
    return _kept(text, tokenizer)


def _runs(reads: Sequence[Read]) -> list[str]:
    """Return the texts between values, the last one up to the end; what prints nothing does not part them."""
    runs = [""]
    for read in reads:
        if read.piece.kind == "text":
            runs[-1] += read.piece.text
        elif read.piece.kind != "silent":
            runs.append("")
    return runs


def _count(text: str, tokenizer: Tokenizer) -> int:
    return int(tokenizer.encode([text]).lengths()[0])


def _kept(text: str, tokenizer: Tokenizer) -> int:
    if not text:
        return 0
    rows = tokenizer.encode([text, *(text + beginning for beginning in _BEGINNINGS)])
    alone = rows.row(0).tolist()
    return min(_common(alone, rows.row(at).tolist()) for at in range(1, len(rows)))


def _common(one: list[int], other: list[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))
