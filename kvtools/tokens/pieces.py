r"""SentencePiece models (``*.model``), encoded as vLLM does.

SentencePiece cuts, but what goes around it depends on who loads the file:

- **mistral-common** (``tokenizer.model.v1`` … ``.v7m1``): SentencePiece as the model says; BOS before a raw
  completion, whose text is never taken for a control token; what stands between control tokens is encoded on its own.
- **transformers 5**, which vLLM runs for a folder with ``tokenizer.model``: it does not normalize; text has the
  control, unknown and user-defined pieces and the added tokens of ``tokenizer_config.json`` cut out first. A space
  is put before what is left if the class is ``LlamaTokenizer``: before the beginning of the text (``legacy`` false
  or not given) or before each stretch (``legacy`` true), not with ``add_prefix_space`` false, and not where one is
  already. BOS and EOS stand around a raw completion only where ``add_bos_token`` and ``add_eos_token`` say so.

Read from transformers 5.19 (``tokenization_llama.py``) and compared with it in ``make test-oracle``. Other classes
have rules of their own, and are refused, as are models that transformers does not take as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kvtools.errors import InputError, MissingExtra
from kvtools.tokens.base import ragged_rows
from kvtools.tokens.model_file import BPE, BYTE, CONTROL, UNKNOWN, USER_DEFINED, PieceModel, read_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kvtools.table import Ragged

SPACE = "▁"
# Appended to a stored model, these fields replace its own: no space in front, every space kept, nothing normalized.
_PLAIN = bytes([0x1A, 6, 0x12, 0, 0x18, 0, 0x20, 0])
_LLAMA = ("LlamaTokenizer", "LlamaTokenizerFast")
_GENERIC = (None, "PreTrainedTokenizerFast", "TokenizersBackend")

Prefix = Literal["never", "first", "always", "model"]
"""Before which stretches of a text a space is put; ``model``: as the stored model says."""


class _Added(msgspec.Struct):
    """A token that ``tokenizer_config.json`` adds to the model's own."""

    content: str
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


class _Config(msgspec.Struct):
    """What ``tokenizer_config.json`` says of how text becomes ids."""

    tokenizer_class: str | None = None
    legacy: bool | None = None
    add_prefix_space: bool | None = None
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    bos_token: str | _Added | None = None
    eos_token: str | _Added | None = None
    added_tokens_decoder: dict[str, _Added] = {}


