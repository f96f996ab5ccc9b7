"""The prompt and the answer of an OpenTelemetry span: where they stand depends on the exporter and its age.

Attributes with all messages as JSON (``gen_ai.input.messages``, ``gen_ai.output.messages``, from 2025); an event that
carries them (``gen_ai.client.inference.operation.details``, before it ``gen_ai.content.prompt``); OpenLLMetry's
attribute per field (``gen_ai.prompt.0.role``); an event per message (``gen_ai.user.message``), which pydantic-ai lists
as JSON under the attribute ``events``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from kvtools.readers.traced_prompt import Prompt, answer_of, prompt_of, tools_of, unwrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

Events: TypeAlias = "Sequence[tuple[str, dict[str, Any]]]"

_PROMPTS = ("gen_ai.input.messages", "gen_ai.request.messages", "gen_ai.prompt")
_ANSWERS = ("gen_ai.output.messages", "gen_ai.response.messages", "gen_ai.completion")
_TOOLS = ("gen_ai.tool.definitions", "gen_ai.request.tools", "llm.request.functions")
_CARRIERS = (
    "gen_ai.client.inference.operation.details",
    "gen_ai.content.prompt",
    "gen_ai.content.completion",
)
_MESSAGE_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_INDEXED = re.compile(r"(\d{1,6})\.(.+)")


class SpanText:
    """What one span holds of prompt and answer."""

    def __init__(self, found: dict[str, Any], events: Events) -> None:
        self._found = found
        self._events = [*events, *_listed(found.get("events"))]
        carried = (given for name, given in self._events if name in _CARRIERS)
        self._whole = {key: value for given in (found, *carried) for key, value in given.items()}

    def prompt(self) -> Prompt:
        """Return the prompt; none where the exporter was not told to record it.

        Raises:
            Rejected: messages without role, or JSON text that is cut off.
        """
        prompt = prompt_of(
            self._first(_PROMPTS) or _indexed(self._found, "gen_ai.prompt.") or self._messages()
        )
        prompt.instruct(self._whole.get("gen_ai.system_instructions"))
        if not prompt.tools:
            prompt.tools = tools_of(self._first(_TOOLS) or _indexed(self._found, "llm.request.functions."))
        return prompt

    def answer(self) -> str | None:
        """Return the text of the answer, ``None`` where there is none."""
        choices = [given.get("message", given) for name, given in self._events if name == "gen_ai.choice"]
        return answer_of(self._first(_ANSWERS) or _indexed(self._found, "gen_ai.completion.") or choices)

    def _first(self, names: tuple[str, ...]) -> Any:
        return next((self._whole[name] for name in names if self._whole.get(name)), None)

    def _messages(self) -> list[dict[str, Any]]:
        """Return the messages of the events that are one each; the name of the event says the role."""
        named = ((_MESSAGE_EVENT.fullmatch(name), given) for name, given in self._events)
        return [{"role": kind[1]} | given for kind, given in named if kind]


def _listed(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a JSON list that stands under an attribute."""
    events = unwrapped(value)
    found = [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []
    return [(name, event) for event in found if isinstance(name := event.get("event.name"), str)]


def _indexed(found: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return the objects whose fields are attributes of their own: ``prefix`` + ``0.role``, ``0.tool_calls.0.name``."""
    items: dict[int, dict[str, Any]] = {}
    for key, value in found.items():
        if key.startswith(prefix) and (place := _INDEXED.fullmatch(key, len(prefix))):
            items.setdefault(int(place[1]), {})[place[2]] = value
    return [_gathered(items[index]) for index in sorted(items)]


def _gathered(fields: dict[str, Any]) -> dict[str, Any]:
    item = {key: value for key, value in fields.items() if not key.startswith("tool_calls.")}
    if calls := _indexed(fields, "tool_calls."):
        item["tool_calls"] = calls
    if "parameters" in item:
        item["parameters"] = unwrapped(item["parameters"])
    return item
