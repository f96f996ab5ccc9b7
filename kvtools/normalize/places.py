"""Where in a logged line the texts of its request stand, to the byte: a rewriting replaces these and nothing else.

The lines of four formats hold their prompts as JSON strings: chat JSONL, OpenAI batch files, request/response
pairs, and recorded conversations (whose messages every later request repeats).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from kvtools.fields.sections import FLAT, WRITTEN_ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NONE = msgspec.Raw(b"null")
_QUOTE, _ARRAY, _OBJECT = b'"[{'
_TEXT_PARTS = ("text", "input_text")
_SENDERS = WRITTEN_ROLES | {"human": "user", "usr": "user", "observation": "tool"}
_MODEL = ("assistant", "gpt", "chatgpt", "bot", "model")


class _Turn(msgspec.Struct):
    role: Any = None
    sender: Any = msgspec.field(name="from", default=None)
    content: msgspec.Raw = _NONE
    value: msgspec.Raw = _NONE
    tool_calls: msgspec.Raw = _NONE


class _Body(msgspec.Struct):
    messages: msgspec.Raw = _NONE
    prompt: msgspec.Raw = _NONE
    input: msgspec.Raw = _NONE
    instructions: msgspec.Raw = _NONE
    tools: msgspec.Raw = _NONE
    traj: msgspec.Raw = _NONE
    conversations: msgspec.Raw = _NONE
    conversation: msgspec.Raw = _NONE
    system: msgspec.Raw = _NONE
    system_prompt: msgspec.Raw = _NONE


class _Part(msgspec.Struct):
    type: Any = None
    text: msgspec.Raw = _NONE


class _Function(msgspec.Struct):
    arguments: msgspec.Raw = _NONE


class _Call(msgspec.Struct):
    function: _Function = msgspec.field(default_factory=_Function)


class _Holder(msgspec.Struct):
    request: msgspec.Raw = _NONE
    request_body: msgspec.Raw = _NONE
    requestBody: msgspec.Raw = _NONE  # noqa: N815 - as logs spell it
    body: msgspec.Raw = _NONE
    input: msgspec.Raw = _NONE
    request_json: msgspec.Raw = _NONE


_BODY, _HOLDER = msgspec.json.Decoder(_Body), msgspec.json.Decoder(_Holder)
_TURNS, _PARTS = msgspec.json.Decoder(list[_Turn]), msgspec.json.Decoder(list[_Part])
_RAWS, _CALLS = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[_Call])
_TEXT = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True)
class Place:
    """One JSON string of a line: bytes ``begin`` to ``end``, its quotes included.

    ``role`` is its section's; ``message`` the number of its message, ``None`` outside of messages.
    """

    role: str
    text: str
    begin: int
    end: int
    message: int | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """What of a line can be rewritten: texts in their order, tools, and the arguments of tool calls.

    ``tools`` is where the tools' array begins and ends; ``requests`` how many the line holds: one per answer of a
    conversation, one per prompt of a list.
    """

    requests: int
    texts: tuple[Place, ...]
    tools: tuple[int, int] | None
    arguments: tuple[Place, ...]

    def last_user(self) -> Place | None:
        """Return the text of the last user message."""
        return next((place for place in reversed(self.texts) if place.role == "user"), None)


@dataclass(slots=True)
class _Line:
    data: bytes
    base: int

    def span(self, raw: msgspec.Raw) -> tuple[int, int]:
        """Return where ``raw`` lies in the line: it is a view of the line's own bytes."""
        begin = _address(raw) - self.base
        return begin, begin + len(memoryview(raw))

    def text(self, role: str, raw: msgspec.Raw, message: int | None = None) -> Place | None:
        """Return the place of a JSON string, ``None`` where it is none or is empty."""
        if _first(raw) != _QUOTE:
            return None
        text = _TEXT.decode(raw)
        return Place(role, text, *self.span(raw), message) if text else None


def _first(raw: msgspec.Raw) -> int:
    return memoryview(raw)[0]


