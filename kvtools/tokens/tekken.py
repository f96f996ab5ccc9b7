"""Mistral's ``tekken.json``, run by tiktoken as mistral-common does (its ``tekken.py``).

The file carries its pattern and its special tokens, whose ids come first; the others are moved behind them. vLLM puts
BOS before a raw completion, whose text is never taken for a special token. There is no chat template: mistral-common
encodes what stands between two control tokens on its own. Here control tokens are recognised wherever the rendered
chat has them, which is the same, save for a message whose own text spells one.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import msgspec

from kvtools.errors import InputError
from kvtools.tokens.ranks import RankTokenizer, rank_core

if TYPE_CHECKING:
    from pathlib import Path


class _TekkenToken(msgspec.Struct):
    rank: int
    token_bytes: str


class _TekkenSpecial(msgspec.Struct):
    rank: int
    token_str: str


class _TekkenConfig(msgspec.Struct):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int


class _Tekken(msgspec.Struct):
    config: _TekkenConfig
    vocab: list[_TekkenToken]
    special_tokens: list[_TekkenSpecial] | None = None


# Files up to version v7 do not list their special tokens (``DEPRECATED_SPECIAL_TOKENS``).
_TEKKEN_SPECIAL = (
    "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]",
    "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
)  # fmt: skip


def load_tekken(name: str, file: Path) -> RankTokenizer:
    """Load a ``tekken.json``.

    Raises:
        InputError: the file is damaged or no tekken.
        MissingExtra: tiktoken is not installed.
    """
    try:
        data = msgspec.json.decode(file.read_bytes(), type=_Tekken)
        moved = data.config.default_num_special_tokens
        kept = data.vocab[: data.config.default_vocab_size - moved]
        ranks = {base64.b64decode(token.token_bytes, validate=True): moved + token.rank for token in kept}
    except (msgspec.MsgspecError, binascii.Error, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not a tekken.json ({error}); give another --tokenizer.") from None
    listed = [one.token_str for one in data.special_tokens or ()] or list(_TEKKEN_SPECIAL)
    listed += [f"<SPECIAL_{number}>" for number in range(len(listed), moved)]
    special = {text: number for number, text in enumerate(listed)}
    special |= {one.token_str: one.rank for one in data.special_tokens or ()}
    inner = rank_core(file, data.config.pattern, ranks, special)
    if "<s>" not in special:
        raise InputError(f"{file}: has no token <s> to begin a prompt with; give another --tokenizer.")
    return RankTokenizer(name, inner, before=(special["<s>"],))
