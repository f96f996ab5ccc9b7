r"""tiktoken's rank files, run by tiktoken.

A ``*.tiktoken`` file holds byte strings and their merge ranks, nothing else. How text is cut before merging, and
which ids the special tokens have, goes with the name of the encoding:

- ``r50k_base``, ``p50k_base``, ``cl100k_base``, ``o200k_base``, ``o200k_harmony``: github.com/openai/tiktoken,
  ``tiktoken_ext/openai_public.py``, which also states the SHA-256 of each file;
- ``qwen``: huggingface.co/Qwen/Qwen-7B, ``tokenization_qwen.py``, which brings text to NFC first.

Any other needs both stated in a JSON file beside it, under tiktoken's own names: ``x.tiktoken``, and
``x.tiktoken.json`` with ``{"pat_str": "…", "special_tokens": {"<|end|>": 300}}``. None of these encodings adds
anything to a raw completion.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import InputError, MissingExtra, UsageError
from kvtools.tokens.base import ragged_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kvtools.table import Ragged

_END = "<|endoftext|>"
_END_OF_PROMPT = "<|endofprompt|>"
_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"""
    r"""|\s*[\r\n]|\s+(?!\S)|\s"""
)
_O200K = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
    r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
_QWEN = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
_O200K_HASH = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_HARMONY = {
    200002: "<|return|>",
    200003: "<|constrain|>",
    200005: "<|channel|>",
    200006: "<|start|>",
    200007: "<|end|>",
    200008: "<|message|>",
    200012: "<|call|>",
}
_RESERVED = range(200000, 201088)


@dataclass(frozen=True, slots=True)
class Encoding:
    """What a rank file does not say. ``scheme``: the fast tokenizer's name for the pattern; ``nfc``: text first is."""

    pattern: str
    special: Mapping[str, int]
    scheme: str | None = None
    sha256: str | None = None
    nfc: bool = False


