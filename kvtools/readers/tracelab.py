"""TraceLab: one round of a coding agent per line, with lengths, the provider's cached tokens and its events.

``input_tokens_total`` is ``prefix_tokens`` (read from the provider's cache) plus ``newly_append_tokens``; a
round begins with its first timing event. Format: github.com/uw-syfi/TraceLab, ``round_trace.jsonl``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.records import count, first, text
from kvtools.readers.times import arrival_us, utc_offset_min
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class RoundRecord(msgspec.Struct):
    """The fields of a line that are read."""

    trace_key: Any = None
    session_id: Any = None
    model: Any = None
    input_tokens_total: Any = None
    prefix_tokens: Any = None
    claude_cache_read_input_tokens: Any = None
    output_tokens: Any = None
    timing_events: list[Any] | None = None


def round_rows(record: RoundRecord) -> Iterator[Row]:
    """Yield the row of one round.

    Raises:
        Rejected: a length is no number of tokens.
        BadTime: the time of its first event is none.
    """
    cached = first(record, ("claude_cache_read_input_tokens", "prefix_tokens"))
    time = _first_time(record.timing_events or [])
    yield {
        # Not round_id: the rounds of one turn can share it.
        "request_id": text(record.trace_key),
        "arrival_us": arrival_us(time),
        "utc_offset_min": utc_offset_min(time),
        "namespace": namespace_of(text(record.model), None, None),
        "session_id": text(record.session_id),
        "prompt_tokens": count(record.input_tokens_total, "input_tokens_total"),
        "output_tokens": count(record.output_tokens, "output_tokens"),
        "cached_tokens": count(cached, "cached_tokens"),
    }


def _first_time(events: list[Any]) -> Any:
    times = (event.get("timestamp") for event in events if isinstance(event, dict))
    return next((time for time in times if time is not None), None)


READER = JsonLinesReader(
    name="tracelab",
    record=RoundRecord,
    rows=round_rows,
    keys=(("input_tokens_total", "timing_events"),),
)
