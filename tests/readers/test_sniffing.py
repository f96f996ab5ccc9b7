from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvtools.errors import InputError, UsageError
from kvtools.readers import READERS, find_inputs

if TYPE_CHECKING:
    from pathlib import Path

CHAT = b'{"id":"a","messages":[{"role":"user","content":"hi"}]}\n'
PROMPT = b'{"id":"a","prompt":"hi"}\n'
BATCH = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"prompt":"hi"}}\n'
TOKENS = b'{"id":"a","prompt_token_ids":[1,2]}\n'
TRACE = b'{"timestamp":0,"input_length":2,"output_length":1,"hash_ids":[1]}\n'


def format_of(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "log"
    path.write_bytes(data)
    (file,) = find_inputs([str(path)]).files
    return file.reader.name


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (CHAT, "chat-jsonl"),
        (PROMPT, "chat-jsonl"),
        (BATCH, "openai-batch"),
        (TOKENS, "token-log"),
        (b'{"token_ids":[1,2]}\n', "token-log"),
        (TRACE, "mooncake"),
    ],
)
def test_each_format_is_recognised_by_its_first_lines(tmp_path: Path, line: bytes, name: str) -> None:
    assert format_of(tmp_path, line) == name
    assert format_of(tmp_path, line.rstrip()) == name
    assert format_of(tmp_path, b"\xef\xbb\xbf" + line) == name
    assert format_of(tmp_path, b"{broken\n[]\n\n" + line * 2) == name


@pytest.mark.parametrize(
    ("key", "name"), [("prompt", "chat-jsonl"), ("prompt_token_ids", "token-log"), ("hash_ids", "mooncake")]
)
def test_a_first_line_longer_than_the_head(tmp_path: Path, key: str, name: str) -> None:
    value = "x" * 400_000 if key == "prompt" else [7] * 200_000
    line = json.dumps({"id": "a", "input_length": 1, key: value}).encode() + b"\n"
    assert len(line) > 256 * 1024
    assert format_of(tmp_path, line * 2) == name


def test_a_key_inside_a_long_text_is_not_a_key(tmp_path: Path) -> None:
    text = 'quoted "hash_ids": [1] ' * 20_000
    assert format_of(tmp_path, json.dumps({"prompt": text}).encode() + b"\n") == "chat-jsonl"


def test_what_most_lines_are_decides(tmp_path: Path) -> None:
    assert format_of(tmp_path, CHAT * 3 + TRACE + TOKENS) == "chat-jsonl"


@pytest.mark.parametrize(
    "data", [CHAT + TRACE, b'{"x":1}\n', b"a,b\n1,2\n", bytes(range(256)) * 40, "{}\n".encode("utf-16")]
)
def test_no_format(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(
        InputError, match=r"log:1: not in a known format; name it with --input-format \(kvtools formats"
    ):
        format_of(tmp_path, data)


@pytest.mark.parametrize("data", [b"", b"\n \n\t\n"])
def test_an_empty_file(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="log: the file is empty"):
        format_of(tmp_path, data)


def test_a_named_format_is_taken_at_its_word(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(TRACE)
    (file,) = find_inputs([str(path)], "chat-jsonl").files
    assert file.reader is READERS["chat-jsonl"]


def test_an_unknown_format_is_wrong_usage_even_where_the_file_is_missing() -> None:
    with pytest.raises(UsageError, match="--input-format xml"):
        find_inputs(["missing.jsonl"], "xml")
