"""Chat requests as prompts of sections, with the orders of these that an API can express.

Sections: the tools, each leading system or developer message, the earlier turns, and the question (the last user
message and what stands behind it). Every message is a component of its own, the tools are one. What a request cannot
say is kept: tools have a field of their own and come first, where most templates print them; the turns keep their
order; the question comes last; and instructions stay in front of the turns, since many templates refuse or move a
system message that comes later. What is left to advise is the order of several system messages. Parts *inside* one
message are fields or shuffled lines, not sections.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kvtools.diagnosis.sectioned import sectioned
from kvtools.table import digest64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kvtools.diagnosis.sectioned import SectionedLog

TOOLS, TURNS, QUESTION = "tools", "earlier turns", "question"
_INSTRUCTIONS = frozenset({"system", "developer"})
_ENCODE = msgspec.json.Encoder(order="deterministic").encode


def byte_lengths(texts: Sequence[str]) -> list[int]:
    """Return the UTF-8 length of each text: the measure where no tokenizer is at hand."""
    return [len(text.encode()) for text in texts]


@dataclass(frozen=True, slots=True)
class ChatParts:
    """One chat as component ids: the tools (one or none), each leading system message, earlier turns, the question."""

    tools: list[int]
    leading: list[int]
    turns: list[int]
    question: list[int]

    @property
    def ids(self) -> list[int]:
        """All ids, in prompt order."""
        return [*self.tools, *self.leading, *self.turns, *self.question]

    @property
    def components(self) -> int:
        """How many there are."""
        return len(self.ids)

    @property
    def digest(self) -> int:
        """A 64-bit digest of the whole: equal chats have an equal one."""
        return digest64(" ".join(map(str, self.ids)))


def chat_parts(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None
) -> tuple[ChatParts, dict[int, int]]:
    """Return a chat as component ids, and the length of each in bytes."""
    texts: dict[int, str] = {}
    parts = ChatParts(*(_ids(part, texts) for part in _cut(messages, tools)))
    return parts, dict(zip(texts, byte_lengths(list(texts.values())), strict=True))


def chat_sections(
    requests: Sequence[tuple[Sequence[Mapping[str, Any]], Sequence[Any] | None]],
    namespaces: Sequence[int] | None = None,
    measure: Callable[[Sequence[str]], Sequence[int]] = byte_lengths,
    unit: str = "bytes",
) -> SectionedLog:
    """Build the log of sections from ``(messages, tools)`` of each request.

    ``measure`` gives the lengths of texts in ``unit``: of a message's content where it is a text, else of its JSON.
    """
    texts: dict[int, str] = {}
    chats = [
        ChatParts(*(_ids(part, texts) for part in _cut(messages, tools))) for messages, tools in requests
    ]
    lengths = dict(zip(texts, map(int, measure(list(texts.values()))), strict=True))
    return labelled_parts(chats, lengths, namespaces, unit)


def labelled_parts(
    chats: Sequence[ChatParts],
    length_of: Mapping[int, int],
    namespaces: Sequence[int] | None = None,
    unit: str = "bytes",
) -> SectionedLog:
    """Build the log of sections from chats as ids; ``length_of`` gives the length of each id in ``unit``."""
    instructions = max((len(chat.leading) for chat in chats), default=0)
    labels = (TOOLS, *(f"system message {place + 1}" for place in range(instructions)), TURNS, QUESTION)
    rows = [
        [
            chat.tools,
            *(chat.leading[place : place + 1] for place in range(instructions)),
            chat.turns,
            chat.question,
        ]
        for chat in chats
    ]
    return sectioned(labels, rows, length_of, namespaces, unit)


def leading_instructions(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many system or developer messages a chat begins with."""
    roles = [message.get("role") for message in messages]
    return next((place for place, role in enumerate(roles) if role not in _INSTRUCTIONS), len(roles))


def expressible(sections: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the ``keep_order`` under which only the order of system messages is left to choose."""
    ends = (TOOLS, TURNS, QUESTION)
    return (ends, *((TOOLS, label, TURNS, QUESTION) for label in sections if label not in ends))


_Cut = tuple[list[Any], list[Any], list[Any], list[Any]]


def _cut(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None) -> _Cut:
    roles = [message.get("role") for message in messages]
    leading = leading_instructions(messages)
    asked = max((place for place, role in enumerate(roles) if role == "user"), default=leading)
    return (
        [list(tools)] if tools else [],
        list(messages[:leading]),
        list(messages[leading:asked]),
        list(messages[asked:]),
    )


def _ids(components: Sequence[Any], texts: dict[int, str]) -> list[int]:
    """Return a number for each component, and note by number the text that is measured."""
    ids = []
    for component in components:
        whole = _ENCODE(component).decode()
        number = int(np.uint64(digest64(whole)).astype(np.int64))
        content = component.get("content") if isinstance(component, dict) and len(component) == 2 else None
        texts[number] = content if isinstance(content, str) else whole
        ids.append(number)
    return ids
