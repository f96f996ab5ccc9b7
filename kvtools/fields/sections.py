"""The sections of a request that its sender writes: the texts in which values can vary and be moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WRITTEN_ROLES = {"system": "system", "developer": "system", "user": "user", "tool": "tool"}
"""Roles whose text the sender writes, by the section they are; what the model answered is left as it is."""

FLAT = "prompt"
"""The role of a prompt that is one text."""


def texts_of(messages: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield section and text of each message that has one text."""
    for message in messages:
        role = WRITTEN_ROLES.get(str(message.get("role")))
        text = _text(message.get("content"))
        if role is not None and text:
            yield role, text


def with_texts(
    messages: list[dict[str, Any]], rewrite: Callable[[str, str], str]
) -> list[dict[str, Any]] | None:
    """Return the messages with ``rewrite(section, text)`` for each text, ``None`` where that changes nothing."""
    changed, out = False, []
    for message in messages:
        role = WRITTEN_ROLES.get(str(message.get("role")))
        text = _text(message.get("content"))
        new = rewrite(role, text) if role is not None and text else text
        if new != text:
            changed = True
            out.append({**message, "content": _with_text(message["content"], new or "")})
        else:
            out.append(message)
    return out if changed else None


def _text(content: object) -> str | None:
    """Return a message's text; ``None`` where it is not exactly one (parts with pictures have several places)."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        if len(texts) == 1 and isinstance(texts[0].get("text"), str):
            return str(texts[0]["text"])
    return None


def _with_text(content: object, text: str) -> object:
    if isinstance(content, list):
        return [
            {**part, "text": text} if isinstance(part, dict) and part.get("type") == "text" else part
            for part in content
        ]
    return text
