"""Chat JSONL: one request per line with OpenAI-style ``messages`` or a ``prompt``, under the names that logs use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.records import Rejected, count, first, int64, text
from kvtools.readers.times import arrival_us, duration_us, utc_offset_min
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator

TIME_NAMES = ("ts_epoch", "timestamp", "ts", "time", "arrival_time", "start_time", "created_at", "created")
ID_NAMES = ("id", "request_id")
ROUTE_NAMES = ("tenant", "route", "app", "endpoint")
MOST_SAMPLES = 1024
"""A larger ``n`` is no number of answers: servers refuse it long before."""
SESSION_NAMES = ("session_id", "conversation_id")
_DURATIONS = {
    "ttft_us": (("ttft_us", 1), ("ttft_ms", 1_000), ("ttft_s", 1_000_000)),
    "latency_us": (("latency_us", 1), ("latency_ms", 1_000), ("latency_s", 1_000_000)),
}


class ChatRecord(msgspec.Struct):
    """The fields of a line that are read; every other field is skipped without being decoded."""

    id: Any = None
    request_id: Any = None
    ts_epoch: Any = None
    timestamp: Any = None
    ts: Any = None
    time: Any = None
    arrival_time: Any = None
    start_time: Any = None
    created_at: Any = None
    created: Any = None
    model: Any = None
    adapter: Any = None
    cache_salt: Any = None
    tenant: Any = None
    route: Any = None
    app: Any = None
    endpoint: Any = None
    session_id: Any = None
    conversation_id: Any = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    prompt: str | list[Any] | None = None
    output_tokens: Any = None
    cached_tokens: Any = None
    usage: dict[str, Any] | None = None
    ttft_us: Any = None
    ttft_ms: Any = None
    ttft_s: Any = None
    latency_us: Any = None
    latency_ms: Any = None
    latency_s: Any = None
    status: Any = None
    status_code: Any = None
    priority: Any = None
    n: Any = None
    prompt_logprobs: Any = None
    echo: Any = None
    logprobs: Any = None
    response: Any = None
    completion: Any = None


def chat_rows(record: ChatRecord) -> Iterator[Row]:
    """Yield one row per prompt of the record (a completions call can carry several).

    Raises:
        Rejected: the record says nothing, or a field has the wrong shape.
        BadTime: its time is none.
    """
    if all(getattr(record, name) is None for name in record.__struct_fields__):
        raise Rejected("empty_object", "none of its fields is known")
    common = _common(record)
    if record.messages:
        yield common | {
            "messages": canonical_messages(record.messages),
            "tools": canonical_tools(record.tools),
        }
        return
    prompts = prompts_of(record.prompt)
    if not prompts:
        yield common
    for index, prompt in enumerate(prompts):
        own_id = common["request_id"] if index == 0 else f"{common['request_id']}#{index}"
        yield common | prompt | {"request_id": own_id if common["request_id"] else None}


def _common(record: ChatRecord) -> Row:
    time = first(record, TIME_NAMES)
    row: Row = {
        "request_id": text(first(record, ID_NAMES)),
        "arrival_us": arrival_us(time),
        "utc_offset_min": utc_offset_min(time),
        "namespace": namespace_of(text(record.model), text(record.adapter), text(record.cache_salt)),
        "route": text(first(record, ROUTE_NAMES)),
        "session_id": text(first(record, SESSION_NAMES)),
        "status": text(first(record, ("status", "status_code"))),
        "priority": int64(record.priority),
        "samples": record.n if type(record.n) is int and 1 < record.n <= MOST_SAMPLES else None,
        "skip_lookup": 1 if _skips_lookup(record) else None,
        "output_text": text(first(record, ("response", "completion"))),
        **usage_counts(record.usage),
    }
    if record.output_tokens is not None:
        row["output_tokens"] = count(record.output_tokens, "output_tokens")
    if record.cached_tokens is not None:
        row["cached_tokens"] = count(record.cached_tokens, "cached_tokens")
    for column, spellings in _DURATIONS.items():
        row[column] = next(
            (d for n, u in spellings if (d := duration_us(getattr(record, n), u)) is not None), None
        )
    return row


def _skips_lookup(record: ChatRecord) -> bool:
    """Return whether vLLM reads no cache for this request: prompt logprobs need all of its logits.

    A completions call asks for them with ``echo`` and ``logprobs`` together
    (``SamplingParams.skip_reading_prefix_cache``, vLLM 0.32).
    """
    return record.prompt_logprobs is not None or (record.echo is True and record.logprobs is not None)


def usage_counts(usage: dict[str, Any] | None) -> Row:
    """Return the token counts of an OpenAI ``usage`` object as table columns (empty where there is none)."""
    if not usage:
        return {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return {
        "prompt_tokens": count(usage.get("prompt_tokens"), "prompt_tokens"),
        "output_tokens": count(usage.get("completion_tokens"), "completion_tokens"),
        "cached_tokens": count(cached, "cached_tokens"),
    }


def canonical_messages(messages: list[dict[str, Any]]) -> str:
    """Return messages as JSON without spaces, keys in the order of the log.

    Raises:
        Rejected: a message without a role, or with a content that is neither text, parts nor null.
    """
    for index, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise Rejected("bad_messages", f"messages[{index}] has no role")
        if not isinstance(message.get("content"), (str, list, type(None))):
            kind = type(message["content"]).__name__
            raise Rejected("bad_messages", f"messages[{index}].content is {kind}, not text or parts")
    return msgspec.json.encode(messages).decode()


def canonical_tools(tools: list[dict[str, Any]] | None) -> str | None:
    """Return tool definitions as JSON without spaces, ``None`` where there are none."""
    return msgspec.json.encode(tools).decode() if tools else None


def prompts_of(prompt: str | list[Any] | None) -> list[Row]:
    """Return the prompts of a completions call: text, token ids, or a list of either; an empty one is none.

    Raises:
        Rejected: a list that holds anything else.
    """
    if prompt is None or prompt in ("", []):
        return []
    if isinstance(prompt, str):
        return [{"prompt": prompt}]
    if all(isinstance(part, str) for part in prompt):
        return [{"prompt": part or None} for part in prompt]
    if all(isinstance(part, list) for part in prompt):
        return [{"token_ids": token_ids(part) or None} for part in prompt]
    return [{"token_ids": token_ids(prompt)}]


def token_ids(ids: list[Any]) -> list[int]:
    """Return the ids unchanged.

    Raises:
        Rejected: an entry is no whole number of 0 to 2**31 - 1.
    """
    for token in ids:
        if type(token) is not int or not 0 <= token < 1 << 31:
            raise Rejected("bad_token_ids", f"{str(token)[:20]!r} is not a token id")
    return ids


READER = JsonLinesReader(
    name="chat-jsonl",
    record=ChatRecord,
    rows=chat_rows,
    keys=(("messages",), ("prompt",)),
)
