"""JSON lines to records: one bad line is one counted reject, never the end of the file."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection

    from kvtools.readers.lines import Line

SNIFFED_LINES = 20
_SHOWN_CHARS = 40

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


def _wrong_shape(data: bytes, message: str) -> Rejected:
    if not data.startswith(b"{"):
        return Rejected("not_an_object", f"not a JSON object ({message})")
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


def sniff_keys(head: bytes, wanted: Collection[str]) -> bool:
    """Return whether most of the first records of ``head`` carry all keys of ``wanted``.

    Where no line is whole (the first may be longer than ``head``), the quoted key names in the cut one decide.
    """
    written = [line for line in head.split(b"\n") if line.strip()]
    records = [r for r in map(_object, written[:SNIFFED_LINES]) if r is not None]
    if not records and written and not head.endswith(b"\n"):
        return all(re.search(rb'(?<!\\)"%s"\s*:' % re.escape(key.encode()), written[-1]) for key in wanted)
    matching = sum(1 for record in records if all(key in record for key in wanted))
    return 2 * matching > len(records)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


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
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
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
