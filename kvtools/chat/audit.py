"""What a chat template does to the prefix by itself: it reads the clock, or it rewrites what it has printed before.

A conversation is reused whole only if each prompt begins with the one before it and its answer. Whether a template
grants that is found by rendering small conversations (``probes``) at k and at k+1 turns and comparing. Two
things have to hold: the prompt of turn k+1 begins with the prompt of turn k, generation prompt included; and
it begins with turn k's prompt and answer as the template itself prints them while the answer is the last message.
What a model generates token by token, and how an engine's parsers turn that into messages, is not known here: that the
audit names nothing does not prove that a model's own output is continued.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from jinja2 import nodes

from kvtools.chat.clock_use import AUDIT_CLOCK, ClockUse, clock_use
from kvtools.chat.environment import DEFAULT_CLOCK, environment
from kvtools.chat.probes import TemplateWords, append_probes, common_chars
from kvtools.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvtools.chat.probes import Probe
    from kvtools.chat.template import ChatTemplate

BreakKind: TypeAlias = Literal[
    "assistant_boundary", "tool_calls", "reasoning_dropped", "earlier_turns_rewritten"
]

_SPECIAL_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
}
"""Stand-ins where the template's own are unknown; which text they are changes no finding."""

_SHOWN_CHARS = 40
_REASON_CHARS = 100
_WHERE: dict[BreakKind, str] = {
    "assistant_boundary": "at the assistant boundary: what stands where the answer begins or ends is printed otherwise "
    "once a later turn exists",
    "tool_calls": "at the tool calls: the turn that calls tools is not printed behind the prompt that led to it",
    "reasoning_dropped": "where reasoning stood: it is dropped from an answer once a later turn exists",
    "earlier_turns_rewritten": "inside earlier turns: messages or tools are moved or rewritten in the next prompt",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A place where a longer conversation does not begin with the shorter one.

    ``probe`` names the conversation, ``turn`` counts answers from 1. The next prompt begins with ``kept_chars`` of
    the ``of_chars`` of this turn's prompt (and answer, where ``with_answer``). ``before`` and ``after`` are what
    stands there, a few characters of the template's rendering of the probe.
    """

    kind: BreakKind
    probe: str
    turn: int
    kept_chars: int
    of_chars: int
    with_answer: bool
    before: str
    after: str

    @property
    def sentence(self) -> str:
        """One sentence: where it breaks, and what of the probe survives."""
        whole = "the prompt and its answer as printed last" if self.with_answer else "the prompt"
        return (
            f"the template is not append-only {_WHERE[self.kind]} ({self.probe}, turn {self.turn}: "
            f"the next prompt keeps {self.kept_chars:,} of {self.of_chars:,} characters of {whole}, "
            f"then {self.after!r} stands for {self.before!r})."
        )


@dataclass(frozen=True, slots=True)
class TemplateAudit:
    """What rendering showed.

    ``append_only`` holds one violation of each kind, the first found; empty means that none showed.
    ``skipped`` are sentences on the probes that the template refused or did not print.
    ``mentions_clock``: the text names ``strftime_now``, whether or not a probe reached it.
    """

    name: str
    clock: ClockUse | None
    mentions_clock: bool
    append_only: tuple[Violation, ...]
    probed: int
    skipped: tuple[str, ...]

    @property
    def reads_clock(self) -> bool:
        """Whether prompts change with the date or time: shown by rendering, or the template asks for it."""
        return self.clock is not None or self.mentions_clock


class _Unprinted(Exception):  # noqa: N818 - says that a probe cannot judge
    """The template does not print a message of the probe."""


def audit(template: ChatTemplate) -> TemplateAudit:
    """Return what ``template`` does to the prefix; probes that it refuses are skipped and named, never raised."""
    known = replace(
        template, special_tokens=_SPECIAL_TOKENS | dict(template.special_tokens), clock=AUDIT_CLOCK
    )
    words = _words(template)
    skipped: list[str] = []
    violations: list[Violation] = []
    probed = 0
    for probe in append_probes(words):
        try:
            tried = _accepted(known, probe)
            if tried is not probe:
                skipped.append(f"{probe.shape}: tried without a system message, which the template refuses.")
            violations.extend(_violations(known, tried))
            probed += 1
        except (TemplateError, _Unprinted) as fault:
            skipped.append(f"{probe.shape}: skipped, {_reason(fault)}")
    return TemplateAudit(
        template.name,
        clock_use(known, words.variables),
        "strftime_now" in words.variables,
        _first_of_each_kind(violations),
        probed,
        tuple(skipped),
    )


def _words(template: ChatTemplate) -> TemplateWords:
    variables: set[str] = set()
    words: set[str] = set()
    for source in (template.source, template.tool_source):
        if source is not None:
            tree = environment(DEFAULT_CLOCK).parse(source)
            variables |= {node.name for node in tree.find_all(nodes.Name)}
            words |= {node.attr for node in tree.find_all(nodes.Getattr)}
            words |= {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
            words |= {node.data for node in tree.find_all(nodes.TemplateData)}
    return TemplateWords(frozenset(variables), frozenset(words))


def _first_of_each_kind(violations: Sequence[Violation]) -> tuple[Violation, ...]:
    """Choose by kind; a break inside the prompt itself is certain and goes before one inside the printed answer."""
    found: dict[BreakKind, Violation] = {}
    for violation in sorted(violations, key=lambda one: one.with_answer):
        found.setdefault(violation.kind, violation)
    return tuple(found[kind] for kind in _WHERE if kind in found)


def _reason(fault: Exception) -> str:
    if isinstance(fault, _Unprinted):
        return str(fault)
    said = " ".join(str(fault.__cause__ or fault).split())[:_REASON_CHARS]
    return f"the template refuses it ({said})."


def _accepted(template: ChatTemplate, probe: Probe) -> Probe:
    """Return the probe, or that without a system message where the template refuses only this one."""
    try:
        probe.render(template, len(probe.messages))
    except TemplateError:
        probe = probe.without_system()
        probe.render(template, len(probe.messages))
    return probe


def _violations(template: ChatTemplate, probe: Probe) -> Iterator[Violation]:
    for turn, place in enumerate(probe.answers(), start=1):
        prompt = probe.render(template, place)
        later = probe.render(template, _next_prompt(probe, place))
        asked = probe.messages[place - 1]
        if any(str(asked["content"]) not in text for text in (prompt, later)):
            raise _Unprinted(f"the template does not print the {asked['role']} message.")
        for text, with_answer in ((prompt, False), (_answered(template, probe, place, prompt), True)):
            kept = common_chars(text, later)
            if kept < len(text):
                kind = _kind(probe, place, prompt, later, kept)
                if kind == "reasoning_dropped" and not with_answer:
                    continue  # the answer holds the reasoning, and shows what else is lost
                shown = text[kept : kept + _SHOWN_CHARS], later[kept : kept + _SHOWN_CHARS]
                yield Violation(kind, probe.shape, turn, kept, len(text), with_answer, *shown)
                break


def _answered(template: ChatTemplate, probe: Probe, place: int, prompt: str) -> str:
    """Return the prompt with its answer: as the template prints it last, or, where it hides the thoughts, as sent."""
    answer = probe.messages[place]
    printed = probe.render(template, place + 1, prompt=False)
    if any(thought in str(answer) and thought not in printed for thought in probe.reasoning):
        return f"{prompt}{answer.get('reasoning', '')}{answer['content']}"
    if probe.render(template, place, prompt=False) == prompt:
        # The template prints its generation prompt always: what stands behind the answer is the next one's. Where a
        # call without content ends cannot be told from that, so such an answer is not compared.
        content = answer["content"]
        return printed[: printed.rfind(content) + len(content)] if content else prompt
    return printed


def _next_prompt(probe: Probe, answer: int) -> int:
    """Return how many messages the prompt behind this answer has: up to the next answer, or all."""
    return next((place for place in probe.answers() if place > answer), len(probe.messages))


def _kind(probe: Probe, answer: int, prompt: str, later: str, kept: int) -> BreakKind:
    if any(thought in str(probe.messages[answer]) and thought not in later for thought in probe.reasoning):
        return "reasoning_dropped"
    # Tools may stand behind the last message: whatever the request holds is no boundary.
    held = [str(message["content"]) for message in probe.messages[:answer] if message["content"]]
    held += [tool["function"]["name"] for tool in probe.tools]
    if kept < max(prompt.rfind(text) + len(text) for text in held):
        return "earlier_turns_rewritten"
    return "tool_calls" if probe.messages[answer].get("tool_calls") else "assistant_boundary"
