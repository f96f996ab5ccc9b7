"""JSON that means the same and is written otherwise: tool-call arguments, JSON inside a text, the list of tools.

The order of keys carries no meaning, but for one place: inside a JSON schema a model answers in the order of
``properties`` (and reads ``required``, ``enum`` and the alternatives in theirs), so that order is told apart.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

Spelling: TypeAlias = Literal["spacing", "keys", "schema"]
"""What a spelling ignores: ``spacing`` only the spaces; ``keys`` the order of keys too; ``schema`` all order."""

SPELLINGS: tuple[Spelling, ...] = ("spacing", "keys", "schema")

_ORDERED = "properties"
_SCHEMA_LISTS = frozenset({"required", "enum", "anyOf", "oneOf", "allOf", "type"})
_ATTEMPTS = 1_000
"""So many brackets of one text may turn out to open no JSON; then the rest of the text is taken as it is."""

_DECODER = json.JSONDecoder()


def spelled(value: Any, spelling: Spelling) -> str:
    """Return ``value`` as JSON text in which everything that ``spelling`` ignores is gone."""
    try:
        return json.dumps(value if spelling == "spacing" else _ordered(value, spelling), ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        return repr(type(value))


def _ordered(value: Any, spelling: Spelling, under: str = "") -> Any:
    if isinstance(value, list):
        items = [_ordered(item, spelling) for item in value]
        return sorted(items, key=json.dumps) if spelling == "schema" and under in _SCHEMA_LISTS else items
    if not isinstance(value, dict):
        return value
    keys = list(value) if under == _ORDERED and spelling == "keys" else sorted(value, key=str)
    return {key: _ordered(value[key], spelling, key if isinstance(key, str) else "") for key in keys}


def respelled(text: str, spelling: Spelling) -> str:
    """Return ``text`` with every JSON object or list inside it spelled anew."""
    pieces, done, failed = [], 0, 0
    place = _bracket(text, 0)
    while place >= 0 and failed < _ATTEMPTS:
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            failed += 1
            place = _bracket(text, place + 1)
            continue
        pieces += [text[done:place], spelled(value, spelling)]
        done, place = end, _bracket(text, end)
    return "".join([*pieces, text[done:]])


def _bracket(text: str, start: int) -> int:
    places = [place for place in (text.find("{", start), text.find("[", start)) if place >= 0]
    return min(places, default=-1)


def as_object(arguments: Any) -> Any:
    """Return tool-call arguments as vLLM hands them to a template: a JSON text parsed, nothing as an empty object."""
    if isinstance(arguments, str) and arguments:
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments or {}


def tool_list_kind(before: list[Any], after: list[Any]) -> tuple[str, str] | None:
    """Return the kind of a difference between two lists of tools and a sentence; ``None`` where there is none."""
    spellings = {spelling: _spelled_all(before, after, spelling) for spelling in SPELLINGS}
    one, other = spellings["spacing"]
    if one == other:
        return None
    if sorted(one) == sorted(other):
        return "tool_order", f"The same {len(one)} tools stand in another order."
    one, other = spellings["keys"]
    if one == other:
        return "json_key_order", "The tools are equal as JSON, with their keys in another order."
    if sorted(one) == sorted(other):
        return "tool_order", f"The same {len(one)} tools stand in another order, their keys too."
    one, other = spellings["schema"]
    if sorted(one) == sorted(other):
        return "schema_order", (
            "The tools differ only in the order inside their schemas, which changes what a model generates: "
            "no fix is proposed."
        )
    gone, new = len(set(one) - set(other)), len(set(other) - set(one))
    return "tools_changed", f"{gone} tools of {len(one)} are gone or changed, {new} of {len(other)} are new."


def _spelled_all(before: list[Any], after: list[Any], spelling: Spelling) -> tuple[list[str], list[str]]:
    return [spelled(tool, spelling) for tool in before], [spelled(tool, spelling) for tool in after]
