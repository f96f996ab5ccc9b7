"""One log in every format: each reader gives the table that the data set names, row for row."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Reader

FILES = {
    "chat-jsonl": "canonical.chat.jsonl",
    "openai-batch": "canonical.batch.jsonl",
    "token-log": "canonical.tokens.jsonl",
    "mooncake": "canonical.mooncake.jsonl",
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "zst": zstandard.compress,
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("name", FILES)
def test_a_reader_gives_the_expected_rows(
    name: str, packing: str, data: Path, tmp_path: Path, paths: Reader
) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKINGS[packing]((data / FILES[name]).read_bytes()))
    expected: list[dict[str, Any]] = json.loads((data / "canonical.expected.json").read_text())[name]
    assert len(expected) == 6
    reading = paths(path)  # the format is recognised, not named
    rows = [row | {"source": f"{path}:{line}"} for line, row in enumerate(expected, 1)]
    assert reading.rows == rows
    assert reading.rejects == []
    assert reading.records == 6


def test_all_formats_agree_on_what_they_have_in_common(data: Path) -> None:
    expected = json.loads((data / "canonical.expected.json").read_text())
    chat, tokens, trace = (expected[name] for name in ("chat-jsonl", "token-log", "mooncake"))
    for rows in zip(chat, tokens, trace, strict=True):
        assert len({row["prompt_tokens"] for row in rows}) == 1
        assert len({row["output_tokens"] for row in rows}) == 1
    assert [len(row["token_ids"]) for row in tokens] == [row["prompt_tokens"] for row in tokens]
    # A block holds 16 tokens, the last one the rest.
    assert [len(row["block_keys"]) for row in trace] == [-(-row["prompt_tokens"] // 16) for row in trace]
