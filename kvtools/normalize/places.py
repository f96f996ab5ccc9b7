"""Where in a logged line the texts of its request stand, to the byte: a rewriting replaces these and nothing else.

The lines of four formats hold their prompts as JSON strings: chat JSONL, OpenAI batch files, request/response
pairs, and recorded conversations (whose messages every later request repeats).
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from kvtools.fields.sections import FLAT, WRITTEN_ROLES
from kvtools.normalize.line_shapes import NONE, Body, Call, Chat, Holder, Part, Rest, Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

_QUOTE, _ARRAY, _OBJECT = b'"[{'
_TEXT_PARTS = ("text", "input_text")
_SENDERS = WRITTEN_ROLES | {"human": "user", "usr": "user", "observation": "tool"}
_EMPTY_BYTES = 2
_MODEL = ("assistant", "gpt", "chatgpt", "bot", "model")


_BODY, _HOLDER = msgspec.json.Decoder(Body), msgspec.json.Decoder(Holder)
_CHAT = msgspec.json.Decoder(Chat)
_TURNS, _PARTS = msgspec.json.Decoder(list[Turn]), msgspec.json.Decoder(list[Part])
_RAWS, _CALLS = msgspec.json.Decoder(list[msgspec.Raw]), msgspec.json.Decoder(list[Call])
TEXT = msgspec.json.Decoder(str)
_BUFFER = pa.py_buffer
_SYSTEM = attrgetter("system", "system_prompt", "instructions")
_OTHER_MESSAGES = attrgetter("traj", "conversations", "conversation", "input")


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


class Places(NamedTuple):
    """What of a line can be rewritten: texts in their order, tools, and the arguments of tool calls.

    ``texts`` are those of the roles that were asked for. ``requests`` is how many the line holds: one per answer of a
    conversation, one per prompt of a list.
    """

    requests: int
    texts: tuple[Place, ...]
    line: _Line
    body: Rest
    turns: list[Turn]

    def every_text(self) -> tuple[Place, ...]:
        """Return the texts of all roles."""
        return _texts(self.line, self.body, self.turns, None)[0]

    def tools(self) -> tuple[int, int] | None:
        """Return where the array of tools begins and ends, ``None`` where there is none."""
        tools = self.body.tools
        return self.line.span(tools) if _first(tools) == _ARRAY else None

    def arguments(self) -> Iterator[Place]:
        """Yield the arguments of all tool calls.

        Raises:
            msgspec.MsgspecError: a call is none.
        """
        for message, turn in enumerate(self.turns):
            if _first(turn.tool_calls) == _ARRAY:
                for call in _CALLS.decode(turn.tool_calls):
                    found = _string(self.line, "assistant", call.function.arguments, message)
                    if found is not None:
                        yield found

    def last_user(self) -> Place | None:
        """Return the text of the last user message."""
        return next((place for place in reversed(self.every_text()) if place.role == "user"), None)


def _first(raw: msgspec.Raw) -> int:
    return memoryview(raw)[0]


def _string(line: _Line, role: str, raw: msgspec.Raw, message: int | None = None) -> Place | None:
    """Return the place of a JSON string, ``None`` where it is none or is empty."""
    view = memoryview(raw)
    return Place(line, role, raw, message) if view[0] == _QUOTE and len(view) > _EMPTY_BYTES else None


def address_of(buffer: Any) -> int:
    """Return where in memory the bytes of a buffer begin: a view of a line lies in the line."""
    address: int = _BUFFER(buffer).address  # a tenth of what numpy takes to say it
    return address


def places_in(data: bytes, log_format: str, roles: Collection[str] | None = None) -> Places | None:
    """Return what of a line can be rewritten, ``None`` where it is no object of this format.

    ``roles`` are the sections whose texts are wanted, ``None`` for all.
    """
    line = _Line(data)
    try:
        body = _BODIES[log_format](data)
        if body is None:
            return None
        turns = _turns(body)
        texts, prompts = _texts(line, body, turns, roles)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    requests = _answers(turns) if log_format == "conversation" else max(prompts, 1)
    return Places(requests, texts, line, body, turns)


def _texts(
    line: _Line, body: Rest, turns: list[Turn], roles: Collection[str] | None
) -> tuple[tuple[Place, ...], int]:
    """Return the texts of these roles, and how many flat prompts there are."""
    texts = [_string(line, "system", raw) for raw in _SYSTEM(body) if raw is not NONE]
    for number, turn in enumerate(turns):
        role = _SENDERS.get(turn.role) if type(turn.role) is str else None
        role = role or _role_of(turn)
        if role is None:
            continue
        view = memoryview(turn.content)
        if view[0] == _QUOTE and turn.role is not None:
            if len(view) > _EMPTY_BYTES and (roles is None or role in roles):
                texts.append(Place(line, role, turn.content, number))
        elif roles is None or role in roles or view[0] == _ARRAY:
            texts.append(_said(line, turn, role, number))
    if body.input is not NONE:
        texts.append(_string(line, "user", body.input))
    prompts = list(_prompts(line, body.prompt)) if body.prompt is not NONE else []
    found = (*texts, *prompts)
    return (
        tuple([place for place in found if place and (roles is None or place.role in roles)]),
        len(prompts),
    )


def _body(data: bytes | msgspec.Raw) -> Rest:
    try:
        chat = _CHAT.decode(data)
    except msgspec.ValidationError:
        return _BODY.decode(data)  # messages that are no list of objects: another name may hold them
    return chat


def _turns(body: Rest) -> list[Turn]:
    if isinstance(body, Chat):
        if body.messages is not None:
            return body.messages
    elif isinstance(body, Body) and _first(body.messages) == _ARRAY:
        return _TURNS.decode(body.messages)
    for raw in _OTHER_MESSAGES(body):
        if raw is not NONE and _first(raw) == _ARRAY:
            return _TURNS.decode(raw)
    return []


def _answers(turns: list[Turn]) -> int:
    """Return how many turns the model said: each answered a request of its own."""
    senders = [turn.role if turn.role is not None else turn.sender for turn in turns]
    named = [sender.lower() for sender in senders if isinstance(sender, str)]
    return sum(name in _MODEL for name in named) or named.count("sys")


def _role_of(turn: Turn) -> str | None:
    """Return the section of a message that its sender wrote, ``None`` for one of the model's."""
    named = turn.sender if turn.role is None else turn.role
    if not isinstance(named, str):
        return None
    return _SENDERS.get(named) or _SENDERS.get(named.lower())