def _address(buffer: Any) -> int:
    address: int = np.frombuffer(buffer, dtype=np.uint8).__array_interface__["data"][0]
    return address


def places_in(data: bytes, log_format: str) -> Places | None:
    """Return what of a line can be rewritten, ``None`` where it is no object of this format."""
    line = _Line(data, _address(data))
    try:
        body = _BODIES[log_format](data)
        if body is None:
            return None
        texts: list[Place | None] = []
        arguments: list[Place] = []
        answers = 0
        for raw, role in (
            (body.system, "system"),
            (body.system_prompt, "system"),
            (body.instructions, "system"),
        ):
            texts.append(line.text(role, raw))
        for raw in (body.messages, body.traj, body.conversations, body.conversation, body.input):
            if _first(raw) == _ARRAY:
                turns = _TURNS.decode(raw)
                answers += _answers(turns)
                for place, turn in enumerate(turns):
                    texts.append(_said(line, turn, place))
                    arguments += _arguments(line, turn, place)
        texts.append(line.text("user", body.input))
        prompts = list(_prompts(line, body.prompt))
        texts += prompts
        tools = line.span(body.tools) if _first(body.tools) == _ARRAY else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    found = sorted((place for place in texts if place is not None), key=lambda place: place.begin)
    requests = answers if log_format == "conversation" else max(len(prompts), 1)
    return Places(requests, tuple(found), tools, tuple(arguments))


def _answers(turns: list[_Turn]) -> int:
    """Return how many turns the model said: each answered a request of its own."""
    senders = [turn.role if turn.role is not None else turn.sender for turn in turns]
    named = [sender.lower() for sender in senders if isinstance(sender, str)]
    return sum(name in _MODEL for name in named) or named.count("sys")


def _said(line: _Line, turn: _Turn, place: int) -> Place | None:
    """Return the text of a message that its sender wrote, where it is exactly one."""
    named = turn.role if turn.role is not None else turn.sender
    role = _SENDERS.get(named.lower()) if isinstance(named, str) else None
    if role is None:
        return None
    raw = turn.value if turn.role is None and _first(turn.value) == _QUOTE else turn.content
    if _first(raw) != _ARRAY:
        return line.text(role, raw, place)
    texts = [part.text for part in _PARTS.decode(raw) if part.type in _TEXT_PARTS]
    return line.text(role, texts[0], place) if len(texts) == 1 else None


def _arguments(line: _Line, turn: _Turn, place: int) -> Iterator[Place]:
    if _first(turn.tool_calls) == _ARRAY:
        for call in _CALLS.decode(turn.tool_calls):
            found = line.text("assistant", call.function.arguments, place)
            if found is not None:
                yield found


def _prompts(line: _Line, raw: msgspec.Raw) -> Iterator[Place | None]:
    if _first(raw) == _ARRAY:
        for one in _RAWS.decode(raw):
            yield line.text(FLAT, one)
    else:
        yield line.text(FLAT, raw)


def _held(data: bytes) -> _Body | None:
    """Return the body of a request/response pair where it is an object; as JSON text inside a string it is not one."""
    holder = _HOLDER.decode(data)
    for raw in (
        holder.request, holder.request_body, holder.requestBody, holder.body, holder.input, holder.request_json,
    ):  # fmt: skip
        if _first(raw) == _OBJECT:
            inner = _HOLDER.decode(raw).body
            return _BODY.decode(inner if _first(inner) == _OBJECT else raw)
    return None


def _batched(data: bytes) -> _Body | None:
    body = _HOLDER.decode(data).body
    return _BODY.decode(body) if _first(body) == _OBJECT else None


_BODIES: dict[str, Callable[[bytes], _Body | None]] = {
    "chat-jsonl": _BODY.decode,
    "openai-batch": _batched,
    "conversation": _BODY.decode,
    "exchange": _held,
}

REWRITABLE = tuple(_BODIES)
"""The formats whose lines can be rewritten in place."""
