"""What is replayed: the requests of a log in replay order, with as much of each as the engine at hand needs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kvtools.profile import Counts
from kvtools.table import Ragged, concat_ragged, digest64, integer_column, ragged_column, text_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.profile import Keyed
    from kvtools.readers import Chunk
    from kvtools.tokens import Tokenizer

UNKNOWN = -1
"""Stands for NA in the integer columns."""


@dataclass(frozen=True, slots=True, eq=False)
class ReplayLog:
    """The requests, one entry each in every column; integers are ``UNKNOWN`` where the log does not say.

    ``session`` and ``namespace`` are digests (0: none). ``keys`` are the chained keys of the prompts' full
    blocks; ``tokens`` the prompts' ids, ``answer_tokens`` those of the recorded answers, ``bodies`` the
    requests as JSON for an OpenAI-compatible server; each only where it was asked for.
    """

    request_id: list[str]
    arrival_us: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    ttft_us: NDArray[np.int64]
    latency_us: NDArray[np.int64]
    priority: NDArray[np.int64]
    skip_lookup: NDArray[np.bool_]
    session: NDArray[np.uint64]
    namespace: NDArray[np.uint64]
    keys: Ragged
    tokens: Ragged | None = None
    answer_tokens: Ragged | None = None
    bodies: list[str] | None = None

    def __len__(self) -> int:
        return len(self.request_id)

    def take(self, order: NDArray[np.int64]) -> ReplayLog:
        """The requests ``order``, in that order."""
        columns: dict[str, Any] = {}
        for name in self.__slots__:
            column = getattr(self, name)
            if isinstance(column, list):
                columns[name] = [column[index] for index in order.tolist()]
            elif isinstance(column, Ragged):
                columns[name] = column.take(order)
            else:
                columns[name] = None if column is None else column[order]
        return replace(self, **columns)

    def each_lookup(self, samples: NDArray[np.int64]) -> ReplayLog:
        """Every request as often as the engine looks it up: once for each answer that was asked for.

        vLLM turns a request for n answers into n requests with one prompt (``ParentRequest``).
        """
        if (samples == 1).all():
            return self
        owner = np.repeat(np.arange(len(self)), samples)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(samples) - samples, samples)
        names = [
            self.request_id[request] if samples[request] == 1 else f"{self.request_id[request]}#{one}"
            for request, one in zip(owner.tolist(), number.tolist(), strict=True)
        ]
        return replace(self.take(owner), request_id=names)

    def first_sessions(self, limit: int) -> ReplayLog:
        """The requests of the ``limit`` sessions that begin first; a request without session is one of its own.

        Whole sessions, because single requests taken from a conversation lose what they would have reused.
        """
        begun: dict[int, None] = {}
        keep = np.zeros(len(self), dtype=np.bool_)
        alone = 0
        for index, session in enumerate(self.session.tolist()):
            if len(begun) + alone >= limit and session not in begun:
                continue
            keep[index] = True
            if session:
                begun[session] = None
            else:
                alone += 1
        return self.take(np.flatnonzero(keep))


@dataclass(slots=True)
class LogBuilder:
    """Collects chunks. ``keep_tokens``, ``keep_answers`` and ``keep_bodies`` say what an engine needs beyond keys."""

    tokenizer: Tokenizer
    keep_tokens: bool = False
    keep_answers: bool = False
    keep_bodies: bool = False
    counts: Counts = field(default_factory=Counts)
    parts: list[ReplayLog] = field(default_factory=list)

    def add(self, chunk: Chunk, keyed: Keyed, duplicates: int) -> None:
        """Add one chunk."""
        self.counts.add(Counts.of(chunk, keyed, duplicates))
        self.parts.append(self._part(chunk.requests, keyed))

    def _part(self, table: pd.DataFrame, keyed: Keyed) -> ReplayLog:
        rows = keyed.rows
        sources, ids = text_column(table, "source"), text_column(table, "request_id")

        def integers(name: str) -> NDArray[np.int64]:
            return integer_column(table, name, UNKNOWN)[rows]

        part = ReplayLog(
            request_id=[ids[row] or sources[row] or "" for row in rows],
            arrival_us=integers("arrival_us"),
            prompt_tokens=keyed.prompt_tokens,
            output_tokens=integers("output_tokens"),
            cached_tokens=integers("cached_tokens"),
            ttft_us=integers("ttft_us"),
            latency_us=integers("latency_us"),
            priority=integer_column(table, "priority", 0)[rows],
            skip_lookup=integer_column(table, "skip_lookup", 0)[rows] > 0,
            session=_digests(table, "session_id", rows),
            namespace=_digests(table, "namespace", rows),
            keys=keyed.keys,
            tokens=keyed.tokens if self.keep_tokens else None,
            answer_tokens=self._answers(table, rows) if self.keep_answers else None,
            bodies=_bodies(table, keyed) if self.keep_bodies else None,
        )
        return part.each_lookup(integer_column(table, "samples", 1)[rows])

    def _answers(self, table: pd.DataFrame, rows: NDArray[np.int64]) -> Ragged:
        answers = text_column(table, "output_text")
        return self.tokenizer.encode([answers[row] or "" for row in rows])

    def built(self) -> ReplayLog:
        """Return all requests as one log, in the order of the log."""
        columns: dict[str, Any] = {}
        for name in ReplayLog.__slots__:
            values = [getattr(part, name) for part in self.parts]
            if not values or values[0] is None:
                columns[name] = None
            elif isinstance(values[0], list):
                columns[name] = [entry for value in values for entry in value]
            elif isinstance(values[0], Ragged):
                columns[name] = concat_ragged(values, values[0].values.dtype.type)
            else:
                columns[name] = np.concatenate(values)
        return ReplayLog(**columns)


def _digests(table: pd.DataFrame, column: str, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    names = text_column(table, column)
    return np.array([digest64(names[row]) for row in rows], dtype=np.uint64)


def _bodies(table: pd.DataFrame, keyed: Keyed) -> list[str]:
    """Return the requests as the JSON that an OpenAI-compatible server takes: messages and tools, text, or ids.

    Tools are sent with ``tool_choice`` "none": they are part of the prompt, and the answer does not matter.
    """
    messages, tools, prompts = (text_column(table, name) for name in ("messages", "tools", "prompt"))
    ids = ragged_column(table, "token_ids")
    bodies = []
    for row in keyed.rows.tolist():
        body: dict[str, Any] = {}
        message_list, tool_list = messages[row], tools[row]
        if len(ids.row(row)):
            body["prompt"] = ids.row(row).tolist()
        elif message_list is not None:
            body["messages"] = msgspec.Raw(message_list.encode())
            if tool_list is not None:
                body |= {"tools": msgspec.Raw(tool_list.encode()), "tool_choice": "none"}
        elif prompts[row] is not None:
            body["prompt"] = prompts[row]
        bodies.append(msgspec.json.encode(body).decode())
    return bodies
