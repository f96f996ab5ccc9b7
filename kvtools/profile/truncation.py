"""Prompts that the logger cut: their figures are those of what is left of them.

A cut prompt can be told from a whole one by three signs, each of which a whole prompt does not show:

1. Its text ends with a logger's mark (``...(truncated)``, ``…[truncated]``) or holds LiteLLM's
   (``(litellm_truncated``), and the server's own count of its tokens, where logged, does not say that it is whole.
   Messages of tools are left out: agents shorten results themselves, and send them so.
2. The server counted more tokens than the text has UTF-8 bytes, and 1,024 more: no tokenizer makes more than one
   token of a byte, and templates add less. Requests with media are left out: a picture takes tokens and no text.
3. Raw prompts pile up at the length of the longest, as vLLM's ``--max-log-len N`` leaves them: N characters and at
   most N token ids. Either at least two that stand there with as many ids as characters, and none so elsewhere; or
   at least eight that end differently (whole prompts of one template end alike).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow.compute as pc

from kvtools.profile.media import holds_media
from kvtools.table import arrow_column, digest64, integer_column, ragged_column

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from kvtools.profile.keying import Keyed

ADDED_TOKENS = 1024
ENDINGS = 8
WITH_IDS = 2
_SHORTEST = 16
_ENDING_CHARS = 16
_LITELLM = "(litellm_truncated"
_MARK = re.compile(r"(?:\.\.\.|…)\s?(?:\(truncated\)|\[truncated\]|<truncated>)\s*\Z", re.IGNORECASE)
_OF_TOOLS = ("tool", "function")


@dataclass(slots=True)
class Pile:
    """Raw prompts of the greatest length, in characters. ``equal``: prompts of any length with as many ids."""

    longest: int = 0
    text_only: int = 0
    with_ids: int = 0
    endings: frozenset[int] = frozenset()
    equal: int = 0

    def add(self, other: Pile) -> None:
        """Add another stretch of the log."""
        self.equal += other.equal
        if other.longest < self.longest:
            return
        if other.longest > self.longest:
            self.longest, self.text_only, self.with_ids, self.endings = other.longest, 0, 0, frozenset()
        self.text_only += other.text_only
        self.with_ids += other.with_ids
        self.endings = _few(self.endings | other.endings)

    @property
    def cut(self) -> int:
        """How many of them were cut: all or none."""
        by_ids = self.with_ids >= WITH_IDS and self.equal == self.with_ids
        return self.text_only + self.with_ids if by_ids or len(self.endings) >= ENDINGS else 0


@dataclass(slots=True)
class Cuts:
    """The state of the fold: prompts with a mark or too many tokens, and the pile of the longest others."""

    seen: int = 0
    pile: Pile = field(default_factory=Pile)

    @classmethod
    def of(cls, table: pd.DataFrame, keyed: Keyed) -> Cuts:
        """Look at the prompts of one chunk."""
        if keyed.tokens is None or not len(keyed.rows):
            return cls()
        texts = [arrow_column(table, name).take(keyed.rows) for name in ("messages", "prompt", "tools")]
        reported = integer_column(table, "prompt_tokens")[keyed.rows]
        given = ragged_column(table, "token_ids").lengths()[keyed.rows]
        cut = _marked(texts[0], texts[1], reported, keyed.prompt_tokens) | _too_many(texts, reported, given)
        return cls(int(cut.sum()), _pile(texts[1], given, ~cut))

    def add(self, other: Cuts) -> None:
        """Add another stretch of the log."""
        self.seen += other.seen
        self.pile.add(other.pile)

    @property
    def prompts(self) -> int:
        """How many prompts were cut."""
        return self.seen + self.pile.cut


def _marked(
    messages: pa.Array, prompts: pa.Array, reported: NDArray[np.int64], counted: NDArray[np.int64]
) -> NDArray[np.bool_]:
    marked = np.zeros(len(prompts), dtype=np.bool_)
    for column, ends in ((messages, _messages_end), (prompts, _ends)):
        hits = pc.match_substring(column, "truncated", ignore_case=True).fill_null(False)  # noqa: FBT003 - pyarrow's
        for row in np.flatnonzero(hits.to_numpy(zero_copy_only=False)).tolist():
            marked[row] = ends(column[row].as_py())
    # The server counted about what we do: the mark was sent with the prompt.
    whole = (reported >= 0) & (reported <= counted * 5 // 4 + 16)
    return marked & ~whole


def _messages_end(encoded: str) -> bool:
    return any(
        _ends(text)
        for message in msgspec.json.decode(encoded)
        if message.get("role") not in _OF_TOOLS
        for text in _texts(message.get("content"))
    )


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]


def _ends(text: str) -> bool:
    return _LITELLM in text or _MARK.search(text[-64:]) is not None


def _too_many(
    texts: list[pa.Array], reported: NDArray[np.int64], given: NDArray[np.int64]
) -> NDArray[np.bool_]:
    lengths = [pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False) for column in texts]
    most: NDArray[np.int64] = np.where(given > 0, given, sum(lengths)) + ADDED_TOKENS
    beyond: NDArray[np.bool_] = reported > most
    for row in np.flatnonzero(beyond).tolist():
        beyond[row] = not holds_media(texts[0][row].as_py())
    return beyond


def _pile(prompts: pa.Array, given: NDArray[np.int64], looked_at: NDArray[np.bool_]) -> Pile:
    chars = pc.utf8_length(prompts).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    chars = np.where(looked_at & (chars >= _SHORTEST), chars, 0)
    longest = int(chars.max())
    if not longest:
        return Pile()
    here, same = chars == longest, (chars > 0) & (given == chars)
    text_only = here & (given == 0)
    ends = {
        digest64(prompts[row].as_py()[-_ENDING_CHARS:])
        for row in np.flatnonzero(text_only | (here & same)).tolist()
    }
    return Pile(longest, int(text_only.sum()), int((here & same).sum()), _few(ends), int(same.sum()))


def _few(digests: set[int] | frozenset[int]) -> frozenset[int]:
    """Keep the smallest: which ones must not depend on the order in which stretches are merged."""
    return frozenset(sorted(digests)[:ENDINGS])
