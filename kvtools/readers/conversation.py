"""Recorded conversations, one per line: each assistant turn becomes the request that it answered.

A conversation holds every message once; a chat client resends all of them with every turn. So the request of
an assistant turn carries everything before that turn. (Replaying each turn as a prompt of its own would find
nothing to reuse.) Turns that nothing answered give no request. The shapes:

- tau-bench (github.com/sierra-research/tau-bench): ``traj``, OpenAI messages with tool calls; ``task_id``, ``trial``
- ShareGPT: ``conversations``, ``{"from": "human", "value": …}``; ``id``, at times ``system`` and ``tools``
- LMSYS-Chat, WildChat: ``conversation``, messages with ``role`` and ``content``; ``model``
- CrossWOZ (github.com/thu-coai/CrossWOZ) and alike: ``messages`` of ``usr`` and ``sys``; ``dialogue_id``

Requests stand in the order of the turns, one conversation after the other. A request has the time of the
message that it ends with, where messages carry times; a time of the whole record is that of its first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import msgspec

from kvtools.readers.base import JsonLinesReader, Row
from kvtools.readers.bodies import canonical_messages, canonical_tools
from kvtools.readers.chat_jsonl import ChatRecord
from kvtools.readers.labels import ROUTE_NAMES, TIME_NAMES, Labels
from kvtools.readers.records import Rejected, first, sniff_records, text
from kvtools.readers.times import arrival_us, utc_offset_min
from kvtools.table import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvtools.readers.base import ChunkBuilder
    from kvtools.readers.lines import Line

Turns = list[dict[str, Any]]

ID_NAMES = ("conversation_id", "dialogue_id", "session_id", "task_id", "id", "conversation_hash")
TURN_NAMES = ("traj", "conversations", "conversation", "messages")
MOST_UNROLLED_BYTES = 256 << 20
"""A record whose histories come to more is rejected: they grow with the square of its length, and one line of
32 MiB could fill any memory."""

_ROLES = {
    "human": "user",
    "usr": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "observation": "tool",
}
_PLAIN_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_SENT = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "reasoning",
    "reasoning_content",
    "refusal",
    "tools",
)
"""What a message of a request can hold. Everything else (labels, states, times) is a note of the data set."""
_TURNS_BY_NAME = TURN_NAMES[:2]
_OWN_TO_CONVERSATIONS = ("dialogue_id", "task_id")
_OF_A_REQUEST = frozenset(ChatRecord.__struct_fields__) - {
    "id",
    "session_id",
    "conversation_id",
    "messages",
    "tools",
}


class ConversationRecord(Labels):
    """The fields of a line that are read."""

    dialogue_id: Any = None
    task_id: Any = None
    conversation_hash: Any = None
    trial: Any = None
    traj: Turns | None = None
    conversations: Turns | None = None
    conversation: Turns | None = None
    messages: Turns | None = None
    system: Any = None
    system_prompt: Any = None
    tools: Any = None


def conversation_rows(record: ConversationRecord) -> Iterator[Row]:
    """Yield one row per assistant turn; a turn with nothing before it is a request without prompt.

    ``request_id`` is the conversation's id, ``#`` and the number of the turn (from 1), ``session_id`` that id.

    Raises:
        Rejected: no assistant answers in it, a turn has the wrong shape, or its histories are too large.
        BadTime: a time is none.
    """
    turns = first(record, TURN_NAMES)
    messages = _messages(turns or [])
    system = first(record, ("system", "system_prompt"))
    if isinstance(system, str) and messages and messages[0]["role"] != "system":
        turns, messages = [{}, *turns], [{"role": "system", "content": system}, *messages]
    answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    if not answers:
        raise Rejected("no_answer", "no turn of an assistant: nothing was asked of a model")
    name = _name(record)
    common: Row = {
        "session_id": name,
        "namespace": namespace_of(text(record.model), None, None),
        "route": text(first(record, ROUTE_NAMES)),
        "tools": canonical_tools(_tools(record.tools)),
    }
    histories = _histories(messages, answers)
    for number, (place, history) in enumerate(zip(answers, histories, strict=True), 1):
        time = _time(turns[place - 1]) if place else None
        if time is None and number == 1:
            time = first(record, TIME_NAMES)
        yield common | {
            "request_id": None if name is None else f"{name}#{number}",
            "arrival_us": arrival_us(time),
            "utc_offset_min": utc_offset_min(time),
            "messages": history,
            "output_text": text(messages[place].get("content")),
        }


def _name(record: ConversationRecord) -> str | None:
    """Return the conversation's id; tau-bench runs each task several times, so that task and trial name it."""
    name, trial = text(first(record, ID_NAMES)), text(record.trial)
    return name if name is None or trial is None else f"{name}/{trial}"


