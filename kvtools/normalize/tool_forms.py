"""One order for lists of tools and for the keys of tool-call arguments, on the bytes that were logged.

Only whole slices change places: a tool keeps its bytes, with the order of ``properties``, ``required`` and ``enum``
in its schema (a model answers in that order), and so does every value of the arguments. White space and commas between
the slices stay where they are, since how JSON is spaced is its writer's choice and not the order's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_BETWEEN = re.compile(rb"[\[ \t\n\r,]*")
_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_SCALAR = re.compile(r"[^ \t\n\r,\]}]+")


def canonical_tools(raw: bytes) -> bytes | None:
    """Return a JSON array of tools in the order of function name, then canonical JSON; the last resort is their bytes.

    ``None`` where the array is in that order, is none, or has an element without a name. Names stand under
    ``function`` (OpenAI chat) or in the element itself (OpenAI responses, Anthropic).
    """
    tools = _tools(raw)
    if any(tool.name is None for tool in tools):
        return None
    # JSON is written out only where a name alone does not decide.
    names = Counter(tool.name for tool in tools)
    ordered = sorted(tools, key=lambda tool: (tool.name, *(tool.ties() if names[tool.name] > 1 else ())))
    if [tool.raw for tool in ordered] == [tool.raw for tool in tools]:
        return None
    pieces: list[bytes] = []
    place = 0
    for old, new in zip(tools, ordered, strict=True):
        pieces += (raw[place : old.begin], new.raw)
        place = old.begin + len(old.raw)
    return b"".join((*pieces, raw[place:]))


DUPLICATE_TOOL_NAME = "duplicate_tool_name"
"""Counted, not refused: tools of one name keep their order among themselves."""


def duplicate_tool_names(raw: bytes) -> dict[str, int]:
    """Return the names that several tools of a JSON array share, with their number; nothing where it is no array."""
    counts = Counter(tool.name for tool in _tools(raw) if tool.name is not None)
    return {name: count for name, count in sorted(counts.items()) if count > 1}


@dataclass(frozen=True, slots=True)
class _Tool:
    """An element of the array: its bytes, where they begin, and its JSON value."""

    raw: bytes
    begin: int
    value: Any

    @property
    def name(self) -> str | None:
        if not isinstance(self.value, dict):
            return None
        function = self.value.get("function")
        name = (function if isinstance(function, dict) else self.value).get("name")
        return name if isinstance(name, str) else None

    def ties(self) -> tuple[str, bytes]:
        """Return what orders tools of one name: canonical JSON (none where it is too deep), then their bytes."""
        try:
            return json.dumps(self.value, sort_keys=True, separators=(",", ":")), self.raw
        except RecursionError:
            return "", self.raw


def _tools(raw: bytes) -> list[_Tool]:
    tools, place = [], 0
    try:
        for element in _ELEMENTS.decode(raw):
            slice_ = bytes(element)
            gap = _BETWEEN.match(raw, place)
            begin = gap.end() if gap else place
            tools.append(_Tool(slice_, begin, json.loads(slice_)))
            place = begin + len(slice_)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []
    return tools


def canonical_arguments(arguments: str) -> str | None:
    """Return the JSON text of a tool call's arguments with the keys of every object sorted by code point.

    Keys and values keep their bytes (``1.0`` and ``1e400`` too), and white space stays where it stood.

    ``None`` where the keys are in order, where the text is no JSON object, and where an object has a key twice:
    readers differ in which of the two counts.
    """
    order = _Order()
    try:
        value = json.loads(
            arguments, object_pairs_hook=order.see, parse_int=str, parse_float=str, parse_constant=_no_number
        )
        if not isinstance(value, dict) or order.kept:
            return None
        begin = _end(_SPACE, arguments, 0)
        written, end = _sorted_value(arguments, begin)
    except (ValueError, RecursionError):
        return None
    return arguments[:begin] + written + arguments[end:]


class _Order:
    """Whether all objects seen so far have their keys in order."""

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept = True

    def see(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return the object; raise ``ValueError`` where it has a key twice."""
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands twice")
        keys = list(found)
        self.kept = self.kept and keys == sorted(keys)
        return found


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _sorted_value(text: str, begin: int) -> tuple[str, int]:
    """Return the value at ``begin`` with its keys sorted, and where it ends. The text is known to be JSON."""
    sign = text[begin]
    if sign not in "{[":
        end = _end(_STRING if sign == '"' else _SCALAR, text, begin)
        return text[begin:end], end
    gaps, members, end = _members(text, begin)
    if sign == "{":
        members.sort(key=lambda member: member[0])
    return _interleaved(gaps, (written for _, written in members)), end


def _members(text: str, begin: int) -> tuple[list[str], list[tuple[str, str]], int]:
    """Return what stands before, between and behind the members, the members by key (empty in an array), the end."""
    gaps: list[str] = []
    members: list[tuple[str, str]] = []
    in_object = text[begin] == "{"
    place, behind = _end(_SPACE, text, begin + 1), begin
    while text[place] not in "}]":
        gaps.append(text[behind:place])
        key, start = "", place
        if in_object:
            place = _end(_STRING, text, start)
            key = json.loads(text[start:place])
            place = _end(_SPACE, text, _end(_SPACE, text, place) + 1)
        head = text[start:place]
        written, behind = _sorted_value(text, place)
        members.append((key, head + written))
        place = _end(_SPACE, text, behind)
        if text[place] == ",":
            place = _end(_SPACE, text, place + 1)
    gaps.append(text[behind : place + 1])
    return gaps, members, place + 1


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    match = pattern.match(text, place)
    return match.end() if match else place


def _interleaved(gaps: Sequence[str], members: Iterable[str]) -> str:
    pieces = [gaps[0]]
    for gap, member in zip(gaps[1:], members, strict=True):
        pieces += (member, gap)
    return "".join(pieces)
