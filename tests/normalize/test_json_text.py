"""JSON strings as logs write them, beside the standard library's encoder."""

from __future__ import annotations

import json
import sys

import pytest

from kvtools.normalize.json_text import ascii_only, end_of, style_of, utf8

EVERY = "".join(chr(point) for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000)


def test_every_character_is_written_as_json_writes_it() -> None:
    assert utf8(EVERY) == json.dumps(EVERY, ensure_ascii=False)[1:-1].encode()
    assert ascii_only(EVERY) == json.dumps(EVERY)[1:-1].encode()


@pytest.mark.parametrize("text", ["plain", "a\n\x1b", "caf\u00e9", "\u4e2d\U0001f600", "\x7f", "a\x7f\u00e9"])
@pytest.mark.parametrize("ascii_only_log", [True, False])
def test_one_string_tells_how_its_log_writes(text: str, ascii_only_log: bool) -> None:
    raw = json.dumps(text, ensure_ascii=ascii_only_log).encode()
    style = style_of(raw, text)
    assert b'"' + style(text) + b'"' == raw
    assert end_of(raw, 1, text, style) == len(raw) - 1


def test_a_piece_with_escapes_of_its_own_has_no_end() -> None:
    assert end_of(b'"a\\/b"', 1, "a/b", utf8) is None
