"""What a trace calls the input and the output of a model, to a prompt and an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kvtools.readers.chat_jsonl import canonical_messages, canonical_tools
from kvtools.readers.records import Rejected
from kvtools.readers.traced_messages import Message, chat_messages, content_of, is_message

if TYPE_CHECKING:
    from kvtools.readers.base import Row

_MOST_NESTED = 4
"""JSON text of JSON text of … : exporters are known to encode twice."""

_JSON_STARTS = ('{"', "{}", "[{", "[[", '["', "[]", '"')
_MESSAGE_KEYS = ("messages", "input", "contents")
_SYSTEM_KEYS = ("system", "instructions", "system_instructions", "systemInstruction")
_ANSWER_KEYS = (
    "content", "message", "choices", "output", "text", "parts", "messages", "generations", "kwargs", "completion",
)  # fmt: skip
_NO_ANSWERS = ("tool_call", "function_call", "tool_use", "reasoning", "thinking")


@dataclass(slots=True)
class Prompt:
    """What a model was asked: chat messages and tools, or one text; all ``None`` where the trace holds neither."""

    messages: list[Message] | None = None
    tools: list[Message] | None = None
    text: str | None = None

    def columns(self) -> Row:
        """Return the columns of the request table.

        Raises:
            Rejected: the messages hold what JSON cannot.
        """
        if not self.messages:
            return {"prompt": self.text or None}
        try:
            return {"messages": canonical_messages(self.messages), "tools": canonical_tools(self.tools)}
        except (OverflowError, ValueError):
            raise Rejected("bad_messages", "the messages hold what JSON cannot") from None

    def instruct(self, instructions: Any) -> None:
        """Put instructions that stand beside the messages in front of them, as their system message."""
        instructions = unwrapped(instructions)
        if isinstance(instructions, dict):
            instructions = instructions.get("parts", [instructions])
        if self.text:
            self.messages, self.text = [{"role": "user", "content": self.text}], None
        if self.messages and instructions:
            self.messages.insert(0, {"role": "system", "content": content_of(instructions, "system")})


def unwrapped(value: Any) -> Any:
    """Return the value, decoded as often as it is the JSON text of an object, a list or a text.

    Raises:
        Rejected: it begins like an object or a list of objects and is no JSON: it was cut off on its way.
    """
    for _ in range(_MOST_NESTED):
        if not isinstance(value, str) or not value.lstrip().startswith(_JSON_STARTS):
            return value
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            if value.lstrip().startswith(('{"', "[{")):
                raise Rejected("bad_input", "JSON text that cannot be decoded; it may be cut off") from None
            return value
    return value


def prompt_of(value: Any) -> Prompt:
    """Return the prompt that an input holds; an object without messages (a chain's variables) holds none.

    Raises:
        Rejected: a message without role, several prompts in one input, or JSON text that is cut off.
    """
    value = unwrapped(value)
    if isinstance(value, str):
        return Prompt(text=value)
    if isinstance(value, list):
        return _from_list(value)
    return _from_object(value) if isinstance(value, dict) else Prompt()


def _from_object(value: dict[str, Any]) -> Prompt:
    if is_message(value):
        return _from_list([value])
    for key in _MESSAGE_KEYS:
        inner = unwrapped(value.get(key))
        if inner and isinstance(inner, (list, str)):
            prompt = prompt_of(inner)
            prompt.instruct(next((value[name] for name in _SYSTEM_KEYS if value.get(name)), None))
            prompt.tools = tools_of(value.get("tools") or value.get("functions")) or prompt.tools
            return prompt
    text = value.get("prompt") or value.get("prompts")
    if isinstance(text, (str, list)):
        return prompt_of(text)
    call = value.get("kwargs")
    return _from_object(call) if isinstance(call, dict) else Prompt()


def _from_list(value: list[Any]) -> Prompt:
    if len(value) == 1 and isinstance(value[0], (list, str)):
        # LangChain records a batch; a batch of one is one request.
        return prompt_of(value[0])
    if value and all(isinstance(item, (list, str)) for item in value):
        raise Rejected("many_prompts", f"{len(value):,} prompts in one input")
    tools = [item["content"] for item in value if _defines_tool(item)]
    return Prompt(chat_messages([item for item in value if not _defines_tool(item)]), tools or None)


def _defines_tool(item: Any) -> bool:
    """Return whether this is a tool that Langfuse's LangChain handler lists behind the messages as one of them."""
    if not isinstance(item, dict) or item.get("role") != "tool" or not isinstance(item.get("content"), dict):
        return False
    content = item["content"]
    return content.get("type") == "function" and isinstance(content.get("function"), dict)


def tools_of(value: Any) -> list[Message] | None:
    """Return tool definitions in the shape of OpenAI's chat API, ``None`` where there are none.

    The Responses API and OpenTelemetry write a function flat: ``{"type": "function", "name", "parameters"}``.
    """
    value = unwrapped(value)
    if not isinstance(value, list):
        return None
    tools = [tool for tool in map(unwrapped, value) if isinstance(tool, dict)]
    return [_nested(tool) for tool in tools] or None


def _nested(tool: Message) -> Message:
    if not isinstance(tool.get("name"), str) or "function" in tool:
        return tool
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


def answer_of(value: Any) -> str | None:
    """Return the text that a model answered, ``None`` where it is none (a tool call, for one)."""
    value = unwrapped(value)
    if isinstance(value, str):
        return value or None
    if isinstance(value, list):
        return "".join(filter(None, map(answer_of, value))) or None
    if not isinstance(value, dict) or value.get("type") in _NO_ANSWERS:
        return None
    return next((answer_of(value[key]) for key in _ANSWER_KEYS if value.get(key) is not None), None)
