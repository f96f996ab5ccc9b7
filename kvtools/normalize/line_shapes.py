"""What is decoded of a logged line to find its texts: the rest stays the bytes that it is."""

from __future__ import annotations

from typing import Any

import msgspec

NONE = msgspec.Raw(b"null")
"""What stands where a key is missing."""


class Turn(msgspec.Struct, gc=False):
    """A message, as chats or conversations spell it."""

    role: Any = None
    sender: Any = msgspec.field(name="from", default=None)
    content: msgspec.Raw = NONE
    value: msgspec.Raw = NONE
    tool_calls: msgspec.Raw = NONE


class Rest(msgspec.Struct, gc=False):
    """Where a body without turns keeps its prompt."""

    prompt: msgspec.Raw = NONE
    input: msgspec.Raw = NONE
    instructions: msgspec.Raw = NONE
    tools: msgspec.Raw = NONE
    traj: msgspec.Raw = NONE
    conversations: msgspec.Raw = NONE
    conversation: msgspec.Raw = NONE
    system: msgspec.Raw = NONE
    system_prompt: msgspec.Raw = NONE


class Body(Rest, gc=False):
    """A body whose ``messages`` were no turns."""

    messages: msgspec.Raw = NONE


class Chat(Rest, gc=False):
    """A body whose ``messages`` are turns: one pass is enough."""

    messages: list[Turn] | None = None


class Part(msgspec.Struct, gc=False):
    """A part of a content."""

    type: Any = None
    text: msgspec.Raw = NONE


class Function(msgspec.Struct, gc=False):
    """The function of a tool call."""

    arguments: msgspec.Raw = NONE


class Call(msgspec.Struct, gc=False):
    """A tool call of an answer."""

    function: Function = msgspec.field(default_factory=Function)


class Holder(msgspec.Struct, gc=False):
    """A line that carries the body in one of its keys."""

    request: msgspec.Raw = NONE
    request_body: msgspec.Raw = NONE
    requestBody: msgspec.Raw = NONE  # noqa: N815 - as logs spell it
    body: msgspec.Raw = NONE
    input: msgspec.Raw = NONE
    request_json: msgspec.Raw = NONE
