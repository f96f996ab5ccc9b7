"""One request of the canonical log as each format writes it, with everything that the format has a place for."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, TypeAlias

from kvtools.samples.canonical_requests import BLOCK_TOKENS, MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kvtools.samples.canonical_requests import Request

Rows: TypeAlias = "Sequence[tuple[Request, list[int], list[int]]]"
"""The requests, each with the ids of its tokens and of its blocks."""


def line(record: dict[str, Any]) -> str:
    """Return a record as a line of JSON."""
    return json.dumps(record, ensure_ascii=False) + "\n"


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are there."""
    return {name: value for name, value in fields.items() if value is not None}


def _clock(request: Request) -> str:
    seconds, milliseconds = divmod(request.after_ms, 1000)
    return f"{seconds // 60:02d}:{seconds % 60:02d}.{milliseconds:03d}"


def _local_time(request: Request) -> str:
    return f"2026-07-15T08:{_clock(request)}+08:00"


def _body(request: Request) -> dict[str, Any]:
    return given(model=MODEL, messages=request.messages, tools=request.tools)


def _usage(request: Request, ids: list[int]) -> dict[str, Any]:
    return {"prompt_tokens": len(ids), "completion_tokens": request.output_tokens}


def chat(request: Request, ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return a line of chat JSONL."""
    return given(
        id=request.name,
        timestamp=_local_time(request),
        model=MODEL,
        tenant=request.route,
        session_id=request.session,
        messages=request.messages,
        tools=request.tools,
        usage=_usage(request, ids),
    )


def batch(request: Request, _ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return a line of an OpenAI batch file: no time, no lengths."""
    return {
        "custom_id": request.name,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": _body(request),
    }


def tokens(request: Request, ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return a line of a token log."""
    return given(
        id=request.name,
        ts=request.at_ms / 1000,
        model=MODEL,
        tenant=request.route,
        session_id=request.session,
        prompt_token_ids=ids,
        output_tokens=request.output_tokens,
    )


def mooncake(request: Request, ids: list[int], blocks: list[int]) -> dict[str, Any]:
    """Return a line of a hash trace, milliseconds from its start."""
    return {
        "timestamp": request.after_ms,
        "input_length": len(ids),
        "output_length": request.output_tokens,
        "hash_ids": blocks,
        "block_size": BLOCK_TOKENS,
    }


def bailian(request: Request, ids: list[int], blocks: list[int]) -> dict[str, Any]:
    """Return a line of a Qwen-Bailian trace, seconds from its start: c-3 continues c-1."""
    return {
        "chat_id": request.name,
        "parent_chat_id": "c-1" if request.name == "c-3" else -1,
        "timestamp": request.after_ms / 1000,
        "input_length": len(ids),
        "output_length": request.output_tokens,
        "type": "text",
        "turn": 2 if request.name == "c-3" else 1,
        "hash_ids": blocks,
    }


def ragpulse(request: Request, ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return a line of a RAGPulse trace: its ids are of components, which say nothing of blocks."""
    return given(
        timestamp=str(request.after_ms / 1000),
        input_length=len(ids),
        output_length=request.output_tokens,
        hash_ids={
            "sys_prompt": [0], "passages_ids": [], "history": [], "web_search": [],
            "user_input": [int(request.name.removeprefix("c-"))],
        },
        session_id=request.session,
    )  # fmt: skip


def tracelab(request: Request, ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return a round of a TraceLab trace."""
    return given(
        trace_key=request.name,
        session_id=request.session,
        model=MODEL,
        input_tokens_total=len(ids),
        output_tokens=request.output_tokens,
        timing_events=[{"event": "request", "timestamp": _local_time(request)}],
    )


def exchange(request: Request, ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return a pair of request and response bodies."""
    return given(
        id=request.name,
        timestamp=_local_time(request),
        tenant=request.route,
        session_id=request.session,
        request=_body(request),
        response={"object": "chat.completion", "usage": _usage(request, ids)},
    )


def litellm(request: Request, ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return a row of LiteLLM's spend logs, with the prompts stored."""
    return given(
        request_id=request.name,
        call_type="acompletion",
        startTime=_local_time(request),
        model=MODEL,
        team_id=request.route,
        session_id=request.session,
        messages=request.messages,
        model_parameters={"tools": request.tools} if request.tools else None,
        **_usage(request, ids),
    )


def otlp(request: Request, ids: list[int], _: list[int]) -> dict[str, Any]:
    """Return an OTLP export of one span, by the semantic conventions for generative AI of 2025."""
    attributes = given(**{
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": MODEL,
        "gen_ai.response.id": request.name,
        "gen_ai.conversation.id": request.session,
        "gen_ai.input.messages": _json([_in_parts(message) for message in request.messages]),
        "gen_ai.tool.definitions": _json(request.tools) if request.tools else None,
        "gen_ai.usage.input_tokens": len(ids),
        "gen_ai.usage.output_tokens": request.output_tokens,
    })  # fmt: skip
    span = {
        "name": f"chat {MODEL}",
        "startTimeUnixNano": str(request.at_ms * 1_000_000),
        "attributes": _attributes(attributes),
    }
    resource = {"attributes": _attributes(given(**{"service.name": request.route}))}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


def _in_parts(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
    ]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def langfuse(rows: Rows) -> str:
    """Return a page of observations as Langfuse's API answers it, one to a line."""
    return (
        '{"data": [\n' + ",\n".join(_json(_generation(request, ids)) for request, ids, _ in rows) + "\n]}\n"
    )


def _generation(request: Request, ids: list[int]) -> dict[str, Any]:
    return given(
        id=request.name,
        type="GENERATION",
        traceId=request.name.replace("c", "t"),
        startTime=_local_time(request),
        model=MODEL,
        userId=request.route,
        sessionId=request.session,
        input=given(messages=request.messages, tools=request.tools),
        usageDetails={"input": len(ids), "output": request.output_tokens},
    )


def csv_table(rows: Rows) -> str:
    """Return a table whose columns have names of their own, the request's body as JSON in one of them."""
    header = ("call", "began", "customer", "talk", "payload", "read", "written")
    return _csv(
        header,
        (
            (
                request.name, _local_time(request), request.route, request.session, _json(_body(request)),
                len(ids), request.output_tokens,
            )
            for request, ids, _ in rows
        ),
    )  # fmt: skip


def azure(rows: Rows) -> str:
    """Return a trace as Azure publishes them: seven decimals, no zone, lengths only."""
    times = ((f"2026-07-15 00:{_clock(request)}0000", request, ids) for request, ids, _ in rows)
    return _csv(
        ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        ((time, len(ids), request.output_tokens) for time, request, ids in times),
    )


def burstgpt(rows: Rows) -> str:
    """Return a trace as BurstGPT's later releases write it, seconds from its start."""
    header = (
        "Timestamp", "Session ID", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type",
    )  # fmt: skip
    return _csv(
        header,
        (
            (
                request.after_ms / 1000, request.session, MODEL, len(ids), request.output_tokens,
                len(ids) + request.output_tokens, request.route,
            )
            for request, ids, _ in rows
        ),
    )  # fmt: skip


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def vllm_log(rows: Rows) -> str:
    """Return vLLM's log of requests that came as token ids, among other lines, with the times of ``docker logs -t``."""
    written = [
        "INFO 07-15 00:00:00 [api_server.py:1951] Starting vLLM API server 0 on http://0.0.0.0:8000",
        "INFO:     Application startup complete.",
    ]
    for request, ids, _ in rows:
        clock = _clock(request)
        written.append(
            f"2026-07-15T00:{clock}Z INFO 07-15 00:{clock[:5]} [logger.py:41] Received request {request.name}: "
            "prompt: None, params: SamplingParams(n=1, presence_penalty=0.0, temperature=0.6, "
            f"max_tokens={request.output_tokens}), prompt_token_ids: {ids}, prompt_embeds shape: None, "
            "lora_request: None."
        )
        written.append('INFO:     127.0.0.1:51542 - "POST /v1/completions HTTP/1.1" 200 OK')
    return "\n".join(written) + "\n"
