"""Where in a logged line the texts of its request stand, to the byte: a rewriting replaces these and nothing else.

The lines of four formats hold their prompts as JSON strings: chat JSONL, OpenAI batch files, request/response
pairs, and recorded conversations (whose messages every later request repeats).
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
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
_EMPTY_BYTES = 2
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
TEXT = msgspec.json.Decoder(str)
_SYSTEM = attrgetter("system", "system_prompt", "instructions")
_MESSAGES = attrgetter("messages", "traj", "conversations", "conversation", "input")


class _Line:
    """A line, and where it is in memory: what is decoded from it as raw JSON is a view of its bytes."""

    __slots__ = ("base", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.base: int | None = None

    def span(self, raw: msgspec.Raw) -> tuple[int, int]:
        if self.base is None:
            self.base = address_of(self.data)
        begin = address_of(raw) - self.base
        return begin, begin + len(memoryview(raw))


class Place:
    """One JSON string of a line. Text and bytes are looked at only where they are wanted.

    ``role`` is its section's; ``message`` the number of its message, ``None`` outside of messages.
    """

    __slots__ = ("_line", "_text", "message", "raw", "role")

    def __init__(self, line: _Line, role: str, raw: msgspec.Raw, message: int | None) -> None:
        """Take the string as it stands in the line, its quotes included."""
        self._line = line
        self._text: str | None = None
        self.role, self.raw, self.message = role, raw, message

    @property
    def text(self) -> str:
        """The text.

        Raises:
            msgspec.MsgspecError: it is no Unicode text.
        """
        if self._text is None:
            self._text = TEXT.decode(self.raw)
        return self._text

    def span(self) -> tuple[int, int]:
        """Return where in the line the string begins and ends, in bytes, quotes included."""
        return self._line.span(self.raw)


@dataclass(frozen=True, slots=True)
class Places:
    """What of a line can be rewritten: texts in their order, tools, and the arguments of tool calls.

    ``requests`` is how many the line holds: one per answer of a conversation, one per prompt of a list.
    """

    requests: int
    texts: tuple[Place, ...]
    _line: _Line
    _tools: msgspec.Raw
    _calls: tuple[tuple[int, msgspec.Raw], ...]

    def tools(self) -> tuple[int, int] | None:
        """Return where the array of tools begins and ends, ``None`` where there is none."""
        return self._line.span(self._tools) if _first(self._tools) == _ARRAY else None

    def arguments(self) -> Iterator[Place]:
        """Yield the arguments of all tool calls.

        Raises:
            msgspec.MsgspecError: a call is none.
        """
        for message, raw in self._calls:
            if _first(raw) == _ARRAY:
                for call in _CALLS.decode(raw):
                    found = _string(self._line, "assistant", call.function.arguments, message)
                    if found is not None:
                        yield found

    def last_user(self) -> Place | None:
        """Return the text of the last user message."""
        return next((place for place in reversed(self.texts) if place.role == "user"), None)


def _first(raw: msgspec.Raw) -> int:
    return memoryview(raw)[0]


def _string(line: _Line, role: str, raw: msgspec.Raw, message: int | None = None) -> Place | None:
    """Return the place of a JSON string, ``None`` where it is none or is empty."""
    view = memoryview(raw)
    return Place(line, role, raw, message) if view[0] == _QUOTE and len(view) > _EMPTY_BYTES else None


def address_of(buffer: Any) -> int:
    """Return where in memory the bytes of a buffer begin: a view of a line lies in the line."""
    address: int = np.frombuffer(buffer, dtype=np.uint8).__array_interface__["data"][0]
    return address


def places_in(data: bytes, log_format: str) -> Places | None:
    """Return what of a line can be rewritten, ``None`` where it is no object of this format."""
    line = _Line(data)
    try:
        body = _BODIES[log_format](data)
        if body is None:
            return None
        turns = _turns(body)
        texts = [_string(line, "system", raw) for raw in _SYSTEM(body) if raw is not _NONE]
        texts += [_said(line, turn, place) for place, turn in enumerate(turns)]
        texts.append(_string(line, "user", body.input))
        prompts = list(_prompts(line, body.prompt))
        calls = tuple(
            (place, turn.tool_calls) for place, turn in enumerate(turns) if turn.tool_calls is not _NONE
        )
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    requests = _answers(turns) if log_format == "conversation" else max(len(prompts), 1)
    return Places(
        requests, tuple(place for place in (*texts, *prompts) if place is not None), line, body.tools, calls
    )


def _turns(body: _Body) -> list[_Turn]:
    for raw in _MESSAGES(body):
        if raw is not _NONE and _first(raw) == _ARRAY:
            return _TURNS.decode(raw)
    return []


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
        return _string(line, role, raw, place)
    texts = [part.text for part in _PARTS.decode(raw) if part.type in _TEXT_PARTS]
    return _string(line, role, texts[0], place) if len(texts) == 1 else None


def _prompts(line: _Line, raw: msgspec.Raw) -> Iterator[Place | None]:
    if raw is _NONE:
        return
    if _first(raw) == _ARRAY:
        for one in _RAWS.decode(raw):
            yield _string(line, FLAT, one)
    else:
        yield _string(line, FLAT, raw)


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
