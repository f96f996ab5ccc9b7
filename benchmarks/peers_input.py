"""One chat log in the form that each peer reads.

    python benchmarks/peers_input.py LOG FOLDER

``openai.jsonl`` (kvlint), ``gateway.csv`` (llmtrafficlens), ``tokens.jsonl`` (prefixlens), ``blocks.jsonl`` (full
blocks: kvcache-simulator), ``trace.jsonl`` (Mooncake's form, the last block too: aiperf), ``prompts.jsonl`` (drain3,
datasketch); and ``model``, a folder with the default tokenizer and chat template for those that take one. Text, tokens
and blocks of 16 are kvtools' own, so that every peer does its part of the same work.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

from kvtools.blocks import block_keys
from kvtools.chat import DEFAULT_TEMPLATE, load
from kvtools.tokens import DEFAULT_TOKENIZER, load_tokenizer
from kvtools.tokens.files import tokenizer_file

BLOCK_TOKENS = 16
AT_ONCE = 500
FILES = ("openai.jsonl", "gateway.csv", "tokens.jsonl", "blocks.jsonl", "trace.jsonl", "prompts.jsonl")


def seconds(record: dict[str, Any]) -> float:
    """Return the arrival of a record in seconds."""
    time = record["timestamp"]
    return datetime.fromisoformat(time).timestamp() if isinstance(time, str) else float(time)


def gateway_row(record: dict[str, Any], tokens: int) -> list[Any]:
    """Return a request and its answer as a gateway logs them."""
    body = {"model": record["model"], "messages": record["messages"]}
    answer = {"role": "assistant", "content": record["response"]}
    response = {
        "id": record["id"],
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "stop", "message": answer}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": len(record["response"].split())},
    }
    return [seconds(record), record["model"], json.dumps(body), json.dumps(response), 200]


def model_folder(folder: Path) -> None:
    """Write a model folder as ``transformers`` loads one: tokenizer and chat template, no weights."""
    folder.mkdir(exist_ok=True)
    shutil.copy(tokenizer_file(DEFAULT_TOKENIZER)[1], folder / "tokenizer.json")
    template = load(DEFAULT_TEMPLATE)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": template.source,
        "bos_token": template.bos_token,
        "eos_token": template.eos_token,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False))


def trace_rows(
    record: dict[str, Any], tokens: int, blocks: list[int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a request as a trace of full blocks, and with its last block (an id of its own, as it is not shared)."""
    base = {
        "timestamp": int(seconds(record) * 1000),
        "output_length": len(record["response"].split()),
        "block_size": BLOCK_TOKENS,
    }
    full = {**base, "input_length": len(blocks) * BLOCK_TOKENS, "hash_ids": blocks}
    rest = [2**40 + int(record["id"].rpartition("-")[2])] if tokens % BLOCK_TOKENS else []
    return full, {**base, "input_length": tokens, "hash_ids": blocks + rest}


def write_inputs(log: Path, folder: Path) -> None:
    """Write all forms of a log."""
    folder.mkdir(parents=True, exist_ok=True)
    model_folder(folder / "model")
    template, tokenizer = load(DEFAULT_TEMPLATE), load_tokenizer()
    dense: dict[int, int] = {}
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / name).open("w", newline="")) for name in FILES}
        table = csv.writer(files["gateway.csv"])
        table.writerow(["timestamp", "model_name", "request_json", "response_json", "status_code"])
        lines = log.read_bytes().splitlines()
        for start in range(0, len(lines), AT_ONCE):
            records = [json.loads(line) for line in lines[start : start + AT_ONCE]]
            texts = [template.render(record["messages"]) for record in records]
            ids = tokenizer.encode(texts)
            keys = block_keys(ids, [None] * len(records), BLOCK_TOKENS)
            for row, (record, text) in enumerate(zip(records, texts, strict=True)):
                blocks = [dense.setdefault(key, len(dense) + 1) for key in keys.row(row).tolist()]
                tokens = ids.row(row)
                table.writerow(gateway_row(record, len(tokens)))
                full, whole = trace_rows(record, len(tokens), blocks)
                _put(files["blocks.jsonl"], full if blocks else None)
                _put(files["trace.jsonl"], whole)
                own = {"request_id": record["id"]}
                chat = {"session_id": record["session_id"], "timestamp": seconds(record)}
                _put(files["openai.jsonl"], {**own, **chat, "messages": record["messages"]})
                _put(files["tokens.jsonl"], {**own, "tenant": record["tenant"], "token_ids": tokens.tolist()})
                _put(files["prompts.jsonl"], {**own, "prompt": text})


def _put(file: Any, row: dict[str, Any] | None) -> None:
    if row is not None:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]), Path(sys.argv[2]))
