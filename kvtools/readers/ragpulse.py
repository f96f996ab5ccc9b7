"""RAGPulse: requests of a retrieval service as lists of component ids, each component with a length of its own.

``timestamp`` counts seconds from the start and is written as text; ``hash_ids`` holds the ids by kind of
component. Components have no common size, so the ids are no block keys: the table gets lengths, session and time,
and ``components`` gives the ids. Rows stay in the order of the file, of which one is out of time order.
Format: github.com/flashserve/RAGPulse, ``0_trace.jsonl``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.records import Rejected, count, text
from kvtools.readers.times import arrival_us

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPONENTS = ("sys_prompt", "passages_ids", "history", "web_search", "user_input")
"""The kinds of component in the order in which a prompt holds them."""


class RagPulseRecord(msgspec.Struct):
    """The fields of a line that are read."""

    timestamp: Any = None
    input_length: Any = None
    output_length: Any = None
    hash_ids: dict[str, Any] | None = None
    session_id: Any = None


def components(record: RagPulseRecord) -> dict[str, list[int]]:
    """Return the ids of each kind of component, kinds in prompt order; a kind that is not there is empty.

    Raises:
        Rejected: the ids of a kind are not a list of whole numbers.
    """
    held = record.hash_ids or {}
    return {kind: _ids(kind, held.get(kind)) for kind in COMPONENTS}


def _ids(kind: str, ids: Any) -> list[int]:
    listed = [] if ids is None else ids
    if not isinstance(listed, list) or any(type(one) is not int for one in listed):
        raise Rejected("bad_hash_ids", f"the ids of {kind} are not a list of whole numbers")
    return listed


def ragpulse_rows(record: RagPulseRecord) -> Iterator[Row]:
    """Yield the row of one line: lengths, session and time.

    Raises:
        Rejected: a length is no number of tokens, or an id is none.
        BadTime: the time is none.
    """
    components(record)
    yield {
        "arrival_us": arrival_us(record.timestamp),
        "session_id": text(record.session_id),
        "prompt_tokens": count(record.input_length, "input_length"),
        "output_tokens": count(record.output_length, "output_length"),
    }


def _marked(record: dict[str, Any]) -> bool:
    """Tell it from other hash traces, whose ``hash_ids`` are one list."""
    return isinstance(record.get("hash_ids"), dict)


READER = JsonLinesReader(
    name="ragpulse",
    record=RagPulseRecord,
    rows=ragpulse_rows,
    # A first line that is cut tells by the keys inside hash_ids.
    keys=(("hash_ids", "sys_prompt", "user_input"),),
    marks=_marked,
)
