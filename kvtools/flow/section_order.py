"""The order of sections that reuses most: of a RAGPulse trace by its components, of chats by replay.

A RAGPulse trace with its files of lengths is judged by whole components, which is not vLLM's block rule
(``diagnosis.sectioned``): its prompts are not in the log. In chats the only order that an API can express is that of
the leading system messages. Which orders are worth a replay is searched on the components of a sample; then every
chat of the log is rendered, tokenized and keyed again, and the same cache replays it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from kvtools.diagnosis.chat_orders import OrderableChats, is_orderable, may_have_several, reordered
from kvtools.diagnosis.chat_sections import expressible
from kvtools.diagnosis.rekeyed import keyed_again
from kvtools.diagnosis.section_order import best_section_order
from kvtools.diagnosis.sectioned import sectioned
from kvtools.errors import InputError
from kvtools.readers.ragpulse_components import ragpulse_sections
from kvtools.report.section_order import section_order_figures
from kvtools.table import present, text_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.diagnosis.section_order import Order, OrderStep
    from kvtools.diagnosis.whatif import Outcome, Prompted, WhatIf
    from kvtools.flow.intake import Intake
    from kvtools.profile import Keying
    from kvtools.report.section_order import SectionOrder

MAX_TRACE_REQUESTS = 1 << 15
"""Requests of a trace on which orders are searched, the first ones: 5,040 orders of them take some 5 s."""

LENGTHS = "1_sys_prompt.jsonl"
"""The first of the five files of lengths: a trace without it is a trace alone."""

MAX_REPLAYED_STEPS = 3
"""Orders of system messages that are replayed: the best ones by components."""


@dataclass(slots=True)
class GatheredChats:
    """The chats with several system messages that the first pass saw; ``seen`` requests so far."""

    chats: OrderableChats = field(default_factory=OrderableChats)
    seen: int = 0

    def add(self, table: pd.DataFrame, rows: NDArray[np.int64]) -> None:
        """Take in the requests ``rows`` of a chunk of the first pass."""
        tools = text_column(table, "tools")
        for index, row, messages in _orderable(table, rows):
            own = tools[row]
            self.chats.add(self.seen + index, messages, msgspec.json.decode(own) if own else None)
        self.seen += len(rows)


def _orderable(
    table: pd.DataFrame, rows: NDArray[np.int64]
) -> Iterator[tuple[int, int, list[dict[str, object]]]]:
    """Yield place in ``rows``, row and messages of each chat whose system messages can change places."""
    encoded, given = text_column(table, "messages"), present(table, "token_ids")
    for index, row in enumerate(rows.tolist()):
        chat = encoded[row]
        if chat is None or given[row] or not may_have_several(chat):
            continue
        messages = msgspec.json.decode(chat)
        if is_orderable(messages):
            yield index, row, messages


def order_of_trace(intake: Intake, keep_order: Sequence[Sequence[str]]) -> SectionOrder | None:
    """Return the best order of a RAGPulse trace, ``None`` for other logs and without its files of lengths.

    Raises:
        UsageError: ``keep_order`` names a section that the trace does not have.
    """
    files = intake.log.files
    if len(files) != 1 or files[0].reader.name != "ragpulse" or files[0].source.spooled:
        return None
    path = files[0].source.path
    if not (path.parent / LENGTHS).exists():
        return None
    try:
        read = ragpulse_sections(path)
    except InputError as error:
        intake.watcher.warn(f"{error} The order of sections is left out.")
        return None
    if read.rejects:
        source, _, detail = read.rejects[0]
        intake.watcher.warn(
            f"{source}: {detail}; {len(read.rejects):,} records are left out of the order of sections."
        )
    if not read.requests:
        return None
    log = sectioned(read.sections, read.requests[:MAX_TRACE_REQUESTS], read.length_of)
    found = best_section_order(log, keep_order)
    return section_order_figures(
        found, found.steps, counted_by="components", requests=len(log.components), sampled=len(log.components)
    )


def order_of_chats(
    keying: Keying,
    gathered: GatheredChats,
    second: Iterable[tuple[pd.DataFrame, NDArray[np.int64], int]],
    whatif: WhatIf,
    namespaces: NDArray[np.uint64],
    keep_order: Sequence[Sequence[str]],
) -> SectionOrder | None:
    """Return the best order of the system messages of chats, ``None`` where no chat has several.

    ``second`` is the second pass, read only where an order is to be replayed; ``namespaces`` are in log order.

    Raises:
        UsageError: ``keep_order`` names a section that the chats do not have.
    """
    sample = gathered.chats
    if not sample.chats:
        return None
    log = sample.log(whatif.order, namespaces)
    found = best_section_order(log, [*expressible(log.sections), *keep_order])
    steps = [found.steps[0], *found.steps[1:][-MAX_REPLAYED_STEPS:]]
    changes: list[list[Prompted]] = [[] for _ in steps[1:]]
    if changes:
        for table, rows, first in second:
            chats = list(_orderable(table, rows))
            if not chats:
                continue
            for step, parts in zip(steps[1:], changes, strict=True):
                places = _places(step, log.sections)
                changed = [(index, reordered(messages, places)) for index, _, messages in chats]
                parts.append(keyed_again(keying, table, rows, first, changed))
    outcomes = [whatif.replayed(), *(whatif.replayed(parts) for parts in changes)]
    return section_order_figures(
        replace(found, keep_order=tuple(map(tuple, keep_order))),
        _replayed(steps, outcomes),
        counted_by="replay",
        requests=sample.requests,
        sampled=len(sample.chats),
    )


def _places(step: OrderStep, sections: Sequence[str]) -> Order:
    """Return the order of the system messages alone, as their places in a chat."""
    first = sections.index("system message 1")
    count = len(sections) - 3
    return tuple(
        place for label in step.order for place in [sections.index(label) - first] if 0 <= place < count
    )


def _replayed(steps: Sequence[OrderStep], outcomes: Sequence[Outcome]) -> list[OrderStep]:
    """Return the current order and those that beat it and all with fewer moves, with their replayed rates."""
    kept: list[OrderStep] = []
    for step, outcome in zip(steps, outcomes, strict=True):
        if not kept or (outcome.hit_rate or 0.0) > (kept[-1].hit_rate or 0.0):
            kept.append(replace(step, hit_rate=outcome.hit_rate))
    return kept
