"""``tokenizer.json``: Hugging Face ``tokenizers``, which vLLM runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvtools.errors import InputError
from kvtools.tokens.base import ragged_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.table import Ragged


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
        encodings = self._inner.encode_batch_fast(list(texts), add_special_tokens=framed)
        return ragged_rows([encoding.ids for encoding in encodings])
