"""Arrivals, lengths and reported hits of every request that an engine saw, with a prompt or without."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.table import integer_column, present, ragged_column, text_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.profile.keying import Keyed

UNKNOWN = -1

HOSTED_GRIDS = {"openai": (1024, 128), "azure": (1024, 128), "azure_openai": (1024, 128)}
"""Services whose caches are not vLLM's: fewest cached tokens, and the step above them.

OpenAI and Azure OpenAI, guides on prompt caching: 1,024 tokens and steps of 128.
"""

_COLUMNS = ("arrival_us", "prompt_tokens", "output_tokens", "cached_tokens", "reported_tokens")


@dataclass(frozen=True, slots=True, eq=False)
class TrafficColumns:
    """One entry per request, in log order; ``UNKNOWN`` where the log does not say.

    ``prompt_tokens``: as reported, as the tokenizer counts where nothing was. ``cached_tokens`` of
    ``reported_tokens``: hits and prompt tokens as the server reported them. ``hosted``: by a service of
    ``HOSTED_GRIDS``; ``off_grid``: a number of cached tokens that this service does not report.
    """

    arrival_us: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    reported_tokens: NDArray[np.int64]
    hosted: NDArray[np.bool_]
    off_grid: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.arrival_us)

    @property
    def says_something(self) -> bool:
        """Whether any request has an arrival, a length or reported hits."""
        return any(bool((getattr(self, name) != UNKNOWN).any()) for name in _COLUMNS)


@dataclass(slots=True)
class TrafficLog:
    """The state of the fold: the columns of a stretch of the log."""

    parts: list[TrafficColumns] = field(default_factory=list)

    def columns(self) -> TrafficColumns:
        """Return the columns of all requests as one."""
        kinds = dict.fromkeys(_COLUMNS, np.int64) | dict.fromkeys(("hosted", "off_grid"), np.bool_)
        joined = {
            name: np.concatenate([getattr(part, name) for part in self.parts] or [np.empty(0, dtype=kind)])
            for name, kind in kinds.items()
        }
        return TrafficColumns(**joined)


def without_prompt(table: pd.DataFrame, sent: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the rows that reached an engine and hold no text, no token ids and no block ids."""
    prompted = present(table, "messages") | present(table, "prompt") | present(table, "token_ids")
    return np.flatnonzero(sent & ~prompted & (ragged_column(table, "block_keys").lengths() == 0))


def hosted_grids(table: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return fewest cached tokens and step for each row, 0 where its server is none of ``HOSTED_GRIDS``."""
    if not present(table, "provider").any():
        nowhere = np.zeros(len(table), dtype=np.int64)
        return nowhere, nowhere
    grids = [HOSTED_GRIDS.get((name or "").lower(), (0, 0)) for name in text_column(table, "provider")]
    least, step = np.array(grids, dtype=np.int64).reshape(-1, 2).T
    return least, step


def map_traffic(table: pd.DataFrame, keyed: Keyed, sent: NDArray[np.bool_]) -> TrafficColumns:
    """Return the requests of one chunk."""
    rows = np.sort(np.concatenate((keyed.rows, without_prompt(table, sent))))
    reported = integer_column(table, "prompt_tokens", UNKNOWN)
    counted = np.full(len(table), UNKNOWN, dtype=np.int64)
    counted[keyed.rows] = keyed.prompt_tokens
    cached = integer_column(table, "cached_tokens", UNKNOWN)
    least, step = hosted_grids(table)
    hosted = step > 0
    on_grid = (cached <= 0) | ((cached >= least) & ((cached - least) % np.maximum(step, 1) == 0))
    return TrafficColumns(
        arrival_us=integer_column(table, "arrival_us", UNKNOWN)[rows],
        prompt_tokens=np.where(reported == UNKNOWN, counted, reported)[rows],
        output_tokens=integer_column(table, "output_tokens", UNKNOWN)[rows],
        cached_tokens=cached[rows],
        reported_tokens=reported[rows],
        hosted=hosted[rows],
        off_grid=(hosted & ~on_grid)[rows],
    )
