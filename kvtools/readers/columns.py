"""Columns to rows: what the columns of a CSV or parquet file are for, by their usual names or by a mapping.

The names are those of chat logs (``id``, ``timestamp``, ``model``, ``messages``, ``prompt``, token counts, …),
in any case, with spaces or underscores. Columns of JSON (``request_json``, ``response_json``: the two bodies of a
gateway log) are looked into; plain columns come before them. A mapping names the source of a table column
itself, as in ``prompt=request_json.messages``: dots go into JSON, numbers into lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.errors import UsageError
from kvtools.readers.bodies import answer_text, token_ids
from kvtools.readers.chat_jsonl import ChatRecord, chat_rows
from kvtools.readers.hash_trace import TraceRecord, trace_rows
from kvtools.readers.labels import ID_NAMES, ROUTE_NAMES, SESSION_NAMES, TIME_NAMES
from kvtools.readers.records import Rejected, count, text
from kvtools.readers.request_headers import HEADER_COLUMNS, PRIORITY_COLUMNS, TYPE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kvtools.readers.base import Row

_REQUEST = ("request_json", "request_body")
_RESPONSE = ("response_json", "response_body")


def _in(columns: tuple[str, ...], key: str) -> tuple[str, ...]:
    return tuple(f"{column}.{key}" for column in columns)


_TEXTS = {
    "id": (*ID_NAMES, *_in(_RESPONSE, "id")),
    "ts": TIME_NAMES,
    "model": ("model", "model_name", *_in(_REQUEST, "model")),
    "adapter": ("adapter",),
    "cache_salt": ("cache_salt", *_in(_REQUEST, "cache_salt")),
    "namespace": (),
    "route": ROUTE_NAMES,
    "session_id": SESSION_NAMES,
    "prompt": ("prompt", *_in(_REQUEST, "prompt")),
    **{
        name: _in(_REQUEST, name)
        for name in ("input", "instructions", "previous_response_id", "conversation")
    },
    "status": ("status", "status_code"),
    "response": ("response", "completion", "output_text"),
    "provider": ("provider", "custom_llm_provider"),
    "request_type": (*TYPE_COLUMNS, *_in(_REQUEST, "metadata.request_type")),
}
_DOCUMENTS = {
    "messages": ("messages", *_in(_REQUEST, "messages")),
    "tools": ("tools", *_in(_REQUEST, "tools")),
    "token_ids": ("prompt_token_ids", "token_ids"),
    "block_keys": ("hash_ids", "block_keys"),
    "usage": ("usage", *_in(_RESPONSE, "usage")),
    "choices": _in(_RESPONSE, "choices"),
    "output": _in(_RESPONSE, "output"),
}
_NUMBERS = {
    "block_size": ("block_size",),
    "priority": (*PRIORITY_COLUMNS, "priority", *_in(_REQUEST, "priority")),
    "prompt_tokens": ("prompt_tokens", "input_length"),
    "output_tokens": ("output_tokens", "completion_tokens", "output_length"),
    "cached_tokens": ("cached_tokens",),
    **{name: (name,) for name in ("ttft_us", "ttft_ms", "ttft_s", "latency_us", "latency_ms", "latency_s")},
    **{name: (name, *_in(_REQUEST, name)) for name in ("n", "prompt_logprobs", "echo", "logprobs", "stream")},
}
_USUAL: dict[str, tuple[str, ...]] = {**_TEXTS, **_DOCUMENTS, **_NUMBERS}
"""Per field of a request the places where tables keep it, the first one that holds something first."""

_FIELDS_OF = {
    "request_id": "id", "arrival_us": "ts", "samples": "n", "output_text": "response", "streamed": "stream",
}  # fmt: skip
_PROMPTS = ("messages", "prompt", "input", "token_ids", "block_keys")
_NO_NUMBER = {"nan", "null", "none", "na", "n/a", "\\n"}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands: a column by its number, and the way into the JSON it holds."""

    column: int
    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of one file are for: per field of a request its places, in the order of preference."""

    places: Mapping[str, tuple[_Place, ...]]
    mapped: frozenset[str]

    @property
    def needed(self) -> list[int]:
        """Numbers of the columns that are read, ascending."""
        return sorted({place.column for places in self.places.values() for place in places})

    @property
    def recognised(self) -> bool:
        """Whether any column says something of a request's prompt or its length."""
        return any(name in self.places for name in (*_PROMPTS, "prompt_tokens"))

    def rows(self, cells: Sequence[Any]) -> list[Row]:
        """Return the rows of one record, given as one value per column.

        Raises:
            Rejected: a cell cannot be used.
            BadTime: the time is none.
        """
        decoded: dict[int, Any] = {}
        fields = {}
        for name, places in self.places.items():
            for place in places:
                value = _value(cells, place, decoded)
                if not _empty(value):
                    fields[name] = _typed(name, value)
                    break
        # Mooncake's hash traces count milliseconds from their start, also where they were put into a table.
        ids = self.places.get("block_keys", ())
        milliseconds = "ts" not in self.mapped and any(place.name == "hash_ids" for place in ids)
        try:
            return list(_rows(fields, milliseconds=milliseconds))
        except RecursionError:
            raise Rejected("too_deep", "nested too deep") from None


