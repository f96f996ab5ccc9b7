"""System messages in another order: the chats of a log that have several, and each of them as an order makes it.

Which order is tried is chosen on the components of a sample (``sectioned``); what it gains has to be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kvtools.diagnosis.chat_sections import ChatParts, chat_parts, labelled_parts, leading_instructions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.diagnosis.sectioned import SectionedLog

MAX_SYSTEM_MESSAGES = 6
"""Chats that begin with more system messages keep their order: the search over orders grows with their factorial."""

MAX_COMPONENTS = 1 << 18
"""Messages of the sampled chats: one replay of an order over so many takes some 20 ms."""

_SOME = 2


def may_have_several(encoded: str) -> bool:
    """Tell cheaply whether canonical messages can begin with two system messages; quotes in a text are escaped."""
    return encoded.count('"system"') + encoded.count('"developer"') >= _SOME


def is_orderable(messages: Sequence[dict[str, Any]]) -> bool:
    """Return whether a chat begins with several system messages, and not with too many."""
    return _SOME <= leading_instructions(messages) <= MAX_SYSTEM_MESSAGES


def reordered(messages: Sequence[dict[str, Any]], places: Sequence[int]) -> list[dict[str, Any]] | None:
    """Return the messages with the leading system messages in the order ``places``, ``None`` where that is as it was.

    ``places`` may name more messages than this chat has: those are passed over.
    """
    count = leading_instructions(messages)
    taken = [place for place in places if place < count]
    if taken == sorted(taken):
        return None
    return [*(messages[place] for place in taken), *messages[count:]]


@dataclass(slots=True)
class OrderableChats:
    """Chats that begin with several system messages, as component ids, in bounded memory.

    Kept are the chats whose digest ends in ``level`` zero bits, so the sample is the same whatever the order of the
    log; ``requests`` counts all.
    """

    max_components: int = MAX_COMPONENTS
    level: int = 0
    requests: int = 0
    chats: dict[int, ChatParts] = field(default_factory=dict)
    length_of: dict[int, int] = field(default_factory=dict)
    _held: int = 0

    def add(self, number: int, messages: Sequence[dict[str, Any]], tools: Sequence[Any] | None) -> None:
        """Offer request ``number`` of the log."""
        self.requests += 1
        parts, lengths = chat_parts(messages, tools)
        if parts.digest & ((1 << self.level) - 1):
            return
        self.chats[number] = parts
        self.length_of.update(lengths)
        self._held += parts.components
        while self._held > self.max_components:
            self._thin_out()

    def log(self, order: NDArray[np.int64], namespaces: NDArray[np.uint64]) -> SectionedLog:
        """Return the sampled chats as a log of sections. ``order``: numbers of all requests as they are replayed."""
        numbers = [number for number in order.tolist() if number in self.chats]
        _, spaces = np.unique(namespaces[numbers], return_inverse=True)
        chats = [self.chats[number] for number in numbers]
        return labelled_parts(chats, self.length_of, spaces.tolist())

    def _thin_out(self) -> None:
        self.level += 1
        mask = (1 << self.level) - 1
        self.chats = {number: parts for number, parts in self.chats.items() if not parts.digest & mask}
        self._held = sum(parts.components for parts in self.chats.values())
        used = {one for parts in self.chats.values() for one in parts.ids}
        self.length_of = {one: length for one, length in self.length_of.items() if one in used}
