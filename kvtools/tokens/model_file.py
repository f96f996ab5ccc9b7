"""What a SentencePiece model file says that its library does not tell: the kind of each piece and of the model.

The file is a protocol buffer, ``sentencepiece_model.proto`` of github.com/google/sentencepiece: pieces are field 1
(text 1, kind 3), the training is field 2 (kind of the model 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of pieces."""
UNIGRAM, BPE = 1, 2
"""Kinds of models."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class PieceModel:
    """The pieces in the order of their ids, the kind of each, and the kind of the model."""

    pieces: list[str]
    kinds: list[int]
    model: int


def read_model(file: Path, data: bytes) -> PieceModel:
    """Return the pieces of a model file.

    Raises:
        InputError: the file is damaged, or no SentencePiece model.
    """
    pieces: list[str] = []
    kinds: list[int] = []
    model = UNIGRAM
    try:
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                piece = dict(_fields(value))
                text = piece[1]
                pieces.append(text.decode() if isinstance(text, bytes) else "")
                kinds.append(_integer(piece.get(3), NORMAL))
            elif number == 2 and isinstance(value, bytes):
                model = _integer(dict(_fields(value)).get(3), model)
    except (IndexError, KeyError, ValueError):
        pieces = []
    if not pieces:
        raise InputError(f"{file}: not a SentencePiece model, or damaged; give another --tokenizer.")
    return PieceModel(pieces, kinds, model)


def _integer(value: int | bytes | None, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message; numbers of fixed width as their bytes."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, place = _varint(data, place)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}[kind]
        if place + size > len(data):
            raise ValueError("cut short")
        yield tag >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
