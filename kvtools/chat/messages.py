"""Messages and tools as vLLM's server hands them to a chat template.

A log holds what the client sent; a template sees what the server made of it. The rules are those of vLLM
0.32: ``ChatCompletionRequest`` (fields and their order), ``_parse_chat_message_content`` and
``_postprocess_messages`` in ``vllm/renderers/chat_utils.py``, and the developer role of
``vllm/renderers/hf.py``. Nothing here changes its input.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kvtools.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ContentFormat: TypeAlias = Literal["string", "openai"]
Message: TypeAlias = dict[str, Any]

MEDIA_PLACEHOLDERS = {"image": "<##IMAGE##>", "audio": "<##AUDIO##>", "video": "<##VIDEO##>"}
"""What stands for a picture, a sound or a film in a string-content template.

vLLM puts the model's own placeholder there (and later as many tokens as the medium takes); which one is
unknown without the model, so vLLM's neutral marks are used. Equal marks do not mean equal media.
"""

_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
_MEDIA_PARTS = {
    "image_url": "image",
    "input_image": "image",
    "image_pil": "image",
    "image_embeds": "image",
    "audio_url": "audio",
    "input_audio": "audio",
    "audio_embeds": "audio",
    "video_url": "video",
    "video_embeds": "video",
}
_PART_FIELDS = {*_TEXT_PARTS.values(), *_MEDIA_PARTS, "type", "uuid", "detail", "file", "closed", "name"}
"""Fields of a content part that vLLM knows; others travel on to an openai-content template."""

_CLIENT_STAMP = "x-anthropic-billing-header"
"""A system text that begins so has a first line that vLLM cuts off: it differs in every request."""


def prepare_messages(
    messages: Sequence[Mapping[str, Any]], content_format: ContentFormat, *, developer: bool
) -> list[Message]:
    """Return the messages as the template will see them, one dict per message.

    ``content_format`` ``string`` joins the parts of a content list with newlines; ``openai`` hands each
    content over as a list of ``{"type": ...}`` parts. ``developer`` says that the template knows the
    developer role; where it does not, developer messages become system messages and all system messages
    are joined in front with two newlines.

    Raises:
        TemplateError: a message is not an object with a role, or holds a part or a tool call that vLLM
            refuses.
    """
    prepared = [_message(message, content_format, place) for place, message in enumerate(messages)]
    if not developer and any(message["role"] == "developer" for message in prepared):
        return _join_system(prepared)
    return prepared


def prepare_tools(tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return the tools with the fields, order and defaults of vLLM's ``ChatCompletionToolsParam``.

    A missing description or parameter schema becomes ``None``, unknown fields are dropped. A tool without
    a ``function`` object is not OpenAI's shape and passes as it is. No tools is ``None``.
    """
    if not tools:
        return None
    return [_tool(tool) for tool in tools]


