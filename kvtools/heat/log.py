"""The log as the heat model sees it: a fold over its chunks, and its end with the hits of the replayed cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.heat.features import NO_PRIORITY, REQUEST_TYPES, UNKNOWN, HeatColumns
from kvtools.profile.keying import sent_rows
from kvtools.profile.traffic import without_prompt
from kvtools.table import digest64, integer_column, text_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.profile import Keyed, RequestColumns

_NUMBERS = ("arrival_us", "prompt_tokens", "output_tokens", "latency_us")


@dataclass(slots=True)
class HeatLog:
    """What is kept of each request that was sent: numbers, route and conversation; with ``named`` its name too."""

    named: bool = False
    parts: list[dict[str, NDArray[np.int64]]] = field(default_factory=list)
    routes: dict[str, int] = field(default_factory=dict)
    request_types: dict[str, int] = field(
        default_factory=lambda: {name: place for place, name in enumerate(REQUEST_TYPES)}
    )
    names: list[str] = field(default_factory=list)

    def add(self, table: pd.DataFrame, keyed: Keyed) -> None:
        """Take the requests of the next chunk."""
        rows = np.sort(np.concatenate((keyed.rows, without_prompt(table, sent_rows(table)))))
        part = {name: integer_column(table, name, UNKNOWN)[rows] for name in _NUMBERS}
        part["keyed"] = np.isin(rows, keyed.rows).astype(np.int64)
        part["priority"] = integer_column(table, "priority", NO_PRIORITY)[rows]
        part["route"] = _places(text_column(table, "route"), self.routes)[rows]
        part["request_type"] = _places(text_column(table, "request_type"), self.request_types)[rows]
        sessions = text_column(table, "session_id")
        # Digests of 64 bits: their bits as signed integers, which is all that telling them apart takes.
        part["session"] = np.array([digest64(name) for name in sessions], dtype=np.uint64).view(np.int64)[
            rows
        ]
        sources = text_column(table, "source")
        part["place"] = np.array([digest64(s) for s in sources], dtype=np.uint64).view(np.int64)[rows]
        self.parts.append(part)
        if self.named:
            ids = text_column(table, "request_id")
            self.names += [ids[row] or sources[row] or "" for row in rows.tolist()]

    def column(self, name: str) -> NDArray[np.int64]:
        """Return one column of all requests."""
        return np.concatenate([part[name] for part in self.parts] or [np.empty(0, dtype=np.int64)])

    def kept(self, *, prompted: bool) -> NDArray[np.int64]:
        """Return the requests that are labelled: those with a prompt, all that were sent where none has one."""
        keyed = self.column("keyed") > 0
        return np.flatnonzero(keyed) if prompted else np.arange(len(keyed))

    def lengths_only(self) -> HeatColumns:
        """Return the columns of a log without prompts."""
        route = self.column("route")
        return HeatColumns(
            **{name: self.column(name) for name in _NUMBERS},
            route=route,
            group=route,
            hit_tokens=np.full(len(route), UNKNOWN, dtype=np.int64),
            turn=turns(self.column("session")),
            request_type=self.column("request_type"),
            priority=self.column("priority"),
            reuse_blocks=np.full(len(route), UNKNOWN, dtype=np.int64),
            route_names=list(self.routes),
            request_types=list(self.request_types),
        )

    def with_prompts(
        self,
        requests: RequestColumns,
        hit_tokens: NDArray[np.int64] | None,
        reuse_blocks: NDArray[np.int64] | None = None,
    ) -> HeatColumns:
        """Return the columns of the ``requests`` with a prompt, in log order; ``hit_tokens`` of the replayed cache.

        A log without routes is grouped by the first block of its prompts.
        """
        rows = self.kept(prompted=True)
        route = self.column("route")[rows]
        unknown = np.full(len(rows), UNKNOWN, dtype=np.int64)
        return HeatColumns(
            arrival_us=requests.arrival_us,
            prompt_tokens=requests.prompt_tokens,
            output_tokens=requests.output_tokens,
            latency_us=requests.latency_us,
            route=route,
            group=route if (route != UNKNOWN).any() else first_blocks(requests),
            hit_tokens=unknown if hit_tokens is None else hit_tokens,
            turn=turns(self.column("session")[rows]),
            request_type=self.column("request_type")[rows],
            priority=self.column("priority")[rows],
            reuse_blocks=unknown if reuse_blocks is None else reuse_blocks,
            route_names=list(self.routes),
            request_types=list(self.request_types),
        )


def _places(names: list[str | None], known: dict[str, int]) -> NDArray[np.int64]:
    """Return the place of each name among ``known``, to which new ones are added; ``UNKNOWN`` for none."""
    places = [known.setdefault(name, len(known)) if name else UNKNOWN for name in names]
    return np.array(places, dtype=np.int64)


def first_blocks(requests: RequestColumns) -> NDArray[np.int64]:
    """Return an integer for the first block of each prompt, one of its own for a prompt without a whole block."""
    starts, lengths = requests.keys.offsets[:-1], requests.keys.lengths()
    found = -1 - np.arange(len(starts), dtype=np.int64)
    some = lengths > 0
    _, place = np.unique(requests.keys.values[starts[some]], return_inverse=True)
    found[some] = place
    return found


def turns(session: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each request in its conversation, 1 is the first; ``UNKNOWN`` without a conversation."""
    order = np.argsort(session, kind="stable")
    ordered = session[order]
    first = np.ones(len(ordered), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    place = np.arange(len(ordered))
    found = np.empty(len(ordered), dtype=np.int64)
    found[order] = place - np.maximum.accumulate(np.where(first, place, 0)) + 1
    return np.where(session == 0, UNKNOWN, found)
