"""What the sender of a request says of its urgency: ``X-Request-Type``, and ``X-Vllm-Priority``, as vLLM reads it.

Logs keep headers as an object, as a list of pairs or of ``{"name", "value"}``, or as tags of ``name: value`` (LiteLLM's
``extra_spend_tag_headers``). A client that cannot set headers puts the type into ``metadata``, as ``request_type``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kvtools.readers.records import int64, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.readers.base import Row

_TYPES = ("x-request-type", "request-type")
_PRIORITY = "x-vllm-priority"
_WANTED = (*_TYPES, _PRIORITY)
HEADER_COLUMNS = ("headers", "request_headers")
TYPE_COLUMNS = (
    "x_request_type",
    *(f"{column}.{name}" for column in HEADER_COLUMNS for name in ("X-Request-Type", "x-request-type")),
    "request_type",
)
"""Where tables keep the type: a column of its own, or one of headers as JSON."""

PRIORITY_COLUMNS = (
    "x_vllm_priority",
    *(f"{column}.{name}" for column in HEADER_COLUMNS for name in ("X-Vllm-Priority", "x-vllm-priority")),
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def stated(*holders: Any) -> Row:
    """Return the columns ``request_type`` and ``priority`` where one of ``holders`` names them, the first that does.

    ``holders`` are headers, metadata or tags in any of the forms above; anything else says nothing. Names are compared
    as HTTP does, in any case, with underscores for hyphens too. ``priority`` comes of the header alone, whose number
    vLLM takes before the body's (``entrypoints/generate/base/serving.py``, vLLM 0.32): put these columns last.
    """
    row: Row = {}
    for holder in holders:
        if not holder:
            continue
        for name, value in _named(holder):
            if name == _PRIORITY:
                if (priority := _number(value)) is not None:
                    row.setdefault("priority", priority)
            elif kind := _text(value):
                row.setdefault("request_type", kind)
    return row


def _named(holder: Any) -> Iterator[tuple[str, Any]]:
    """Yield the wanted names, in small letters, with their values; ``X-Request-Type`` before ``request_type``."""
    found: dict[str, Any] = {}
    for name, value in _pairs(holder):
        key = name.strip().lower().replace("_", "-") if isinstance(name, str) else ""
        if key in _WANTED:
            found.setdefault(key, value)
    yield from ((key, found[key]) for key in _WANTED if key in found)


def _pairs(holder: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(holder, dict):
        yield from holder.items()
    elif isinstance(holder, list):
        for item in holder:
            if isinstance(item, dict):
                yield item.get("name", item.get("key")), item.get("value")
            elif isinstance(item, list) and len(item) == 2:
                yield item[0], item[1]
            elif isinstance(item, str):
                name, colon, value = item.partition(":")
                if colon:
                    yield name, value


def _text(value: Any) -> str | None:
    """Return a header's value; tracing keeps the values of one name in a list."""
    if isinstance(value, list):
        value = value[0] if value else None
    said = text(value)
    return said.strip() or None if said else None


def _number(value: Any) -> int | None:
    said = _text(value)
    return int64(int(said)) if said and _WHOLE.fullmatch(said) else None