def malformed_arguments(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the places of tool-call arguments that are not a JSON object, as ``messages[i].tool_calls[j]``.

    vLLM renders these as an empty object instead of refusing the request; whoever reads the log should be
    told. Empty and missing arguments are an empty object by rule and are not listed.
    """
    return tuple(
        f"messages[{i}].tool_calls[{j}]"
        for i, message in enumerate(messages)
        if message.get("role") == "assistant"
        for j, call in enumerate(message.get("tool_calls") or [])
        if isinstance(call.get("function"), dict)
        and (arguments := call["function"].get("arguments"))
        and _json_object(arguments) is None
    )


def _message(message: Mapping[str, Any], content_format: ContentFormat, place: int) -> Message:
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(role, str):
        raise TemplateError(f"message {place} has no role: a message is an object with a role and a content.")
    content = message.get("content")
    if isinstance(content, str) and not (role == "system" and content.startswith(_CLIENT_STAMP)):
        wrap = content_format == "openai" and role != "tool"
        prepared: Message = {
            "role": role,
            "content": [{"type": "text", "text": content}] if wrap else content,
        }
    else:
        prepared = {"role": role, "content": _content(role, content, content_format, place)}
    if role == "assistant":
        _add_assistant_fields(prepared, message, place)
    elif role == "tool" and "tool_call_id" in message:
        prepared["tool_call_id"] = message["tool_call_id"]
    for field in ("name", "task"):
        if isinstance(message.get(field), str):
            prepared[field] = message[field]
    if role == "developer":
        prepared["tools"] = _own_tools(message.get("tools"))
    return prepared


def _content(role: str, content: Any, content_format: ContentFormat, place: int) -> str | list[Any]:
    if content is None:
        content = []
    elif isinstance(content, str):
        content = [{"type": "text", "text": content}]
    elif not isinstance(content, list):
        raise TemplateError(
            f"message {place} has a content of type {type(content).__name__}: give a text or a list of parts."
        )
    if role == "system":
        content = _without_client_stamp(content)
    parts = [part for raw in content if (part := _part(raw, place)) is not None]
    if content_format == "openai" and not (role == "tool" and all(part["type"] == "text" for part in parts)):
        return parts
    if content_format == "string":
        # vLLM drops empty texts here and only here, so an empty part adds no newline.
        parts = [part for part in parts if part.get("text") != ""]
    return _flat(parts)


def _part(raw: Any, place: int) -> dict[str, Any] | None:
    """Return one content part in the shape of an openai-content template, or None where vLLM skips it."""
    if isinstance(raw, str):
        return {"type": "text", "text": raw}
    kind = raw.get("type") if isinstance(raw, dict) else None
    if kind is None and isinstance(raw, dict):
        kind = next((name for name in (*_MEDIA_PARTS, "tool_reference") if name in raw), None)
    if kind in _TEXT_PARTS:
        text = raw.get(_TEXT_PARTS[kind])
        if text is None and kind in ("text", "refusal"):
            return None
        if isinstance(text, str):
            return {"type": "text", "text": text, **_extras(raw)}
    elif kind in _MEDIA_PARTS:
        return {"type": _MEDIA_PARTS[kind], **_extras(raw)}
    elif kind == "tool_reference":
        return {"type": kind, "name": str(raw.get("name"))}
    raise TemplateError(
        f"message {place} holds a content part of type {kind!r}, which vLLM refuses: convert it to text."
    )


def _extras(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key not in _PART_FIELDS}


def _flat(parts: Iterable[Mapping[str, Any]]) -> str:
    """Join parts to one text, media marks in front as vLLM does unless it is told to interleave them."""
    marks, texts = [], []
    for part in parts:
        if part["type"] in MEDIA_PLACEHOLDERS:
            marks.append(MEDIA_PLACEHOLDERS[part["type"]])
        else:
            texts.append(part["text"] if part["type"] == "text" else part["name"])
    text = "\n".join(texts)
    return "\n".join([*marks, text] if text else marks)


def _without_client_stamp(parts: list[Any]) -> list[Any]:
    kept = []
    for part in parts:
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part
        if not (isinstance(text, str) and text.startswith(_CLIENT_STAMP)):
            kept.append(part)
        elif rest := text.partition("\n")[2]:
            kept.append(rest if isinstance(part, str) else {**part, "text": rest})
    return kept


def _add_assistant_fields(prepared: Message, message: Mapping[str, Any], place: int) -> None:
    calls = message.get("tool_calls")
    if calls:
        prepared["tool_calls"] = [_tool_call(call, place) for call in calls]
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    if reasoning is not None:
        # Templates in the wild read either name; vLLM sets both.
        prepared["reasoning"] = prepared["reasoning_content"] = reasoning


def _tool_call(call: Any, place: int) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        raise TemplateError(
            f"message {place} holds a tool call without a function object, which vLLM refuses."
        )
    # The request's typed fields come first and in this order, whatever order the client sent: a template
    # that prints a whole call with tojson shows it.
    ordered = {key: call[key] for key in ("id", "function", "type") if key in call}
    typed = {"arguments": _json_object(function.get("arguments")) or {}, "name": function.get("name")}
    ordered["function"] = typed | {key: value for key, value in function.items() if key not in typed}
    return ordered | {key: value for key, value in call.items() if key not in ordered}


def _own_tools(tools: Any) -> Any:
    """Return a developer message's tools, their typed fields first; they get no defaults."""
    if not isinstance(tools, list):
        return tools
    typed = ("name", "description", "parameters", "strict")
    own = []
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict):
            first = {key: function[key] for key in typed if key in function}
            own.append({"function": first | function, **{k: v for k, v in tool.items() if k != "function"}})
    return own


def _json_object(arguments: Any) -> dict[str, Any] | None:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    return arguments if isinstance(arguments, dict) else None


def _join_system(messages: list[Message]) -> list[Message]:
    """Turn developer messages into system messages and join all of them into one in front.

    vLLM leaves a lone system message that already stands first alone (``_consolidate_system_messages``).
    """
    renamed = [
        {**{k: v for k, v in message.items() if k != "tools"}, "role": "system"}
        if message["role"] == "developer"
        else message
        for message in messages
    ]
    if not any(place > 0 and message["role"] == "system" for place, message in enumerate(renamed)):
        return renamed
    texts = [
        text
        for message in renamed
        if message["role"] == "system" and (text := _system_text(message["content"]))
    ]
    joined: Message = {"role": "system", "content": "\n\n".join(texts)}
    return [joined, *(message for message in renamed if message["role"] != "system")]


def _system_text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, dict):
        return dict(tool)
    shaped: dict[str, Any] = {key: function.get(key) for key in ("name", "description", "parameters")}
    for field in ("strict", "defer_loading"):
        value = function.get(field, tool.get(field) if field == "defer_loading" else None)
        if value is not None:
            shaped[field] = value
    outer: dict[str, Any] = {"type": "function", "function": shaped}
    if tool.get("defer_loading") is not None:
        outer["defer_loading"] = tool["defer_loading"]
    return outer
