"""What every tokenizer is to the rest of the project, and the one that needs no file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class Tokenizer(Protocol):
    """Text to ids. ``name`` stands beside every figure that depends on it."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the int32 ids of each text, special tokens written in the text recognised, none added."""

    def framed(self, texts: Sequence[str]) -> Ragged:
        """Return the ids as for a raw completion: with what the tokenizer itself adds (a BOS, say)."""


class FastTokenizerDiffers(Exception):  # noqa: N818 - names what happened
    """The fast tokenizer gave other ids than the reference; ``excerpt`` is the code point or length concerned."""


@dataclass(frozen=True, slots=True)
class BytesTokenizer:
    """One UTF-8 byte is one token; special tokens are plain text. No model has it: for tests and for the curious."""

    name: str = "bytes tokenizer"

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the UTF-8 bytes of each text."""
        data = [text.encode() for text in texts]
        lengths = np.array([len(part) for part in data], dtype=np.int64)
        return Ragged(np.frombuffer(b"".join(data), dtype=np.uint8).astype(np.int32), offsets_of(lengths))

    def framed(self, texts: Sequence[str]) -> Ragged:
        """Return the UTF-8 bytes of each text: nothing is added."""
        return self.encode(texts)


def ragged_rows(rows: Sequence[Sequence[int]]) -> Ragged:
    """Return lists of ids as one ragged int32 column."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.fromiter((token for row in rows for token in row), dtype=np.int32, count=int(lengths.sum()))
    return Ragged(flat, offsets_of(lengths))
