"""The messages of two turns: does the later list begin with the earlier one, as a chat template sees it.

Compared is what vLLM hands to a template (``kvtools.chat``): a content of text parts is its text, tool-call
arguments are the object that they parse to, unknown fields are nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvtools.diagnosis.turn_json import as_object, spelled
from kvtools.diagnosis.turn_model import Break, Turn, common_prefix
from kvtools.diagnosis.turn_order import reordered_as
from kvtools.diagnosis.turn_sections import HistoryChange, Section, history_change, mended
from kvtools.diagnosis.turn_text import TextChange, text_change

if TYPE_CHECKING:
    from collections.abc import Sequence

_END_MARKS = re.compile(r"(?:<\|[^|<>\s]+\|>|<\uff5c[^\uff5c\s]+\uff5c>|</s>|<end_of_turn>|<eos>)\s*\Z")
_TEXTS = ("text", "refusal", "thinking")


def without_end_mark(output: str) -> str:
    """Return an answer's text without the special token that ended it."""
    return _END_MARKS.sub("", output)


def sections_of(messages: Any) -> list[Section]:
    """Return one section per message; whatever shape a message has, something stands for it."""
    return [_section(message) for message in messages] if isinstance(messages, list) else []


def _section(message: Any) -> Section:
    if not isinstance(message, dict):
        return Section("", message if isinstance(message, str) else spelled(message, "spacing"))
    role = message.get("role")
    text, rest = _content(message.get("content"))
    reasoning = message.get("reasoning")
    reasoning = message.get("reasoning_content") if reasoning is None else reasoning
    extras = [value for field in ("name", "tool_call_id") if (value := message.get(field))]
    return Section(
        role if isinstance(role, str) else "",
        text,
        reasoning if isinstance(reasoning, str) else "",
        _calls(message.get("tool_calls")),
        spelled([*rest, *extras], "spacing") if rest or extras else "",
    )


def _content(content: Any) -> tuple[str, list[Any]]:
    """Return the text of a content, and its parts that are no text."""
    if isinstance(content, str) or content is None:
        return content or "", []
    if not isinstance(content, list):
        return spelled(content, "spacing"), []
    texts, rest = [], []
    for place, part in enumerate(content):
        raw = part if isinstance(part, str) else None
        if isinstance(part, dict):
            raw = next((part[name] for name in _TEXTS if isinstance(part.get(name), str)), None)
        if raw is None:
            rest.append([place, part])
        elif raw:
            texts.append(raw)
    return "\n".join(texts), rest


def _calls(calls: Any) -> tuple[tuple[str, str, Any], ...]:
    found = []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = as_object(function.get("arguments"))
            found.append((str(call.get("id")), str(function.get("name")), arguments))
        else:
            found.append(("", "", call))
    return tuple(found)


def messages_parted(earlier: Turn, later: Turn) -> Break | None:
    """Return what keeps the later messages from extending the earlier ones and the answer to them."""
    before, after = sections_of(earlier.messages), sections_of(later.messages)
    found = history_change(before, after) or _answer(earlier, before, after)
    if found is None:
        return None
    role = after[found.place].role if found.place < len(after) else ""
    change = found.change
    return Break(change.kind, f"message {found.place} ({role})", change.position, change.detail)


def _answer(earlier: Turn, before: Sequence[Section], after: Sequence[Section]) -> HistoryChange | None:
    """Return what was done to the recorded answer where the later messages hold it."""
    place = len(before)
    if not earlier.output or len(after) <= place or _keys(before) != _keys(after[:place]):
        return None
    said = after[place]
    if said.role != "assistant" or said.calls or not said.text:
        return None
    if said.reasoning and said.reasoning.strip() in earlier.output:
        return None  # the template puts it back, or not: the messages do not lose it
    output = without_end_mark(earlier.output)
    change = text_change(output, said.text, "assistant")
    if change is None:
        return None
    if change.kind == "edited_history":
        shared = common_prefix(output, said.text)
        detail = f"The history holds another answer than was generated, from character {shared:,} on."
        change = TextChange("edited_answer", shared, detail, change.matched)
    return HistoryChange(change, place)


def _keys(sections: Sequence[Section]) -> list[str]:
    return [section.key for section in sections]


def messages_rebuilt(earlier: Turn, later: Turn, kind: str) -> Turn | None:
    """Return the later turn with the messages that it would hold without the break of that ``kind``."""
    before, after = sections_of(earlier.messages), sections_of(later.messages)
    one, other = earlier.messages or [], later.messages or []
    found = history_change(before, after)
    if found is None:
        found = _answer(earlier, before, after)
        if found is None or found.change.kind != kind or kind == "edited_answer":
            return None
        said = {**other[found.place], "content": without_end_mark(earlier.output or "")}
        return _with_messages(later, [*other[: found.place], said, *other[found.place + 1 :]])
    if found.change.kind != kind:
        return None
    if kind == "reordered_passages" and not found.moved:
        place = found.place
        if not isinstance(other[place], dict):
            return None
        text = reordered_as(before[place].text, after[place].text)
        return _with_messages(later, [*other[:place], {**other[place], "content": text}, *other[place + 1 :]])
    messages = mended(before, after, (one, other), found)
    return None if messages is None else _with_messages(later, messages)


def _with_messages(later: Turn, messages: list[dict[str, Any]]) -> Turn:
    # The text and the ids that were logged belong to the messages that were sent.
    return replace(later, messages=messages, prompt=None, token_ids=None)
