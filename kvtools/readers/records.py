"""JSON lines to records: one bad line is one counted reject, never the end of the file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.lines import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

SNIFFED_LINES = 20
_SHOWN_CHARS = 40
_ANYTHING = msgspec.json.Decoder()
_MOST_TOKENS = 1 << 62
# Possessive, and an open string runs to the end: the time stays linear whatever a hostile line holds.
_STRING = rb'"(?:[^"\\]++|\\.?)*+"?'
_STRINGS = re.compile(_STRING, re.DOTALL)
_BRACES = re.compile(_STRING + rb"|[{}]", re.DOTALL)
_GLUE = re.compile(rb"}\s*{")
_OBJECT_OR_END = re.compile(rb"\s*(?:{|\Z)")
_CONTROL = re.compile(rb"\\.|[\x00-\x1f]", re.DOTALL)

FAULTS = {
    "line_too_long": "longer than 32 MiB; rejected unread",
    "damaged_stream": "the compressed file is damaged or cut short here; what follows is lost",
}


class Rejected(Exception):  # noqa: N818 - names what happened
    """One record cannot be used. ``reason`` is a word to count by, ``detail`` a sentence for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def decode(line: Line, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode one line into the decoder's type.

    Raises:
        Rejected: not JSON, not UTF-8, nested too deep, or of another shape.
    """
    if line.fault:
        raise Rejected(line.fault, FAULTS[line.fault])
    try:
        return decoder.decode(line.data)
    except msgspec.ValidationError as error:
        raise _wrong_shape(line.data, str(error)) from None
    except msgspec.DecodeError as error:
        raise _not_json(line, str(error)) from None
    except UnicodeDecodeError:
        raise Rejected("bad_utf8", "not UTF-8 text") from None
    except RecursionError:
        raise Rejected("too_deep", "nested too deep") from None


def embedded(value: Any, name: str) -> Any:
    """Return a value that a field holds as such or as JSON text; text that begins no object or list is text.

    Raises:
        Rejected: the text is broken JSON.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[", '"')):
        return value
    try:
        return decode(Line(0, value.strip().encode()), _ANYTHING)
    except Rejected as fault:
        raise Rejected(f"bad_{name}", f"{name} is text that is {fault.detail}") from None


def _wrong_shape(data: bytes, message: str) -> Rejected:
    return (
        misfit(message)
        if data.startswith(b"{")
        else Rejected("not_an_object", f"not a JSON object ({message})")
    )


def misfit(message: str) -> Rejected:
    """Return the reject for a field of another type, from msgspec's sentence; its reason names the field."""
    place = re.search(r"\$\.(\w+)", message)
    return Rejected(f"bad_{place.group(1)}" if place else "wrong_shape", message)


def _not_json(line: Line, message: str) -> Rejected:
    if not _is_utf8(line.data):
        return Rejected("bad_utf8", "not UTF-8 text")
    if "truncated" in message:
        # msgspec says "truncated" of half a surrogate pair too, which the standard library takes.
        if _stdlib_reads(line.data):
            return Rejected("bad_json", "not JSON (half of a surrogate pair: no text can hold it)")
        return Rejected("bad_json", f"not JSON (cut off at column {len(line.data):,})")
    return Rejected("bad_json", f"not JSON ({message})")


def _stdlib_reads(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Mended:
    """One object of a line that did not decode: its record or its fault, and what had to be mended to read it."""

    line: Line
    record: Any = None
    fault: Rejected | None = None
    repairs: tuple[str, ...] = ()


def mended(line: Line, fault: Rejected, decoder: msgspec.json.Decoder[Any]) -> Iterator[Mended]:
    """Yield what a line that failed with ``fault`` holds all the same, one entry per object on it.

    Concurrent writers glue objects together (``glued_line``, named once, with the second object), careless ones
    write control characters into strings as they are (``control_char``).
    """
    if line.fault:
        yield Mended(line, fault=fault)
        return
    for index, data in enumerate(objects(line.data)):
        whole = len(data) == len(line.data)
        piece = line if whole else msgspec.structs.replace(line, data=data)
        entry = _mend(piece, fault if whole else None, decoder)
        yield replace(entry, repairs=(*entry.repairs, "glued_line")) if index == 1 else entry


def _mend(piece: Line, fault: Rejected | None, decoder: msgspec.json.Decoder[Any]) -> Mended:
    if fault is None:
        try:
            return Mended(piece, decode(piece, decoder))
        except Rejected as error:
            fault = error
    data = escaped(piece.data)
    if data != piece.data:
        piece = msgspec.structs.replace(piece, data=data)
        try:
            return Mended(piece, decode(piece, decoder), repairs=("control_char",))
        except Rejected as error:
            # The control character was not all that is wrong with it.
            fault = error
    return Mended(piece, fault=fault)


def objects(data: bytes) -> Iterator[bytes]:
    """Yield the objects that stand one after another in ``data``, and last what follows the last whole one.

    Anything but an object behind the first one makes it no glued line: ``data`` comes back in one piece.
    """
    start = 0
    for end in _ends(data) if _GLUE.search(data) else ():
        if start == 0 and not _OBJECT_OR_END.match(data, end):
            break
        yield data[start:end].strip()
        start = end
    if rest := data[start:].strip():
        yield rest


def _ends(data: bytes) -> Iterator[int]:
    """Yield where each outermost pair of braces closes; braces inside strings are text."""
    depth = 0
    for token in _BRACES.finditer(data):
        brace = token.group()
        if brace == b"{":
            depth += 1
        elif brace == b"}" and depth:
            depth -= 1
            if depth == 0:
                yield token.end()


def escaped(data: bytes) -> bytes:
    """Return JSON text with the control characters inside its strings escaped; the others separate tokens."""

    def escape(found: re.Match[bytes]) -> bytes:
        character = found.group()
        return character if len(character) == 2 else b"\\u%04x" % character[0]

    return _STRINGS.sub(lambda string: _CONTROL.sub(escape, string.group()), data)


def sniff_keys(head: bytes, wanted: Collection[str]) -> bool:
    """Return whether most of the first records of ``head`` carry all keys of ``wanted``."""
    return sniff_records(head, lambda record: all(key in record for key in wanted), (wanted,))


def sniff_records(
    head: bytes, marks: Callable[[dict[str, Any]], bool], keys: Collection[Collection[str]]
) -> bool:
    """Return whether ``marks`` says yes to most of the first records of ``head``.

    Where no line is whole (the first may be longer than ``head``), the quoted key names in the cut one decide:
    all of one of the sets ``keys``.
    """
    written = [line for line in head.split(b"\n") if line.strip()]
    records = [r for r in map(_object, written[:SNIFFED_LINES]) if r is not None]
    if not records and written and not head.endswith(b"\n"):
        return any(all(_names(written[-1], key) for key in wanted) for wanted in keys)
    return 2 * sum(map(marks, records)) > len(records)


def _names(line: bytes, key: str) -> bool:
    return re.search(rb'(?<!\\)"%s"\s*:' % re.escape(key.encode()), line) is not None


def _object(line: bytes) -> dict[str, Any] | None:
    line = line.removeprefix(b"\xef\xbb\xbf").strip()
    for data in (line, next(objects(escaped(line)), b"")):
        try:
            record = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        return record if isinstance(record, dict) else None
    return None


def text(value: Any) -> str | None:
    """Return an identifier as text: text and integers as they are, ``None`` for anything else or empty."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def count(value: Any, name: str) -> int | None:
    """Return a count of tokens, or ``None`` where the log does not say.

    Raises:
        Rejected: the value is negative or no whole number.
    """
    if value is None or (type(value) is int and 0 <= value < _MOST_TOKENS):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_TOKENS:
        raise Rejected(f"bad_{name}", f"{name} is {repr(value)[:_SHOWN_CHARS]}, not a number of tokens")
    return value


def int64(value: Any) -> int | None:
    """Return a whole number that 64 bits hold, ``None`` for anything else."""
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def first(record: Any, names: Collection[str]) -> Any:
    """Return the first of the named attributes that the record sets (to more than empty text), or ``None``."""
    for name in names:
        value = getattr(record, name)
        if value is not None and value != "":
            return value
    return None


def first_of(names: Collection[str]) -> Callable[[Any], Any]:
    """Return what ``first`` does for these names (two or more): where each line needs it, twice as fast."""
    values_of = attrgetter(*names)

    def choose(record: Any) -> Any:
        for value in values_of(record):
            if value is not None and value != "":
                return value
        return None

    return choose


def text_of(names: Collection[str]) -> Callable[[Any], str | None]:
    """Return what ``text`` makes of ``first`` for these names (two or more), as fast as ``first_of``."""
    values_of = attrgetter(*names)

    def choose(record: Any) -> str | None:
        for value in values_of(record):
            if value is not None and value != "":
                return value if type(value) is str else text(value)
        return None

    return choose
