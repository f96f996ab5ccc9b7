"""Broken histories: turns of one conversation that do not extend the turn before them, by cause, with their replay.

Only conversations that the log names (session or parent ids) are looked at: without them, two prompts that part may be
two conversations. A turn that a ranked finding changes is left to that finding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.diagnosis.turns import Break, Turn, parted, rebuilt
from kvtools.sessions import CHILD, NAMED
from kvtools.table import digest64, text_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.diagnosis.rekeyed import NewPrompt
    from kvtools.diagnosis.whatif import Outcome
    from kvtools.sessions import Sessions
    from kvtools.table import Ragged

MAX_PAIRS = 2_000
"""Broken turns that are looked at: of more, every second, fourth, … one; their cost is then not replayed."""

TEMPLATE = "template_not_append_only"
"""The messages grow as they should, the rendered prompts do not."""


@dataclass(frozen=True, slots=True, eq=False)
class BrokenTurns:
    """Turns (numbers in the log, in replay order) that share fewer blocks with the turn before than that one has.

    ``every``: one in so many of the broken turns is here.
    """

    later: NDArray[np.int64]
    earlier: NDArray[np.int64]
    every: int

    @classmethod
    def of(cls, keys: Ragged, sessions: Sessions, order: NDArray[np.int64]) -> BrokenTurns:
        """Find them. ``keys`` in log order; ``sessions`` and ``order`` in replay order."""
        named = (sessions.basis == NAMED) | (sessions.basis == CHILD)
        places = np.flatnonzero((sessions.previous >= 0) & named)
        broken = [
            place
            for place in places.tolist()
            if _parts_early(keys.row(order[sessions.previous[place]]), keys.row(order[place]))
        ]
        every = 1
        while len(broken) > MAX_PAIRS * every:
            every *= 2
        chosen = np.array(broken[::every], dtype=np.int64)
        return cls(order[chosen], order[sessions.previous[chosen]], every)

    def requests(self) -> NDArray[np.int64]:
        """Return the numbers of all requests that are needed, sorted."""
        return np.unique(np.concatenate((self.later, self.earlier)))


def _parts_early(earlier: NDArray[np.uint64], later: NDArray[np.uint64]) -> bool:
    """Tell whether a turn misses a block of the one before. Chained keys: the last one stands for all."""
    whole = len(earlier)
    return whole > 0 and (len(later) < whole or later[whole - 1] != earlier[whole - 1])


@dataclass(slots=True)
class Cause:
    """One kind of break: the turns that show it, where they part, and how they would be without it."""

    kind: str
    detail: str
    role: str
    place: int
    numbers: list[int] = field(default_factory=list)
    mended: dict[int, NewPrompt] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether every turn that shows it is known as it should be."""
        return len(self.mended) == len(self.numbers)


def causes_of(broken: BrokenTurns, turns: Mapping[int, Turn], explained: set[int]) -> list[Cause]:
    """Return the causes of the broken turns, by kind. A chain of turns is mended from its first break on."""
    causes: dict[str, Cause] = {}
    mended: dict[int, Turn] = {}
    for later, earlier in zip(broken.later.tolist(), broken.earlier.tolist(), strict=True):
        if not explained.isdisjoint((later, earlier)):
            continue
        found = parted(turns[earlier], turns[later])
        if found is None:
            found = Break(
                TEMPLATE, "prompt", 0, "The messages grow, the rendered prompts do not extend each other."
            )
        cause = causes.setdefault(found.kind, Cause(found.kind, found.detail, _role(found), found.position))
        cause.numbers.append(later)
        cause.place = min(cause.place, found.position)
        before = mended.get(earlier, turns[earlier])
        again = parted(before, turns[later])
        new = None if again is None else rebuilt(before, turns[later], again)
        if new is not None:
            mended[later] = new
            prompt: NewPrompt = new.messages if new.messages is not None else new.prompt
            if prompt not in (turns[later].messages, turns[later].prompt):
                cause.mended[later] = prompt
    return sorted(causes.values(), key=lambda c: (-len(c.numbers), c.kind))


@dataclass(frozen=True, slots=True)
class HistoryFinding:
    """A cause with its replay: ``fixed`` is ``None`` where the history as it should be is not known in full."""

    cause: Cause
    requests: int
    fixed: Outcome | None
    gain: float

    @property
    def finding_id(self) -> str:
        """A name made of the cause: the same on every run and in any order of the log."""
        return f"{digest64('history ' + self.cause.kind):016x}"[:8]


def priced(cause: Cause, every: int, now: Outcome, fixed: Outcome | None) -> HistoryFinding:
    """Return the finding of a cause that ``every``-th broken turns were looked at for; ``fixed``: its replay."""
    gain = 0.0 if fixed is None else (fixed.hit_rate or 0.0) - (now.hit_rate or 0.0)
    return HistoryFinding(cause, len(cause.numbers) * every, fixed, gain)


def _role(found: Break) -> str:
    """Return the section's role: ``message 3 (tool)`` is a tool message."""
    return found.place.partition("(")[2].rstrip(")") or found.place


def turns_of(table: pd.DataFrame, rows: NDArray[np.int64]) -> list[Turn]:
    """Return the requests ``rows`` of the table as turns."""
    part = table.iloc[rows]
    columns = (text_column(part, name) for name in ("messages", "prompt", "output_text", "tools"))
    return [
        Turn(
            messages=None if chat is None else msgspec.json.decode(chat),
            prompt=prompt,
            output=output,
            tools=None if tools is None else msgspec.json.decode(tools),
        )
        for chat, prompt, output, tools in zip(*columns, strict=True)
    ]
