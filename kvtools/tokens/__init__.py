"""Prompt text to token ids: the tokenizer that ``--tokenizer`` names, with the fast one checked in every run.

============================  ===============================  ===================================================
file                          reference                        fast path, checked against it
============================  ===============================  ===================================================
``tokenizer.json``            Hugging Face ``tokenizers``      ``gigatoken``
``*.tiktoken``                ``tiktoken``                     ``gigatoken``, where it knows the encoding
``tekken.json``               ``tiktoken``, with its pattern   none
SentencePiece (``*.model``)   ``sentencepiece``                none
============================  ===============================  ===================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvtools.tokens.base import BytesTokenizer, FastTokenizerDiffers, Tokenizer
from kvtools.tokens.checked import PROMPTS_CHECKED_PER_CHUNK, CheckedTokenizer
from kvtools.tokens.files import BYTES_TOKENIZER, DEFAULT_TOKENIZER, kind_of, tokenizer_file
from kvtools.tokens.huggingface import ReferenceTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = [
    "BYTES_TOKENIZER",
    "DEFAULT_TOKENIZER",
    "PROMPTS_CHECKED_PER_CHUNK",
    "BytesTokenizer",
    "CheckedTokenizer",
    "FastTokenizerDiffers",
    "ReferenceTokenizer",
    "Tokenizer",
    "how_checked",
    "load_tokenizer",
]


def load_tokenizer(spec: str = DEFAULT_TOKENIZER, *, fast: bool = True) -> Tokenizer:
    """Load the tokenizer that ``spec`` names: ``deepseek``, ``bytes``, a tokenizer's file or a model folder.

    With ``fast=False``, or where the fast tokenizer cannot take this file, the reference alone is used.

    Raises:
        InputError: there is no such file, or it is no tokenizer.
        MissingExtra: the package that reads this kind of file is not installed.
        UsageError: a rank file whose pattern is neither known nor stated.
    """
    if spec == BYTES_TOKENIZER:
        return BytesTokenizer()
    name, file = tokenizer_file(spec)
    kind = kind_of(file)
    if kind == "tekken":
        from kvtools.tokens.tekken import load_tekken  # noqa: PLC0415 - only where used

        return load_tekken(name, file)
    if kind == "ranks":
        return _rank_tokenizer(name, file, fast=fast)
    if kind == "pieces":
        from kvtools.tokens.pieces import load_pieces  # noqa: PLC0415 - only where used

        return load_pieces(name, file)
    reference = ReferenceTokenizer.load(name, file)
    return _checked(reference, lambda: _fast_json(file)) if fast else reference


def how_checked(tokenizer: Tokenizer) -> str:
    """Say how the ids of a run were made sure of, once it is over."""
    if isinstance(tokenizer, CheckedTokenizer):
        return (
            f"fast, equal to the reference on {tokenizer.checked_prompts} prompts "
            f"and {tokenizer.checked_code_points} code points"
        )
    return "reference" if isinstance(tokenizer, (BytesTokenizer, ReferenceTokenizer)) else "reference only"


def _rank_tokenizer(name: str, file: Path, *, fast: bool) -> Tokenizer:
    from kvtools.tokens.ranks import encoding_of, fast_ranks, load_ranks  # noqa: PLC0415 - only where used

    encoding = encoding_of(file)
    reference = load_ranks(name, file, encoding)
    return _checked(reference, lambda: fast_ranks(file, encoding)) if fast else reference


def _fast_json(file: Path) -> Any:
    from gigatoken.gigatoken_rs import load_hf_json  # noqa: PLC0415 - heavy, loads only where used

    return load_hf_json(file.read_bytes())


def _checked(reference: Tokenizer, load: Callable[[], Any]) -> Tokenizer:
    try:
        fast = load()
    except Exception:  # noqa: BLE001 - it raises many kinds for files it does not know; the reference takes them
        return reference
    return reference if fast is None else CheckedTokenizer(reference, fast)