def _said(line: _Line, turn: Turn, role: str, place: int) -> Place | None:
    """Return the text of a message, where it is exactly one."""
    raw = turn.value if turn.role is None and _first(turn.value) == _QUOTE else turn.content
    if _first(raw) != _ARRAY:
        return _string(line, role, raw, place)
    texts = [part.text for part in _PARTS.decode(raw) if part.type in _TEXT_PARTS]
    return _string(line, role, texts[0], place) if len(texts) == 1 else None


def _prompts(line: _Line, raw: msgspec.Raw) -> Iterator[Place | None]:
    if _first(raw) == _ARRAY:
        for one in _RAWS.decode(raw):
            yield _string(line, FLAT, one)
    else:
        yield _string(line, FLAT, raw)


def _held(data: bytes) -> Rest | None:
    """Return the body of a request/response pair where it is an object; as JSON text inside a string it is not one."""
    holder = _HOLDER.decode(data)
    for raw in (
        holder.request, holder.request_body, holder.requestBody, holder.body, holder.input, holder.request_json,
    ):  # fmt: skip
        if _first(raw) == _OBJECT:
            inner = _HOLDER.decode(raw).body
            return _body(inner if _first(inner) == _OBJECT else raw)
    return None


def _batched(data: bytes) -> Rest | None:
    body = _HOLDER.decode(data).body
    return _body(body) if _first(body) == _OBJECT else None


_BODIES: dict[str, Callable[[bytes], Rest | None]] = {
    "chat-jsonl": _body,
    "openai-batch": _batched,
    "conversation": _body,
    "exchange": _held,
}

REWRITABLE = tuple(_BODIES)
"""The formats whose lines can be rewritten in place."""