ENCODINGS = {
    "r50k_base": Encoding(
        _GPT2, {_END: 50256}, "gpt2", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
    ),
    "p50k_base": Encoding(
        _GPT2, {_END: 50256}, "gpt2", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
    ),
    "cl100k_base": Encoding(
        _CL100K,
        {
            _END: 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            _END_OF_PROMPT: 100276,
        },
        "gpt4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": Encoding(_O200K, {_END: 199999, _END_OF_PROMPT: 200018}, "o200k", _O200K_HASH),
    "o200k_harmony": Encoding(
        _O200K,
        {"<|startoftext|>": 199998, _END: 199999, _END_OF_PROMPT: 200018}
        | {_HARMONY.get(number, f"<|reserved_{number}|>"): number for number in _RESERVED},
        "o200k",
        _O200K_HASH,
    ),
    "qwen": Encoding(
        _QWEN,
        {
            name: 151643 + number
            for number, name in enumerate(
                (_END, "<|im_start|>", "<|im_end|>", *(f"<|extra_{one}|>" for one in range(205)))
            )
        },
        "qwen2",
        nfc=True,
    ),
}
"""The encodings known by the name of their file."""


class _Stated(msgspec.Struct, forbid_unknown_fields=True):
    """The file beside a rank file, under the names of tiktoken's ``Encoding``."""

    pat_str: str
    special_tokens: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class RankTokenizer:
    """tiktoken's core. ``before``: ids in front of a raw completion, whose text then holds no special tokens."""

    name: str
    _inner: Any = field(repr=False)
    nfc: bool = False
    before: tuple[int, ...] = ()

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text, special tokens written in it recognised."""
        return ragged_rows(
            self._inner.encode_batch(self._normal(texts), allowed_special="all", disallowed_special=())
        )

    def framed(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text as vLLM reads a raw completion: see the module."""
        if not self.before:
            return self.encode(texts)
        rows = self._inner.encode_ordinary_batch(self._normal(texts))
        return ragged_rows([[*self.before, *row] for row in rows])

    def _normal(self, texts: Sequence[str]) -> list[str]:
        return [unicodedata.normalize("NFC", text) for text in texts] if self.nfc else list(texts)


@dataclass(frozen=True, slots=True)
class _Normalizing:
    """The fast tokenizer behind the same normal form as its reference."""

    inner: Any

    def encode_batch(self, texts: Sequence[str]) -> Any:
        return self.inner.encode_batch([unicodedata.normalize("NFC", text) for text in texts])


def encoding_of(file: Path) -> Encoding:
    """Return what the name of a rank file, or the JSON file beside it, says of its pattern and special tokens.

    Raises:
        InputError: the file beside it states neither, or the ranks are not those of the encoding it is named after.
        UsageError: the name is not known and nothing is stated.
    """
    beside = file.with_name(f"{file.name}.json")
    if beside.is_file():
        try:
            stated = msgspec.json.decode(beside.read_bytes(), type=_Stated)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(
                f'{beside}: does not state an encoding ({error}); write {{"pat_str": …, "special_tokens": {{…}}}}.'
            ) from None
        return Encoding(stated.pat_str, stated.special_tokens)
    known = ENCODINGS.get(file.stem)
    if known is None:
        raise UsageError(
            f"--tokenizer {file}: an encoding of this name is not known; name the file after one of "
            f"{', '.join(ENCODINGS)}, or state its pattern in {beside.name} as "
            '{"pat_str": …, "special_tokens": {…}}.'
        )
    if known.sha256 not in (None, hashlib.sha256(file.read_bytes()).hexdigest()):
        raise InputError(
            f"{file}: not the ranks that tiktoken publishes as {file.stem}; get a whole copy, or give the file "
            f"another name and state its pattern in a JSON file beside it."
        )
    return known


def load_ranks(name: str, file: Path, encoding: Encoding) -> RankTokenizer:
    """Load a ``*.tiktoken`` file.

    Raises:
        InputError: the file is damaged, or does not go with the encoding.
        MissingExtra: tiktoken is not installed.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise InputError(
                f"{file}:{number}: not a token in base64 and its rank; give another --tokenizer."
            ) from None
    return RankTokenizer(name, rank_core(file, encoding.pattern, ranks, encoding.special), encoding.nfc)


def fast_ranks(file: Path, encoding: Encoding) -> Any | None:
    """Return the fast tokenizer for a rank file, ``None`` where it does not know the pattern."""
    if encoding.scheme is None:
        return None
    from gigatoken.gigatoken_rs import BPETokenizer  # noqa: PLC0415 - heavy, loads only where used

    inner = BPETokenizer.from_tiktoken(str(file), encoding.scheme, dict(encoding.special))
    return _Normalizing(inner) if encoding.nfc else inner


def rank_core(file: Path, pattern: str, ranks: dict[bytes, int], special: Mapping[str, int]) -> Any:
    """Return tiktoken's encoder of these ranks.

    Raises:
        InputError: it would not take them.
        MissingExtra: tiktoken is not installed.
    """
    try:
        import tiktoken  # noqa: PLC0415 - an extra
    except ImportError:
        extra = "mistral" if file.suffix == ".json" else "tiktoken"
        raise MissingExtra(
            f"{file}: needs tiktoken, which is not installed; pip install 'kvtools[{extra}]'."
        ) from None
    # tiktoken itself would panic over these, in the middle of a run.
    if missing := [byte for byte in range(256) if bytes([byte]) not in ranks]:
        raise InputError(f"{file}: has no token for the byte {missing[0]:#04x}; get a whole copy of it.")
    ids = set(ranks.values())
    if len(ids) < len(ranks) or ids & set(special.values()):
        raise InputError(f"{file}: two tokens have one id; the special tokens are those of another file.")
    try:
        return tiktoken.Encoding(
            file.stem, pat_str=pattern, mergeable_ranks=ranks, special_tokens=dict(special)
        )
    except (ValueError, OverflowError) as error:
        raise InputError(f"{file}: tiktoken refuses it ({error}); give another --tokenizer.") from None
