"""One tiny log in every format that the readers know, and the table that each has to give.

Six requests: two conversations of one assistant (the second turn resends the first), one request with a tool,
one with the line separator U+2028 inside a string and an emoji, one without route, one repeated prompt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK_TOKENS = 16
MODEL = "demo/chat"
_START_MS = 1_784_073_600_000  # 2026-07-15T00:00:00Z
_SYSTEM = (
    "You are the assistant of a small garden shop. Answer in two sentences, name the plant first, "
    "and never promise a delivery date."
)
_TOOL = {
    "type": "function",
    "function": {
        "name": "stock",
        "parameters": {"type": "object", "properties": {"plant": {"type": "string"}}},
    },
}


@dataclass(frozen=True)
class _Request:
    name: str
    after_ms: int
    output_tokens: int
    messages: list[dict[str, Any]]
    route: str | None = None
    session: str | None = None
    tools: list[dict[str, Any]] | None = None

    @property
    def at_ms(self) -> int:
        return _START_MS + self.after_ms


def _system(*turns: str) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    talk = [{"role": roles[index % 2], "content": text} for index, text in enumerate(turns)]
    return [{"role": "system", "content": _SYSTEM}, *talk]


REQUESTS = (
    _Request("c-1", 0, 21, _system("Does rosemary survive frost?"), "care", "s-1"),
    _Request("c-2", 1_500, 18, _system("Which roses like shade?"), "care", "s-2"),
    _Request(
        "c-3", 9_250, 25,
        _system("Does rosemary survive frost?", "Rosemary survives light frost. Cover it.", "And in a pot?"),
        "care", "s-1",
    ),
    _Request("c-4", 12_000, 9, _system("Is thyme in stock?"), "orders", None, [_TOOL]),
    _Request("c-5", 12_001, 7, [{"role": "user", "content": "Line one\u2028line two 🌿"}]),
    _Request("c-6", 60_000, 18, _system("Which roses like shade?"), "care", "s-3"),
)  # fmt: skip


def canonical(
    encode: Callable[[list[dict[str, Any]], list[dict[str, Any]] | None], list[int]],
) -> dict[str, Iterator[bytes]]:
    """Return the files by name. ``encode`` gives the token ids of messages and tools, as the engine sees them."""
    ids = [encode(request.messages, request.tools) for request in REQUESTS]
    lines = {
        "canonical.chat.jsonl": [_chat(r, len(i)) for r, i in zip(REQUESTS, ids, strict=True)],
        "canonical.batch.jsonl": [_batch(r) for r in REQUESTS],
        "canonical.tokens.jsonl": [_tokens(r, i) for r, i in zip(REQUESTS, ids, strict=True)],
        "canonical.mooncake.jsonl": list(_trace(ids)),
    }
    files = {name: iter([_line(record) for record in records]) for name, records in lines.items()}
    files["canonical.expected.json"] = iter([_expected(ids)])
    return files


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _chat(request: _Request, prompt_tokens: int) -> dict[str, Any]:
    seconds, milliseconds = divmod(request.after_ms, 1000)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": request.output_tokens}
    return _given(
        id=request.name,
        timestamp=f"2026-07-15T08:{seconds // 60:02d}:{seconds % 60:02d}.{milliseconds:03d}+08:00",
        model=MODEL,
        tenant=request.route,
        session_id=request.session,
        messages=request.messages,
        tools=request.tools,
        usage=usage,
    )


def _batch(request: _Request) -> dict[str, Any]:
    body = _given(model=MODEL, messages=request.messages, tools=request.tools)
    return {"custom_id": request.name, "method": "POST", "url": "/v1/chat/completions", "body": body}


def _tokens(request: _Request, ids: list[int]) -> dict[str, Any]:
    return _given(
        id=request.name,
        ts=request.at_ms / 1000,
        model=MODEL,
        tenant=request.route,
        session_id=request.session,
        prompt_token_ids=ids,
        output_tokens=request.output_tokens,
    )


def _hash_ids(ids: list[list[int]]) -> list[list[int]]:
    numbers: dict[tuple[int, ...], int] = {}
    starts = [range(BLOCK_TOKENS, len(prompt) + BLOCK_TOKENS, BLOCK_TOKENS) for prompt in ids]
    return [
        [numbers.setdefault(tuple(prompt[:end]), len(numbers)) for end in ends]
        for prompt, ends in zip(ids, starts, strict=True)
    ]


def _trace(ids: list[list[int]]) -> Iterator[dict[str, Any]]:
    for request, prompt, blocks in zip(REQUESTS, ids, _hash_ids(ids), strict=True):
        yield {
            "timestamp": request.after_ms,
            "input_length": len(prompt),
            "output_length": request.output_tokens,
            "hash_ids": blocks,
            "block_size": BLOCK_TOKENS,
        }


def _expected(ids: list[list[int]]) -> bytes:
    """Return, for each format, the columns of the request table that it can fill; all others are NA."""
    rows: dict[str, list[dict[str, Any]]] = {
        "chat-jsonl": [],
        "openai-batch": [],
        "token-log": [],
        "mooncake": [],
    }
    for request, prompt, blocks in zip(REQUESTS, ids, _hash_ids(ids), strict=True):
        text = _given(
            messages=json.dumps(request.messages, ensure_ascii=False, separators=(",", ":")),
            tools=json.dumps(request.tools, separators=(",", ":")) if request.tools else None,
        )
        who = {"request_id": request.name, "namespace": f"model={MODEL}"}
        where = _given(route=request.route, session_id=request.session, arrival_us=request.at_ms * 1000)
        counts = {"prompt_tokens": len(prompt), "output_tokens": request.output_tokens}
        rows["chat-jsonl"].append(who | where | text | counts)
        rows["chat-jsonl"][-1]["utc_offset_min"] = 480
        rows["openai-batch"].append(who | text | {"route": "/v1/chat/completions"})
        rows["token-log"].append(who | where | counts | {"token_ids": prompt})
        trace = {"arrival_us": request.after_ms * 1000, "block_keys": blocks, "block_size": BLOCK_TOKENS}
        rows["mooncake"].append(trace | counts)
    return json.dumps(rows, ensure_ascii=False, indent=1).encode() + b"\n"
