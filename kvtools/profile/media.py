"""Pictures, sounds and films in prompts: where they stand, so that their hashes enter the block keys.

Given token ids come with the places (``media`` of the request table), and the keys are vLLM's to the token. Chat
messages do not: how many tokens a picture takes is known to the engine alone. There a medium is told apart by what
the log says of it (URL, data, id) from its placeholder on; its tokens are missing from lengths and hits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kvtools.blocks import MediaSpans
from kvtools.errors import TemplateError
from kvtools.table import digest64, text_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.chat import ChatTemplate
    from kvtools.tokens import Tokenizer

_KINDS = (
    "image_url", "input_image", "image_pil", "image_embeds", "audio_url", "input_audio", "audio_embeds", "video_url",
    "video_embeds",
)  # fmt: skip
_QUOTED = tuple(f'"{kind}"' for kind in _KINDS)
_SORTED = msgspec.json.Encoder(order="sorted")


class GivenMedium(msgspec.Struct):
    """One entry of the column ``media``: what it is, its first token and how many there are."""

    hash: str
    offset: int
    length: int


_GIVEN = msgspec.json.Decoder(list[GivenMedium])


def holds_media(messages: str | None) -> bool:
    """Return whether canonical messages hold a picture, a sound or a film; a quote in a text is escaped there."""
    return messages is not None and any(quoted in messages for quoted in _QUOTED)


@dataclass(slots=True)
class MediaFinder:
    """Collects the media of a chunk: ``rows`` of the table with, for each medium, the text before it and its digest."""

    rows: list[int] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)
    requests: int = 0

    def add(
        self, row: int, text: str, messages: list[dict[str, Any]], tools: Any, template: ChatTemplate
    ) -> None:
        """Take the media of one chat request, whose prompt is ``text``."""
        found = [
            (place, index, _digest(part))
            for place, message in enumerate(messages)
            if isinstance(message.get("content"), list)
            for index, part in enumerate(message["content"])
            if isinstance(part, dict) and _kind(part) is not None
        ]
        self.requests += bool(found)
        for place, index, digest in found:
            self.rows.append(row)
            self.before.append(text[: _starts(text, messages, (place, index), tools, template)])
            self.digests.append(digest)

    def spans(self, table: pd.DataFrame, rows: NDArray[np.int64], tokenizer: Tokenizer) -> MediaSpans | None:
        """Return all media of the prompts ``rows`` of the chunk, ``None`` where there are none."""
        offsets = tokenizer.encode(self.before).lengths() if self.before else np.empty(0, dtype=np.int64)
        entries = [
            (int(np.searchsorted(rows, row)), offset, 1, digest)
            for row, offset, digest in zip(self.rows, offsets.tolist(), self.digests, strict=True)
        ]
        entries += _given(text_column(table, "media"), rows)
        if not entries:
            return None
        request, offset, length, digest = zip(*entries, strict=True)
        return MediaSpans(
            np.array(request), np.array(offset), np.array(length), np.array(digest, dtype=np.uint64)
        )


def _given(column: Sequence[str | None], rows: NDArray[np.int64]) -> list[tuple[int, int, int, int]]:
    return [
        (index, medium.offset, medium.length, digest64(medium.hash))
        for index, row in enumerate(rows.tolist())
        if (entry := column[row])
        for medium in _GIVEN.decode(entry)
    ]


def _kind(part: dict[str, Any]) -> str | None:
    kind = part.get("type")
    if kind is None:
        return next((name for name in _KINDS if name in part), None)
    return kind if kind in _KINDS else None


def _digest(part: dict[str, Any]) -> int:
    """Return a digest of what the log says of a medium: its ``uuid`` (vLLM hashes nothing else then), URL or data."""
    if part.get("uuid"):
        return digest64(str(part["uuid"]))
    said = {name: value for name, value in part.items() if name not in ("type", "detail", "uuid")}
    said = {
        name: value.get("url", value) if isinstance(value, dict) else value for name, value in said.items()
    }
    return digest64(_SORTED.encode(said).decode())


def _starts(
    text: str, messages: list[dict[str, Any]], at: tuple[int, int], tools: Any, template: ChatTemplate
) -> int:
    """Return the character where a medium's placeholder begins: up to there, the prompt without it is the same.

    The media behind it are left out too: equal placeholders in a row would hide which one is missing.
    """
    place, index = at
    shorter = [
        message
        if number < place or not isinstance(message.get("content"), list)
        else message
        | {
            "content": [
                part
                for where, part in enumerate(message["content"])
                if not (isinstance(part, dict) and _kind(part)) or (number, where) < (place, index)
            ]
        }
        for number, message in enumerate(messages)
    ]
    try:
        return _shared_chars(text, template.render(shorter, tools))
    except TemplateError:
        return 0  # a template that wants the medium: nothing behind the prompt's begin can be vouched for


def _shared_chars(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
