"""Single requests of a log: the keys of all of them, the prompts of those that were asked for."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from kvtools.chat.sections import Section, locate_sections
from kvtools.errors import InputError
from kvtools.profile import Counts, replay_order
from kvtools.table import (
    Ragged,
    arrow_column,
    concat_ragged,
    digest64,
    integer_column,
    present,
    text_column,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.chat import ChatTemplate
    from kvtools.flow.intake import Intake
    from kvtools.profile import Keyed
    from kvtools.readers import Chunk

UNKNOWN = -1
_NEAR = 200
_SHOWN = 3


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """One request's prompt: its token ids (``None``: block ids were logged), and its text with the sections in it.

    ``text`` is ``None`` where token ids or block ids were logged.
    """

    tokens: NDArray[np.int32] | None
    text: str | None
    sections: list[Section]


@dataclass(slots=True)
class Roll:
    """All requests of a log that have a prompt; ``prompts`` holds those whose id or place was asked for.

    Columns have an entry per request, in replay order once it is complete; ``rank`` says which of the log it is.
    """

    wanted: frozenset[str]
    counts: Counts = field(default_factory=Counts)
    prompts: dict[int, Prompt] = field(default_factory=dict)
    _columns: list[dict[str, NDArray[np.int64]]] = field(default_factory=list)
    _keys: list[Ragged] = field(default_factory=list)
    _names: list[tuple[pa.Array, pa.Array]] = field(default_factory=list)
    _count: int = 0

    def take(self, chunk: Chunk, keyed: Keyed, dropped: int, template: ChatTemplate) -> None:
        """Count a chunk, ``dropped`` of whose calls were repeated ones, and add its requests."""
        self.counts.add(Counts.of(chunk, keyed, dropped))
        self._add(chunk.requests, keyed, template)

    def _add(self, table: pd.DataFrame, keyed: Keyed, template: ChatTemplate) -> None:
        rows = keyed.rows
        ids, places = (arrow_column(table, name).take(pa.array(rows)) for name in ("request_id", "source"))
        namespaces = text_column(table, "namespace")
        digest_of = {name: digest64(name) for name in set(namespaces)}
        self._names.append((ids, places))
        self._keys.append(keyed.keys)
        self._columns.append(
            {
                "arrival_us": integer_column(table, "arrival_us", UNKNOWN)[rows],
                "prompt_tokens": keyed.prompt_tokens,
                "cached_tokens": integer_column(table, "cached_tokens", UNKNOWN)[rows],
                "samples": integer_column(table, "samples", 1)[rows],
                "skip_lookup": integer_column(table, "skip_lookup", 0)[rows],
                "namespace": np.array([digest_of[namespaces[r]] for r in rows], dtype=np.uint64).view(
                    np.int64
                ),
                "chunk": np.full(len(rows), len(self._columns), dtype=np.int64),
                "row": rows,
            }
        )
        for index in np.flatnonzero(_named(ids, places, self.wanted)).tolist():
            self.prompts[self._count + index] = prompt_of(table, keyed, index, template)
        self._count += len(rows)

    def __len__(self) -> int:
        return self._count

    def requests(self) -> Requests:
        """Return all requests, in replay order."""
        columns = {
            name: np.concatenate([part[name] for part in self._columns])
            for name in (self._columns or [{}])[0]
        }
        ids, places = (pa.chunked_array(parts, pa.large_string()) for parts in zip(*self._names, strict=True))
        order = replay_order(columns["arrival_us"])
        keys = concat_ragged(self._keys, np.uint64)
        if order is None:
            return Requests(ids, places, keys, columns, self.prompts, by_arrival=False)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        prompts = {int(rank[row]): prompt for row, prompt in self.prompts.items()}
        moved = {name: column[order] for name, column in columns.items()}
        return Requests(
            ids.take(pa.array(order)),
            places.take(pa.array(order)),
            keys.take(order),
            moved,
            prompts,
            by_arrival=True,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """The requests in replay order. ``columns``: integers, ``UNKNOWN`` where the log does not say.

    ``chunk`` and ``row`` say where a request stands in the log as it is read; ``namespace`` is a digest.
    """

    ids: pa.ChunkedArray
    places: pa.ChunkedArray
    keys: Ragged
    columns: Mapping[str, NDArray[np.int64]]
    prompts: Mapping[int, Prompt]
    by_arrival: bool

    def __len__(self) -> int:
        return len(self.ids)

    def name(self, index: int) -> str:
        """The request's id, or its place where it has none."""
        return self.ids[index].as_py() or self.place(index)

    def place(self, index: int) -> str:
        """Where the request stands: ``path:line``."""
        return self.places[index].as_py() or ""

    def same_namespace(self, one: int, other: int) -> bool:
        """Whether the two can share blocks at all."""
        namespace = self.columns["namespace"]
        return bool(namespace[one] == namespace[other])

    def find(self, name: str) -> int:
        """Return the request that ``name`` means: its id, or its place as ``path:line``.

        Raises:
            InputError: no request or several are meant.
        """
        found = [index for index in self.prompts if name == self.ids[index].as_py()] or [
            index for index in self.prompts if _ends_with(self.place(index), name)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            places = ", ".join(self.place(index) for index in found[:_SHOWN])
            more = ", …" if len(found) > _SHOWN else ""
            raise InputError(
                f"{name} names {len(found):,} requests ({places}{more}); name one of these places."
            )
        if not self.ids.null_count < len(self):
            raise InputError(
                f"no request {name}: this log has no request ids; name a request by its place, such as {self.place(0)}."
            )
        near = near_names(name, [entry for entry in self.ids.to_pylist() if entry])
        hint = f"near: {', '.join(near)}" if near else f"such as {self.name(0)}"
        raise InputError(
            f"no request {name} with a prompt in the log; name an id ({hint}) or a place (path:line)."
        )


def near_names(name: str, names: Sequence[str]) -> list[str]:
    """Return up to three names like ``name``; only those beside it in the alphabet, or with its end, are compared."""
    ordered = sorted(set(names))
    place = bisect_left(ordered, name)
    beside = ordered[max(0, place - _NEAR) : place + _NEAR]
    alike = [other for other in ordered if other.endswith(name[-4:]) or other.lower() == name.lower()][:_NEAR]
    return get_close_matches(name, dict.fromkeys([*beside, *alike]), n=_SHOWN, cutoff=0.5)


def _ends_with(place: str, name: str) -> bool:
    return place == name or place.endswith(f"/{name}")


def _named(ids: pa.Array, places: pa.Array, wanted: frozenset[str]) -> NDArray[np.bool_]:
    """Return which requests are meant by one of the names; a place may be given without its folders."""
    return np.array(
        [
            own in wanted or (place is not None and any(_ends_with(place, name) for name in wanted))
            for own, place in zip(ids.to_pylist(), places.to_pylist(), strict=True)
        ],
        dtype=np.bool_,
    )


def prompt_of(table: pd.DataFrame, keyed: Keyed, index: int, template: ChatTemplate) -> Prompt:
    """Return the prompt of one keyed request (entry ``index``)."""
    row = int(keyed.rows[index])
    tokens = None if keyed.tokens is None else keyed.tokens.row(index).copy()
    if tokens is None or present(table, "token_ids")[row]:
        return Prompt(tokens, None, [])
    messages, tools, text = (text_column(table, name)[row] for name in ("messages", "tools", "prompt"))
    if messages is None:
        whole = text or ""
        return Prompt(tokens, whole, [Section("prompt", 0, len(whole))])
    decoded = msgspec.json.decode(messages)
    own_tools = msgspec.json.decode(tools) if tools else None
    rendered = template.render(decoded, own_tools)
    return Prompt(tokens, rendered, locate_sections(template, decoded, own_tools, rendered))


def read_again(
    intake: Intake, requests: Requests, which: NDArray[np.int64]
) -> Iterator[tuple[int, pd.DataFrame, Keyed, int]]:
    """Read the log again and yield the requests ``which``: number, table, keyed rows of the table, entry among them.

    Only these are made tokens of once more.

    Raises:
        InputError: the log is not the one that was read before.
    """
    chunk, row = requests.columns["chunk"][which], requests.columns["row"][which]
    for place, whole in enumerate(intake.again()):
        here = np.flatnonzero(chunk == place)
        if not len(here):
            continue
        here = here[np.argsort(row[here])]
        if row[here[-1]] >= len(whole):
            raise _changed(requests, which[here[-1]])
        table = whole.iloc[row[here]].reset_index(drop=True)
        sources = text_column(table, "source")
        keyed = intake.keying.key(table)
        for entry, at in enumerate(keyed.rows.tolist()):
            index = int(which[here[at]])
            if sources[at] != requests.place(index):
                raise _changed(requests, index)
            yield index, table, keyed, entry


def _changed(requests: Requests, index: int) -> InputError:
    return InputError(f"{requests.place(index)}: the log changed while it was read; explain a copy of it.")
