"""Small conversations that a chat template is tried with, in the shapes that logs hold.

Each text is one that occurs nowhere else, so that it can be found again in what the template makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kvtools.chat.template import ChatTemplate

Message = dict[str, Any]

SYSTEM: Message = {"role": "system", "content": "Keep to the harbour rules."}
_QUESTIONS = ("Which pier is free?", "How deep is the basin?", "When does the ferry leave?")
_ANSWERS = ("Pier nine is free.", "Eleven metres at low tide.")
_REASONING = ("The chart lists pier nine as empty.", "The gauge was read this morning.")
TOOLS: tuple[Message, ...] = (
    {
        "type": "function",
        "function": {
            "name": "read_gauge",
            "description": "Read a water gauge.",
            "parameters": {"type": "object", "properties": {"basin": {"type": "string"}}},
        },
    },
)
_OUTPUT = "The gauge shows 1100 cm."
_CALL_ID = "gauge0001"  # Mistral's templates take ids of nine letters and digits only

_THINKING_SWITCHES = ("enable_thinking", "thinking")


@dataclass(frozen=True, slots=True)
class TemplateWords:
    """What a template's text names: ``variables``, and ``words`` (fields that it reads, texts that it holds)."""

    variables: frozenset[str]
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Probe:
    """A conversation; ``shape`` says what is tried with it, ``kwargs`` are ``chat_template_kwargs``."""

    shape: str
    messages: tuple[Message, ...]
    tools: tuple[Message, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    reasoning: tuple[str, ...] = ()

    def without_system(self) -> Probe:
        """Return the same conversation without its system message."""
        rest = tuple(message for message in self.messages if message["role"] != "system")
        return Probe(f"{self.shape}, no system message", rest, self.tools, self.kwargs, self.reasoning)

    def render(self, template: ChatTemplate, count: int, *, prompt: bool = True) -> str:
        """Return the first ``count`` messages as ``template`` prints them, with or without generation prompt.

        Raises:
            TemplateError: the template refuses them.
        """
        return template.render(
            self.messages[:count], self.tools or None, add_generation_prompt=prompt, **self.kwargs
        )

    def answers(self) -> tuple[int, ...]:
        """The places of the assistant's messages that another prompt follows."""
        places = [place for place, message in enumerate(self.messages) if message["role"] == "assistant"]
        return tuple(place for place in places if place + 1 < len(self.messages))


def clock_probes() -> Iterator[Probe]:
    """Yield what a template's use of the clock is tried with."""
    plain = Probe("a question", (SYSTEM, _user(0)))
    yield plain
    yield plain.without_system()
    yield Probe("a question with tools", (SYSTEM, _user(0)), TOOLS)


def append_probes(known: TemplateWords) -> Iterator[Probe]:
    """Yield what a template's treatment of growing conversations is tried with.

    Reasoning and switches that its text does not know are not tried.
    """
    turns = (_user(0), _answer(0), _user(1), _answer(1), _user(2))
    yield Probe("plain answers", (SYSTEM, *turns))
    for switch in _THINKING_SWITCHES:
        if switch in known.variables:
            yield Probe(f"plain answers with {switch}=false", (SYSTEM, *turns), kwargs={switch: False})
    for shape, think in _reasoning_forms(known.words):
        thought = (_user(0), think(0), _user(1), think(1), _user(2))
        yield Probe(f"answers with {shape}", (SYSTEM, *thought), reasoning=_REASONING)
    yield Probe("plain answers with tools offered", (SYSTEM, *turns), TOOLS)
    called = (_user(1), _call(), _output(), _answer(1), _user(2))
    yield Probe("tool calls", (SYSTEM, *called), TOOLS)


def _reasoning_forms(words: frozenset[str]) -> Iterator[tuple[str, Any]]:
    if words & {"reasoning", "reasoning_content"}:
        yield "reasoning in its field", lambda nth: {**_answer(nth), "reasoning": _REASONING[nth]}
    if any("</think>" in word for word in words):
        # Without a reasoning parser the server returns the thoughts inside the answer.
        yield (
            "reasoning inside the answer",
            lambda nth: {
                **_answer(nth),
                "content": f"<think>\n{_REASONING[nth]}\n</think>\n\n{_ANSWERS[nth]}",
            },
        )


def _user(nth: int) -> Message:
    return {"role": "user", "content": _QUESTIONS[nth]}


def _answer(nth: int) -> Message:
    return {"role": "assistant", "content": _ANSWERS[nth]}


def _call() -> Message:
    function = {"name": "read_gauge", "arguments": '{"basin": "inner"}'}
    call = {"id": _CALL_ID, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _output() -> Message:
    return {"role": "tool", "tool_call_id": _CALL_ID, "content": _OUTPUT}


def common_chars(one: str, other: str) -> int:
    """Return how many characters two texts have in common before they part."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