@dataclass(frozen=True, slots=True)
class PieceTokenizer:
    """SentencePiece and what its user puts around it; ``before`` and ``after`` stand around a raw completion.

    ``raw_special``: whether special tokens are recognised in a raw completion too.
    """

    name: str
    _inner: Any = field(repr=False)
    special: dict[str, int] = field(repr=False)
    prefix: Prefix
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    raw_special: bool = True

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text, special tokens written in it recognised, none added."""
        return self._ids(texts, self.special, (), ())

    def framed(self, texts: Sequence[str]) -> Ragged:
        """Return the ids of each text as of a raw completion: see the module."""
        return self._ids(texts, self.special if self.raw_special else {}, self.before, self.after)

    def _ids(
        self, texts: Sequence[str], special: dict[str, int], before: tuple[int, ...], after: tuple[int, ...]
    ) -> Ragged:
        # The longest first: one special token can begin as another does.
        longest = sorted(special, key=len, reverse=True)
        cut = re.compile(f"({'|'.join(map(re.escape, longest))})" if longest else "(?!)")
        parted = [self._parted(cut.split(text), special) for text in texts]
        plain = [part for parts in parted for part in parts if isinstance(part, str)]
        encoded = iter(self._inner.encode(plain))
        rows = [
            [
                *before,
                *chain.from_iterable((part,) if isinstance(part, int) else next(encoded) for part in parts),
                *after,
            ]
            for parts in parted
        ]
        return ragged_rows(rows)

    def _parted(self, cuts: list[str], special: dict[str, int]) -> list[str | int]:
        """Return special tokens (every second cut) as ids, and the rest as SentencePiece is to see it."""
        parts: list[str | int] = []
        for number, cut in enumerate(cuts):
            if number % 2:
                parts.append(special[cut])
            elif cut:
                spaced = self.prefix == "always" or (self.prefix == "first" and number == 0)
                parts.append(SPACE + cut if spaced and not cut.startswith((" ", SPACE)) else cut)
        return parts


def load_pieces(name: str, file: Path) -> PieceTokenizer:
    """Load a SentencePiece model, with the ``tokenizer_config.json`` beside it where there is one.

    Raises:
        InputError: the file is damaged, or its tokenizer class is not one whose rules are known.
        MissingExtra: sentencepiece is not installed.
    """
    try:
        import sentencepiece  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise MissingExtra(
            f"{file}: needs sentencepiece, which is not installed; pip install 'kvtools[sentencepiece]'."
        ) from None
    data = file.read_bytes()
    model = read_model(file, data)
    if file.suffix != ".model":
        control = {
            piece: number for number, piece in enumerate(model.pieces) if model.kinds[number] == CONTROL
        }
        bos = _token(file, "<s>", control)
        return PieceTokenizer(name, _processor(file, data), control, "model", (bos,), raw_special=False)
    return _as_transformers(name, file, data, model)


def _as_transformers(name: str, file: Path, data: bytes, model: PieceModel) -> PieceTokenizer:
    beside = file.with_name("tokenizer_config.json")
    try:
        config = msgspec.json.decode(beside.read_bytes(), type=_Config) if beside.is_file() else _Config()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(
            f"{beside}: not a tokenizer's configuration ({error}); get a whole copy of it."
        ) from None
    _known(file, model, config)
    special = {
        piece: number
        for number, piece in enumerate(model.pieces)
        if model.kinds[number] in (UNKNOWN, CONTROL, USER_DEFINED)
    }
    special |= {token.content: int(number) for number, token in config.added_tokens_decoder.items()}
    before = (_token(file, config.bos_token or "<s>", special),) if config.add_bos_token else ()
    after = (_token(file, config.eos_token or "</s>", special),) if config.add_eos_token else ()
    prefix: Prefix = "never"
    if config.tokenizer_class in _LLAMA and config.add_prefix_space is not False:
        prefix = "always" if config.legacy else "first"
    if not beside.is_file():
        name += " (no tokenizer_config.json: nothing put before a text)"
    return PieceTokenizer(name, _processor(file, data + _PLAIN), special, prefix, before, after)


def _known(file: Path, model: PieceModel, config: _Config) -> None:
    """Refuse what transformers encodes by other rules than those written down here."""
    told = "give its tokenizer.json (transformers' save_pretrained writes one)."
    if config.tokenizer_class not in (*_LLAMA, *_GENERIC):
        raise InputError(f"{file}: the rules of {config.tokenizer_class} are not known here; {told}")
    if model.model != BPE or BYTE not in model.kinds:
        raise InputError(f"{file}: not a BPE model with pieces for all bytes, as Llama's is; {told}")
    if any(
        SPACE in piece for piece, kind in zip(model.pieces, model.kinds, strict=True) if kind == USER_DEFINED
    ):
        raise InputError(f"{file}: defines pieces of its own that hold spaces; {told}")
    for token in config.added_tokens_decoder.values():
        if token.lstrip or token.rstrip or token.single_word:
            raise InputError(f"{file}: its token {token.content} takes the space around it along; {told}")


def _token(file: Path, token: str | _Added, special: dict[str, int]) -> int:
    text = token if isinstance(token, str) else token.content
    if text not in special:
        raise InputError(f"{file}: has no token {text} to put around a prompt; give another --tokenizer.")
    return special[text]


def _processor(file: Path, data: bytes) -> Any:
    from sentencepiece import SentencePieceProcessor  # noqa: PLC0415 - an extra

    try:
        return SentencePieceProcessor(model_proto=data)
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{file}: sentencepiece refuses it ({error}); give another --tokenizer.") from None
