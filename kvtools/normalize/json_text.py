"""JSON strings as logs write them: which escapes a log uses, and where a piece of a text ends in its string."""

from __future__ import annotations

from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def utf8(text: str) -> bytes:
    """Return the text as the inside of a JSON string, with the escapes alone that JSON demands."""
    return encode_basestring(text)[1:-1].encode()


def ascii_only(text: str) -> bytes:
    """Return the text as the inside of a JSON string, everything outside ASCII escaped."""
    return encode_basestring_ascii(text)[1:-1].encode("ascii")


def style_of(raw: bytes) -> Callable[[str], bytes]:
    """Return how a log writes strings, as far as one string tells: ``raw`` with its quotes."""
    return ascii_only if raw.isascii() and b"\\u" in raw else utf8


def end_of(raw: bytes, begin: int, text: str, style: Callable[[str], bytes]) -> int | None:
    """Return where ``text`` ends that stands in ``raw`` from ``begin``, ``None`` where it is written in another way.

    Both styles write a text character by character, so that the pieces of a text stand in its string one by one.
    """
    inner = style(text)
    return begin + len(inner) if raw.startswith(inner, begin) else None
