"""One message as tracing tools record it, to OpenAI's chat messages.

A trace holds what an agent framework handed to its client: OpenAI's own messages, LangChain's (``type`` human,
ai, …, or its serialised constructors), the items of OpenAI's Responses API, or OpenTelemetry's messages made of
``parts``. Only what a chat template can see is kept; an export's own marks on a message are left behind.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from kvtools.readers.records import Rejected

Message: TypeAlias = dict[str, Any]

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "model": "assistant"}
_TYPES_WITH_ROLE = {"human", "ai", "AIMessageChunk", "system", "tool", "function"}
_CONSTRUCTORS = {
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
}
_KEPT = ("name", "tool_call_id", "reasoning", "reasoning_content", "refusal")
_PART_TYPES = ("text", "input_text", "output_text", "image_url", "input_image", "input_audio", "refusal")


def chat_messages(items: list[Any]) -> list[Message]:
    """Return recorded messages as chat messages; one item can become several (each tool result) or none.

    Raises:
        Rejected: an item is no object, or nothing says its role.
    """
    messages: list[Message] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise Rejected("bad_messages", f"messages[{index}] is {type(item).__name__}, not an object")
        _append(messages, _plain(item), index)
    return messages


def is_message(value: Message) -> bool:
    """Return whether an object is a message: it says its role and has a content."""
    value = _plain(value)
    return _role(value) is not None and ("content" in value or "parts" in value)


def _plain(item: Message) -> Message:
    """Return LangChain's two serialised forms of a message as the message in them."""
    kind, names = item.get("type"), item.get("id")
    if kind == "constructor" and isinstance(item.get("kwargs"), dict):
        name = names[-1] if isinstance(names, list) and names else None
        return {"role": _CONSTRUCTORS.get(name) if isinstance(name, str) else None, **item["kwargs"]}
    if isinstance(kind, str) and kind in _TYPES_WITH_ROLE and isinstance(item.get("data"), dict):
        return {**item["data"], "type": kind}
    return item


def _append(messages: list[Message], item: Message, index: int) -> None:
    if _append_response_item(messages, item):
        return
    role = _role(item)
    if role is None:
        raise Rejected("bad_messages", f"messages[{index}] has no role")
    if isinstance(item.get("parts"), list):
        _append_parts(messages, role, item["parts"])
        return
    message: Message = {"role": role, "content": content_of(_unlisted(item.get("content")), role)}
    message |= {key: item[key] for key in _KEPT if item.get(key) is not None}
    if calls := _tool_calls(item):
        message["tool_calls"] = calls
    messages.append(message)


def _role(item: Message) -> str | None:
    role, kind = item.get("role"), item.get("type")
    if not isinstance(role, str) or not role:
        role = kind if isinstance(kind, str) and kind in _TYPES_WITH_ROLE else None
    return None if role is None else _ROLES.get(role, role)


def _append_response_item(messages: list[Message], item: Message) -> bool:
    """Append what is no message in the Responses API: calls, results, reasoning. Return whether it was one."""
    kind = item.get("type")
    if kind == "function_call":
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments"))
        # Calls of one turn are items of their own; a chat message holds them together.
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        messages[-1].setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        result = content_of(item.get("output"), "tool")
        messages.append({"role": "tool", "content": result, "tool_call_id": item.get("call_id")})
    elif kind == "reasoning" and "role" not in item:
        parts = item.get("content")
        shown = (
            [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        )
        if text := "".join(piece for piece in shown if isinstance(piece, str)):
            messages.append({"role": "assistant", "content": None, "reasoning": text})
    else:
        return False
    return True


def _append_parts(messages: list[Message], role: str, parts: list[Any]) -> None:
    """Append an OpenTelemetry message: text and calls in one, each tool result as a message of its own."""
    content: list[Any] = []
    calls: list[Message] = []
    results: list[Message] = []
    reasoning = ""
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "tool_call":
            calls.append(_call(part.get("id"), part.get("name"), part.get("arguments")))
        elif kind == "tool_call_response":
            result = content_of(part.get("response", part.get("result")), "tool")
            results.append({"role": "tool", "content": result, "tool_call_id": part.get("id")})
        elif kind in ("reasoning", "thinking") and isinstance(part.get("content"), str):
            reasoning += part["content"]
        else:
            content.append(part)
    if content or calls or reasoning or not results:
        message: Message = {"role": role, "content": content_of(content, role) if content else None}
        message |= {"reasoning": reasoning} if reasoning else {}
        messages.append(message | ({"tool_calls": calls} if calls else {}))
    messages.extend(results)


def content_of(content: Any, role: str) -> str | list[Any] | None:
    """Return a content as text, parts or null.

    Langfuse decodes a text that is a JSON value. It is written again as Python's ``json.dumps`` does, which
    agent frameworks use for the results of tools; where the client wrote it otherwise, spaces differ.
    """
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, dict) and content.get("type") in _PART_TYPES:
        content = [content]
    if isinstance(content, list) and (content or role != "tool"):
        parts = [part for item in content if (part := _part(item)) is not None]
        if len(parts) == len(content):
            alone = len(parts) == 1 and parts[0].keys() == {"type", "text"}
            return str(parts[0]["text"]) if alone else parts
    return json.dumps(content, ensure_ascii=False)


def _unlisted(content: Any) -> Any:
    """Return content parts that an exporter wrote as JSON text."""
    if not isinstance(content, str) or not content.startswith('[{"'):
        return content
    try:
        parts = msgspec.json.decode(content, type=list[Message])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return content
    listed = all(part.get("type") in _PART_TYPES for part in parts)
    return parts if listed else content


def _part(part: Any) -> Message | None:
    """Return a content part in OpenAI's shape, ``None`` for what is no content part."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return None
    kind = part.get("type")
    if kind in ("text", "input_text", "output_text") or part.keys() == {"text"}:
        text = part.get("text", part.get("content"))
        return {"type": "text", "text": text} if isinstance(text, str) else None
    return part if isinstance(kind, str) else None


def _tool_calls(item: Message) -> list[Message]:
    extra = item.get("additional_kwargs")
    calls = item.get("tool_calls") or (extra.get("tool_calls") if isinstance(extra, dict) else None)
    shaped: list[Message] = []
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            shaped.append(call)
        elif isinstance(call, dict) and isinstance(call.get("name"), str):
            # LangChain's own shape: {"name", "args", "id"}.
            shaped.append(_call(call.get("id"), call["name"], call.get("args", call.get("arguments"))))
    return shaped


def _call(own_id: Any, name: Any, arguments: Any) -> Message:
    return {"id": own_id, "type": "function", "function": {"name": name, "arguments": arguments}}
