"""One tiny log in every format that can hold it, and the table that each has to give."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kvtools.samples import canonical_formats as formats
from kvtools.samples.canonical_requests import BLOCK_TOKENS, MODEL, REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kvtools.samples.canonical_requests import Request

_FILES: dict[str, Callable[[Request, list[int], list[int]], dict[str, Any]]] = {
    "chat": formats.chat,
    "batch": formats.batch,
    "tokens": formats.tokens,
    "mooncake": formats.mooncake,
    "bailian": formats.bailian,
    "ragpulse": formats.ragpulse,
    "tracelab": formats.tracelab,
    "exchange": formats.exchange,
    "litellm": formats.litellm,
    "otlp": formats.otlp,
}
"""The files of JSON lines, and how one request (with its token ids and block ids) is written in each."""


def canonical(
    encode: Callable[[list[dict[str, Any]], list[dict[str, Any]] | None], list[int]],
) -> dict[str, Iterator[bytes]]:
    """Return the files by name. ``encode`` gives the token ids of messages and tools, as the engine sees them."""
    ids = [encode(request.messages, request.tools) for request in REQUESTS]
    rows = list(zip(REQUESTS, ids, _hash_ids(ids), strict=True))
    texts = {
        f"canonical.{name}.jsonl": "".join(formats.line(write(*row)) for row in rows)
        for name, write in _FILES.items()
    }
    texts["canonical.langfuse.json"] = formats.langfuse(rows)
    texts["canonical.csv"] = formats.csv_table(rows)
    texts["canonical.azure.csv"] = formats.azure(rows)
    texts["canonical.burstgpt.csv"] = formats.burstgpt(rows)
    texts["canonical.vllm.log"] = formats.vllm_log(rows)
    texts["canonical.expected.json"] = _expected(rows)
    return {name: iter([text.encode()]) for name, text in texts.items()}


def _hash_ids(ids: list[list[int]]) -> list[list[int]]:
    numbers: dict[tuple[int, ...], int] = {}
    starts = [range(BLOCK_TOKENS, len(prompt) + BLOCK_TOKENS, BLOCK_TOKENS) for prompt in ids]
    return [
        [numbers.setdefault(tuple(prompt[:end]), len(numbers)) for end in ends]
        for prompt, ends in zip(ids, starts, strict=True)
    ]


def _expected(requests: formats.Rows) -> str:
    """Return the columns of the request table by four formats that together hold all of them; others are NA."""
    rows: dict[str, list[dict[str, Any]]] = {
        "chat-jsonl": [],
        "openai-batch": [],
        "token-log": [],
        "mooncake": [],
    }
    for request, prompt, blocks in requests:
        text = formats.given(
            messages=json.dumps(request.messages, ensure_ascii=False, separators=(",", ":")),
            tools=json.dumps(request.tools, separators=(",", ":")) if request.tools else None,
        )
        who = {"request_id": request.name, "namespace": f"model={MODEL}"}
        where = formats.given(
            route=request.route, session_id=request.session, arrival_us=request.at_ms * 1000
        )
        counts = {"prompt_tokens": len(prompt), "output_tokens": request.output_tokens}
        rows["chat-jsonl"].append(who | where | text | counts)
        rows["chat-jsonl"][-1]["utc_offset_min"] = 480
        rows["openai-batch"].append(who | text | {"route": "/v1/chat/completions"})
        rows["token-log"].append(who | where | counts | {"token_ids": prompt})
        trace = {"arrival_us": request.after_ms * 1000, "block_keys": blocks, "block_size": BLOCK_TOKENS}
        rows["mooncake"].append(trace | counts)
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
