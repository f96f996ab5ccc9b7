"""JSON strings as logs write them: which escapes a log uses, and how long each piece of a text is in bytes."""

from __future__ import annotations

from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def utf8(text: str) -> bytes:
    """Return the text as the inside of a JSON string, with the escapes alone that JSON demands."""
    return encode_basestring(text)[1:-1].encode()


def ascii_only(text: str) -> bytes:
    """Return the text as the inside of a JSON string, everything outside ASCII escaped."""
    return encode_basestring_ascii(text)[1:-1].encode("ascii")


def style_of(raw: bytes, text: str) -> Callable[[str], bytes] | None:
    """Return how a log writes strings, ``None`` where ``raw`` is neither way of writing ``text``.

    Both ways write a text character by character, so that the pieces of a text stand in its string one by one.
    """
    inner = raw[1:-1]
    for style in (utf8, ascii_only):
        if style(text) == inner:
            return style
    return None


def byte_offsets(
    text: str, cuts: Iterable[int], style: Callable[[str], bytes], encoded: bytes
) -> dict[int, int]:
    """Return for each cut of ``text`` (characters) where it lies in ``encoded``, the text in this style."""
    wanted = sorted(set(cuts))
    if len(encoded) == len(text):
        return {cut: cut for cut in wanted}
    offsets, at, before = {}, 0, 0
    for cut in wanted:
        at += len(style(text[before:cut]))
        offsets[cut] = at
        before = cut
    return offsets
