"""Bodies of OpenAI's responses API as the chat messages and tools that vLLM 0.32 makes of them.

These are what the chat template sees: ``construct_input_messages`` in ``vllm/entrypoints/openai/responses/utils.py``,
``get_function_tools`` in ``vllm/tool_parsers/utils.py``.
"""

from __future__ import annotations

import json
from typing import Any

from kvtools.readers.records import Rejected

_ITEM_FIELDS = {"type", "id", "status"}
"""What makes a message an item of the responses API; no message field, and no template sees it."""


def response_messages(items: str | list[Any], instructions: Any) -> list[dict[str, Any]]:
    """Return the chat messages of a responses body.

    Raises:
        Rejected: an item that has no place in a prompt, or instructions that are no text.
    """
    messages: list[dict[str, Any]] = []
    if not isinstance(instructions, (str, type(None))):
        raise Rejected("bad_instructions", f"instructions is {type(instructions).__name__}, not text")
    if instructions:
        messages.append({"role": "system", "content": instructions})
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    turns: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise Rejected("bad_input", f"input[{index}] is {type(item).__name__}, not an object")
        _add_turn(turns, _turn(item, index))
    return messages + turns


def _turn(item: dict[str, Any], index: int) -> dict[str, Any]:
    """Return one item as a message of its own."""
    match item.get("type"):
        case "function_call":
            return _calling(item, item.get("arguments"), index)
        case "custom_tool_call":
            payload = {"input": item.get("input") or ""}
            return _calling(item, json.dumps(payload, ensure_ascii=False), index)
        case "function_call_output" | "custom_tool_call_output":
            return {"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")}
        case "reasoning":
            return {"role": "assistant", "reasoning": _reasoning(item, index)}
    if not isinstance(item.get("role"), str):
        kind = str(item.get("type"))[:40]
        raise Rejected("bad_input", f"input[{index}] is of type {kind!r}, which is no part of a chat prompt")
    if item["role"] == "assistant":
        said = item.get("content")
        if isinstance(said, list) and said and isinstance(said[0], dict):
            said = said[0].get("text")  # vLLM takes the first part of an earlier answer, and no other
        if isinstance(said, str):
            return {"role": "assistant", "content": said}
    return {key: value for key, value in item.items() if key not in _ITEM_FIELDS}


def _calling(item: dict[str, Any], arguments: Any, index: int) -> dict[str, Any]:
    name, space = item.get("name"), item.get("namespace")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise Rejected("bad_input", f"input[{index}] calls a tool without a name or without arguments")
    function = {"name": f"{space}__{name}" if space else name, "arguments": arguments}
    return {
        "role": "assistant",
        "tool_calls": [{"id": item.get("call_id"), "function": function, "type": "function"}],
    }


def _reasoning(item: dict[str, Any], index: int) -> str:
    if item.get("encrypted_content"):
        raise Rejected("encrypted_reasoning", f"input[{index}] is encrypted reasoning, which vLLM refuses")
    for name in ("content", "summary"):
        parts = item.get(name)
        if isinstance(parts, list) and parts and isinstance(parts[0], dict):
            return str(parts[0].get("text") or "")
    return ""


def _add_turn(turns: list[dict[str, Any]], turn: dict[str, Any]) -> None:
    """Append a turn, or fill it into the assistant message before it: one answer can span several items."""
    last = turns[-1] if turns else {}
    if turn["role"] == "assistant" == last.get("role") and len(turn) == 2:
        ((field, value),) = [(key, value) for key, value in turn.items() if key != "role"]
        if field == "tool_calls" and isinstance(last.get(field), list):
            last[field] += value
            return
        if last.get(field) is None and value is not None:
            last[field] = value
            return
    turns.append(turn)


def function_tools(tools: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return the tools of a responses body as those of a chat body.

    Functions of a namespace are named ``<namespace>__<name>``, a custom tool is a function of one text; the server's
    own tools (web search and its like) are shown to no model.
    """
    shown: list[dict[str, Any]] = []
    for tool in tools or ():
        match tool.get("type"):
            case "namespace":
                inner = tool["tools"] if isinstance(tool.get("tools"), list) else []
                shown += [
                    _function({**function, "name": f"{tool.get('name')}__{function.get('name')}"})
                    for function in inner
                    if isinstance(function, dict) and function.get("type") == "function"
                ]
            case "custom":
                named = {key: tool.get(key) for key in ("name", "description")}
                shown.append(_function({**named, "parameters": _CUSTOM_PARAMETERS}))
            case "function":
                shown.append(tool if isinstance(tool.get("function"), dict) else _function(tool))
    return shown


_CUSTOM_PARAMETERS = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The freeform text payload for this tool."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""How vLLM describes a custom tool to the model."""


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
