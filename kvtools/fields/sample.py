"""A sample of section texts in bounded memory, the same whatever the order of the log or its partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from kvtools.fields.sections import FLAT, texts_of
from kvtools.table import digest64, text_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

BUDGET_CHARS = 12 << 20
"""Characters of distinct text that a sample holds: about 4,000 system prompts of 3,000 characters."""


@dataclass(slots=True)
class SectionText:
    """One distinct text: in how many requests it stands, and in which routes (name to requests)."""

    role: str
    text: str
    digest: int
    requests: int = 0
    routes: dict[str | None, int] = field(default_factory=dict)


@dataclass(slots=True)
class SectionSample:
    """The distinct texts whose digest ends in ``level`` zero bits: all of them at level 0.

    A text is kept or not by what it is, so its count is exact; sums over texts are multiplied by ``scale``.
    """

    budget_chars: int = BUDGET_CHARS
    level: int = 0
    texts: dict[tuple[str, str], SectionText] = field(default_factory=dict)
    held_chars: int = 0

    @property
    def scale(self) -> int:
        """How many distinct texts of the log one in the sample stands for."""
        return 1 << self.level

    def add(self, table: pd.DataFrame, rows: NDArray[np.int64]) -> None:
        """Offer the sections of the requests ``rows`` of a request table."""
        routes = text_column(table, "route")
        for row, sections in sections_of(table, rows):
            for role, text in set(sections):
                self._count(role, text, {routes[row]: 1})
        self._shrink()

    def offer(self, role: str, text: str, route: str | None) -> None:
        """Offer one text that stands in one request of a route."""
        self._count(role, text, {route: 1})
        self._shrink()

    def merge(self, other: SectionSample) -> None:
        """Take over what ``other`` holds."""
        if other.level > self.level:
            self.level = other.level
            self._drop()
        for kept in other.texts.values():
            self._count(kept.role, kept.text, kept.routes)
        self._shrink()

    def _count(self, role: str, text: str, routes: dict[str | None, int]) -> None:
        found = self.texts.get((role, text))
        if found is None:
            digest = digest64(text)
            if digest & (self.scale - 1):
                return
            found = self.texts[role, text] = SectionText(role, text, digest)
            self.held_chars += len(text)
        for route, requests in routes.items():
            found.requests += requests
            found.routes[route] = found.routes.get(route, 0) + requests

    def _shrink(self) -> None:
        while self.held_chars > self.budget_chars:
            self.level += 1
            self._drop()

    def _drop(self) -> None:
        self.texts = {key: kept for key, kept in self.texts.items() if not kept.digest & (self.scale - 1)}
        self.held_chars = sum(len(kept.text) for kept in self.texts.values())


def sections_of(table: pd.DataFrame, rows: NDArray[np.int64]) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield each of the requests ``rows`` with its sections: role and text."""
    messages, prompts = text_column(table, "messages"), text_column(table, "prompt")
    for place in rows.tolist():
        chat, prompt = messages[place], prompts[place]
        if chat is not None:
            yield place, list(texts_of(msgspec.json.decode(chat)))
        elif prompt is not None:
            yield place, [(FLAT, prompt)]
        else:
            yield place, []