def columns_of(
    header: Sequence[str], mapping: Mapping[str, str] | None = None, route_key: str | None = None
) -> Columns:
    """Return what the columns named in ``header`` are for; ``mapping``: table column to source column.

    Raises:
        UsageError: the mapping names a table column that there is not, or a source column that is not in ``header``.
    """
    numbers: dict[str, int] = {}
    for names in (header, map(_plain, header)):
        for number, name in enumerate(names):
            numbers.setdefault(name, number)
    mapped = {}
    for target, source in (mapping or {}).items():
        if _place(source, numbers) is None:
            shown = ", ".join(header[:12])
            raise UsageError(f"--map {target}={source}: no such column; the columns are {shown[:200]}.")
        mapped[_field_of(target, source)] = (source,)
    wanted = _USUAL | mapped | ({} if route_key is None else {"route": (route_key,)})
    if any(name in mapped for name in _PROMPTS):
        wanted |= {name: () for name in _PROMPTS if name not in mapped}
    places = {
        name: tuple(place for path in paths if (place := _place(path, numbers)) is not None)
        for name, paths in wanted.items()
    }
    return Columns({name: found for name, found in places.items() if found}, frozenset(mapped))


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _field_of(target: str, source: str) -> str:
    name = _FIELDS_OF.get(target, target)
    if name not in _USUAL:
        known = ", ".join(sorted((set(_USUAL) - set(_FIELDS_OF.values())) | set(_FIELDS_OF)))
        raise UsageError(f"--map {target}={source}: not a column of a request; take one of {known}.")
    if name in {"ttft_us", "latency_us"}:
        # The unit stands in the source's own name: ttft_us=first_token_ms.
        unit = next((u for u in ("ms", "us", "s") if source.lower().endswith(f"_{u}")), "us")
        return name.removesuffix("us") + unit
    return name


def _place(path: str, numbers: Mapping[str, int]) -> _Place | None:
    """Find ``path``; a column's own name may hold dots, so the longest name that there is wins."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        column = numbers.get(name, numbers.get(_plain(name)))
        if column is not None:
            return _Place(column, name, tuple(parts[length:]))
    return None


def _empty(value: Any) -> bool:
    """Whether a cell says nothing; NaN is what pandas writes where a number is missing."""
    return value is None or value == "" or (isinstance(value, float) and value != value)  # noqa: PLR0124 - NaN


def _value(cells: Sequence[Any], place: _Place, decoded: dict[int, Any]) -> Any:
    value = cells[place.column]
    if not place.path or _empty(value):
        return value
    if isinstance(value, str):
        if place.column not in decoded:
            decoded[place.column] = _json(value, place.name)
        value = decoded[place.column]
    for part in place.path:
        if isinstance(value, list):
            value = (
                value[int(part)] if part.isdecimal() and len(part) < 10 and int(part) < len(value) else None
            )
        else:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def _json(value: str, column: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if column in (*_RESPONSE, *HEADER_COLUMNS):
            return None  # a failed call is answered by anything, and its request is still a request
        raise Rejected("bad_json", f"column {column[:40]} is not JSON") from None


def _typed(name: str, value: Any) -> Any:
    """Return a cell in the type that its field has in a JSON log; what cannot be converted stays as it is."""
    if not isinstance(value, str) or name in _TEXTS:
        return value
    if name in _DOCUMENTS:
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise Rejected(f"bad_{name}", f"{name} is not JSON") from None
    return _literal(value)


def _literal(value: str) -> Any:
    if value.strip().lower() in _NO_NUMBER:
        return None
    try:
        literal = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return value
    return value if isinstance(literal, (list, dict)) else literal


def _rows(fields: dict[str, Any], *, milliseconds: bool) -> Iterator[Row]:
    answer = answer_text({key: fields.pop(key, None) for key in ("choices", "output")})
    fields.setdefault("response", answer)
    added: Row = {}
    for name in ("namespace", "provider", "request_type"):
        if value := text(fields.pop(name, None)):
            added[name] = value
    ids = _list("token_ids", fields.pop("token_ids", None))
    blocks = _list("block_keys", fields.pop("block_keys", None))
    size, tokens = fields.pop("block_size", None), count(fields.pop("prompt_tokens", None), "prompt_tokens")
    if ids:
        added["token_ids"] = token_ids(ids)
    if ids or tokens is not None:
        added["prompt_tokens"] = len(ids) if tokens is None else tokens
    if blocks:
        added |= _blocks(blocks, tokens, size, fields.get("ts") if milliseconds else None)
    rows = list(chat_rows(_record(fields, known=bool(added))))
    if len(rows) > 1 and (ids or blocks):
        raise Rejected("bad_prompt", f"one list of ids beside {len(rows):,} prompts")
    for row in rows:
        yield row | added


def _record(fields: dict[str, Any], *, known: bool) -> ChatRecord:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and prompt and all(isinstance(part, dict) for part in prompt):
        fields["messages"] = fields.pop("prompt")
    elif not isinstance(prompt, (str, list, type(None))):
        raise Rejected("bad_prompt", f"prompt is {type(prompt).__name__}, not text or a list")
    for name in ("messages", "tools"):
        if not all(isinstance(part, dict) for part in _list(name, fields.get(name))):
            raise Rejected(f"bad_{name}", f"{name} is not a list of objects")
    if known:
        fields.setdefault("usage", {})  # says nothing, but the record is no empty object
    return ChatRecord(**fields)


def _blocks(ids: list[Any], tokens: int | None, size: Any, time: Any) -> Row:
    number = _literal(time) if isinstance(time, str) else time
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        number = None  # a time that is written out says itself what it counts from
    (row,) = trace_rows(TraceRecord(timestamp=number, input_length=tokens, hash_ids=ids, block_size=size))
    return {
        name: row[name]
        for name in ("block_keys", "block_size", *(["arrival_us"] if number is not None else []))
    }


def _list(name: str, value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise Rejected(f"bad_{name}", f"{name} is {type(value).__name__}, not a list")
    return value or []