def _messages(turns: Turns) -> Turns:
    """Return the turns as OpenAI messages, the fields of a request alone.

    Raises:
        Rejected: a turn without a sender, with one that is not known, or a content that is no text or parts.
    """
    senders = [_sender(turn, place) for place, turn in enumerate(turns)]
    # `sys` is the system's side of the talk, but in a record that names an assistant it is the system prompt.
    system_side = "system" if "assistant" in senders else "assistant"
    messages: Turns = []
    for turn, sender in zip(turns, senders, strict=True):
        role = system_side if sender == "sys" else sender
        if "role" in turn:
            messages.append({key: turn[key] for key in turn if key in _SENT} | {"role": role})
        else:
            messages.append({"role": role, "content": turn.get("value", turn.get("content"))})
    canonical_messages(messages)
    return messages


def _sender(turn: dict[str, Any], place: int) -> str:
    named = turn["role"] if "role" in turn else turn.get("from")
    if not isinstance(named, str):
        raise Rejected("bad_turn", f"turn {place} names no role and no sender")
    role = _ROLES.get(named.lower(), named.lower())
    if role == "sys" or role in _PLAIN_ROLES:
        return role
    if "role" in turn:
        return named
    raise Rejected("bad_turn", f"turn {place} is from {named[:12]!r}, which is no role of a chat")


def _histories(messages: Turns, answers: Sequence[int]) -> list[str | None]:
    """Return for each answer the messages before it as canonical JSON, ``None`` where there is none."""
    parts = [msgspec.json.encode(message).decode() for message in messages]
    sizes = [0]
    for part in parts:
        sizes.append(sizes[-1] + len(part) + 1)
    unrolled = sum(sizes[place] for place in answers)
    if unrolled > MOST_UNROLLED_BYTES:
        raise Rejected(
            "too_many_turns",
            f"{len(answers):,} turns make {unrolled >> 20:,} MiB of prompts, more than {MOST_UNROLLED_BYTES >> 20}",
        )
    whole = ",".join(parts)
    return [f"[{whole[: sizes[place] - 1]}]" if place else None for place in answers]


def _tools(tools: Any) -> list[dict[str, Any]] | None:
    """Return a record's tools, a list or the JSON text of one.

    Raises:
        Rejected: it is neither.
    """
    if tools is None or tools == "":
        return None
    if isinstance(tools, str):
        try:
            tools = msgspec.json.decode(tools)
        except (msgspec.DecodeError, RecursionError):
            tools = None
    if isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools):
        return tools
    raise Rejected("bad_tools", "tools is no list of objects, and no JSON text of one")


def _time(turn: dict[str, Any]) -> Any:
    return next((turn[name] for name in TIME_NAMES if turn.get(name) not in (None, "")), None)


class ConversationReader(JsonLinesReader):
    """Conversations by line. A chunk counts what it unrolls into: many times the bytes of the file."""

    def sniff(self, head: bytes) -> bool:
        """Return whether most of the first lines are conversations.

        A list of turns under a name of its own marks one. ``messages`` is also what a request calls its
        prompt: there a conversation has two answers or more, no field of a request (model, time, usage, …),
        and ends with an answer or goes by ``dialogue_id`` or ``task_id``.
        """
        return sniff_records(head, _is_conversation, [(name,) for name in _TURNS_BY_NAME])

    def _add(self, builder: ChunkBuilder, line: Line, *rest: Any) -> None:
        before = builder.rows
        super()._add(builder, line, *rest)
        # On average a request carries half of its conversation.
        builder.size_bytes += (builder.rows - before) * len(line.data) // 2


def _is_conversation(record: dict[str, Any]) -> bool:
    if any(name in record for name in _TURNS_BY_NAME) or _is_turns(record.get("conversation")):
        return True
    messages = record.get("messages")
    if not _is_turns(messages) or any(name in record for name in _OF_A_REQUEST):
        return False
    try:
        roles = [message["role"] for message in _messages(messages)]
    except Rejected:
        return False
    ended = roles[-1] == "assistant" or any(name in record for name in _OWN_TO_CONVERSATIONS)
    return ended and roles.count("assistant") > 1


def _is_turns(value: Any) -> TypeGuard[Turns]:
    return isinstance(value, list) and bool(value) and all(isinstance(turn, dict) for turn in value)


READER = ConversationReader(
    name="conversation",
    record=ConversationRecord,
    rows=conversation_rows,
    keys=tuple((name,) for name in TURN_NAMES),
)
