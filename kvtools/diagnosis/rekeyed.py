"""Requests with other prompts, as block keys: rendered, tokenized and keyed as the logged ones were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd

from kvtools.diagnosis.whatif import Prompted
from kvtools.fields.sections import FLAT, texts_of
from kvtools.table import present, text_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.normalize import Rewriting
    from kvtools.profile import Keying

NewPrompt = list[dict[str, Any]] | str | None
"""Chat messages, a flat prompt, or nothing where the request stays as it was."""


@dataclass(frozen=True, slots=True)
class LoggedPrompt:
    """The chat messages or the flat prompt of a request, and its sections (role and text)."""

    prompt: NewPrompt
    texts: Sequence[tuple[str, str]]

    def rewritten(self, rewriting: Rewriting) -> NewPrompt:
        """Return the prompt rewritten, ``None`` where nothing changes."""
        if isinstance(self.prompt, str):
            return rewriting.prompt(self.prompt)
        return None if self.prompt is None else rewriting.messages(self.prompt)


def prompts_of(table: pd.DataFrame, rows: NDArray[np.int64]) -> list[LoggedPrompt]:
    """Return the prompts of the requests ``rows`` of a chunk; logged token ids are taken as they are."""
    chats, flats = text_column(table, "messages"), text_column(table, "prompt")
    given = present(table, "token_ids")
    out = []
    for row in rows.tolist():
        chat, flat = chats[row], flats[row]
        if given[row]:
            out.append(LoggedPrompt(None, ()))
        elif chat is not None:
            messages = msgspec.json.decode(chat)
            out.append(LoggedPrompt(messages, list(texts_of(messages))))
        else:
            out.append(LoggedPrompt(flat, [(FLAT, flat)] if flat else ()))
    return out


def keyed_again(
    keying: Keying,
    table: pd.DataFrame,
    rows: NDArray[np.int64],
    first: int,
    changed: Sequence[tuple[int, NewPrompt]],
) -> Prompted:
    """Return the changed requests (place in ``rows`` and new prompt; ``None``: as it was) as block keys."""
    kept = [(index, prompt) for index, prompt in changed if prompt is not None]
    part = table.iloc[rows[[index for index, _ in kept]]].reset_index(drop=True)
    chats = [None if isinstance(prompt, str) else msgspec.json.encode(prompt).decode() for _, prompt in kept]
    flat = [prompt if isinstance(prompt, str) else None for _, prompt in kept]
    part = part.assign(
        messages=pd.array(chats, dtype=table.dtypes["messages"]),
        prompt=pd.array(flat, dtype=table.dtypes["prompt"]),
    )
    keyed = keying.key(part)
    numbers = np.array([first + index for index, _ in kept], dtype=np.int64)
    return Prompted(numbers[keyed.rows], keyed.prompt_tokens, keyed.keys)
