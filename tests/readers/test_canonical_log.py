"""One log in every format: each reader gives the same table, less the columns that its format cannot hold."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from kvtools.readers import READERS
from kvtools.table import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Reader

FILES = {
    "chat-jsonl": "canonical.chat.jsonl",
    "openai-batch": "canonical.batch.jsonl",
    "exchange": "canonical.exchange.jsonl",
    "litellm": "canonical.litellm.jsonl",
    "langfuse": "canonical.langfuse.json",
    "otlp": "canonical.otlp.jsonl",
    "csv": "canonical.csv",
    "vllm-log": "canonical.vllm.log",
    "token-log": "canonical.tokens.jsonl",
    "mooncake": "canonical.mooncake.jsonl",
    "bailian": "canonical.bailian.jsonl",
    "azure": "canonical.azure.csv",
    "burstgpt": "canonical.burstgpt.csv",
    "ragpulse": "canonical.ragpulse.jsonl",
    "tracelab": "canonical.tracelab.jsonl",
}
ELSEWHERE = {
    "parquet": "no text: built below, as its bytes name the version of the library that wrote it",
    "conversation": "each of its turns is a request: it cannot hold one request without those before it",
    "sglang-log": "its lines are batches; their counts are the server's hits, which this log does not say",
    "prometheus": "totals, no requests",
}
MAPPING = {
    "request_id": "call", "arrival_us": "began", "route": "customer", "session_id": "talk", "model": "payload.model",
    "messages": "payload.messages", "tools": "payload.tools", "prompt_tokens": "read", "output_tokens": "written",
}  # fmt: skip
ASKED: dict[str, dict[str, Any]] = {"csv": {"input_format": "csv", "mapping": MAPPING}}

TEXT = {"messages", "tools"}
IDS = {"token_ids"}
BLOCKS = {"block_keys", "block_size"}
LENGTHS = {"prompt_tokens", "output_tokens"}
NAMES = {"request_id", "namespace", "route", "session_id"}
ZONE = {"utc_offset_min"}
LACKS = {
    "chat-jsonl": IDS | BLOCKS,
    "openai-batch": IDS | BLOCKS | LENGTHS | ZONE | {"arrival_us", "session_id"},
    "exchange": IDS | BLOCKS,
    "litellm": IDS | BLOCKS,
    "langfuse": IDS | BLOCKS,
    "otlp": IDS | BLOCKS | ZONE,
    "csv": IDS | BLOCKS,
    "vllm-log": TEXT | BLOCKS | ZONE | {"namespace", "route", "session_id", "output_tokens"},
    "token-log": TEXT | BLOCKS | ZONE,
    "mooncake": TEXT | IDS | ZONE | NAMES,
    "bailian": TEXT | IDS | ZONE | {"namespace", "route"},
    "azure": TEXT | IDS | BLOCKS | ZONE | NAMES,
    "burstgpt": TEXT | IDS | BLOCKS | ZONE | {"request_id"},
    "ragpulse": TEXT | IDS | BLOCKS | ZONE | {"request_id", "namespace", "route"},
    "tracelab": TEXT | IDS | BLOCKS | {"route"},
}
"""What a format has no place for: NA in every row."""
FROM_THE_START = {"mooncake", "bailian", "burstgpt", "ragpulse"}
"""Traces count from their first request, at 2026-07-15T00:00:00Z."""
START_US = 1_784_073_600_000_000
INSTEAD: dict[str, dict[str, list[str]]] = {
    "openai-batch": {"route": ["/v1/chat/completions"] * 6},  # a batch file names no other
    # Every observation is part of a trace, and a trace without a session is one.
    "langfuse": {"session_id": ["s-1", "s-2", "s-1", "t-4", "t-5", "s-3"]},
    # A conversation is named by its first request.
    "bailian": {"session_id": ["c-1", "c-2", "c-1", "c-4", "c-5", "c-6"]},
}
LINES = {
    "csv": range(2, 8), "azure": range(2, 8), "burstgpt": range(2, 8),  # behind the header
    "langfuse": range(2, 8),  # inside one document
    "vllm-log": range(3, 15, 2),  # among other lines
}  # fmt: skip
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "zst": zstandard.compress,
}


def whole_rows(data: Path) -> list[dict[str, Any]]:
    """The rows with all that any format says of them; the epoch's time wins over the trace's."""
    expected = json.loads((data / "canonical.expected.json").read_text())
    found = zip(*(expected[name] for name in ("mooncake", "token-log", "chat-jsonl")), strict=True)
    return [trace | tokens | chat for trace, tokens, chat in found]


def rows_in(name: str, data: Path) -> list[dict[str, Any]]:
    rows = [
        {column: value for column, value in row.items() if column not in LACKS[name]}
        for row in whole_rows(data)
    ]
    for place, row in enumerate(rows):
        if name in FROM_THE_START:
            row["arrival_us"] -= START_US
        row |= {column: values[place] for column, values in INSTEAD.get(name, {}).items()}
    return rows


def test_every_format_is_here_or_says_why_not() -> None:
    assert {*FILES, *ELSEWHERE} == set(READERS)
    assert set(LACKS) == set(FILES)


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("name", FILES)
def test_a_reader_gives_the_expected_rows(
    name: str, packing: str, data: Path, tmp_path: Path, paths: Reader
) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKINGS[packing]((data / FILES[name]).read_bytes()))
    expected = rows_in(name, data)
    assert len(expected) == 6
    reading = paths(
        path, **ASKED.get(name, {})
    )  # the format is recognised, not named, but for the mapped table
    lines = LINES.get(name, range(1, 7))
    assert reading.rows == [row | {"source": f"{path}:{n}"} for n, row in zip(lines, expected, strict=True)]
    assert reading.rejects == []
    assert reading.records == 6


def test_a_format_lacks_what_is_named_and_nothing_else(data: Path) -> None:
    held = {column for row in whole_rows(data) for column in row}
    assert held == TEXT | IDS | BLOCKS | LENGTHS | NAMES | ZONE | {"arrival_us"}
    assert held < set(SCHEMA.names)  # the log says nothing of the others: they are NA in every format
    for name in FILES:
        found = {column for row in rows_in(name, data) for column in row}
        assert found == held - LACKS[name] | set(INSTEAD.get(name, {})), name


def test_a_table_in_parquet(data: Path, tmp_path: Path, paths: Reader) -> None:
    """Parquet holds it all: prompts as nested columns or as JSON, token ids and block ids as lists."""
    records = [json.loads(line) for line in (data / FILES["chat-jsonl"]).read_text().split("\n")[:-1]]
    for record in records:
        record["tools"] = json.dumps(record["tools"]) if "tools" in record else None
    names = ("id", "timestamp", "model", "tenant", "session_id", "messages", "tools", "usage")
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({name: [record.get(name) for record in records] for name in names}), path)
    reading = paths(path)
    expected = rows_in("chat-jsonl", data)
    assert reading.rows == [row | {"source": f"{path}:{n}"} for n, row in enumerate(expected, 1)]


def test_block_ids_and_token_ids_say_the_same(data: Path) -> None:
    for row in whole_rows(data):
        assert len(row["token_ids"]) == row["prompt_tokens"]
        # A block holds 16 tokens, the last one the rest.
        assert len(row["block_keys"]) == -(-row["prompt_tokens"] // 16)
    expected = json.loads((data / "canonical.expected.json").read_text())
    for rows in zip(*(expected[name] for name in ("chat-jsonl", "token-log", "mooncake")), strict=True):
        assert len({row["prompt_tokens"] for row in rows}) == 1
        assert len({row["output_tokens"] for row in rows}) == 1
    batch = [(row["messages"], row.get("tools")) for row in expected["openai-batch"]]
    assert batch == [(row["messages"], row.get("tools")) for row in expected["chat-jsonl"]]
