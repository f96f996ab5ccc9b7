"""All rules over one chat template: what rendering showed (the clock, the history), and what its text says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import nodes

from kvtools.chat.environment import DEFAULT_CLOCK, environment
from kvtools.linting.check import TemplateLint, unreadable
from kvtools.linting.counting import StableTokens, head_tokens
from kvtools.linting.findings import Finding, Severity
from kvtools.linting.loops import order_findings
from kvtools.linting.names import judge
from kvtools.linting.pieces import Unparsable, parse
from kvtools.linting.reading import call_of, dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.tokens import Tokenizer

_CHAT_VARIABLES = frozenset(
    {"messages", "add_generation_prompt", "tools", "documents", "strftime_now", "raise_exception"}
)
_NO_ORDER = "the order of a chat template is the form that its model was trained on"


def is_chat_template(source: str) -> bool:
    """Say whether the template prints a list of messages by their roles, and no other value of a request.

    A template that prints ``messages`` as history beside a question is a prompt template.

    Raises:
        Unparsable: the source is no template.
    """
    tree = parse(source)
    reads = {dotted(node).split(".", 1)[0] for node in tree.find_all(nodes.Name)}
    stored = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    words = {node.attr for node in tree.find_all(nodes.Getattr)}
    words |= {node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)}
    if "messages" not in reads or "role" not in words:
        return False
    others = reads - stored - _CHAT_VARIABLES - {""}
    return "add_generation_prompt" in reads or not any(judge(name).changes == "request" for name in others)


def lint_chat_template(name: str, source: str, answer: dict[str, Any], tokenizer: Tokenizer) -> TemplateLint:
    """Return what a chat template does to the prefix; ``answer`` is what the worker made of it.

    A template that cannot be parsed is a finding, not an error.
    """
    try:
        tree = environment(DEFAULT_CLOCK).parse(source)
        findings = [*_rendered(tree, answer), *_random(tree), *order_findings(tree, chat=True)]
    except Unparsable as fault:
        return unreadable(name, fault)
    except RecursionError:
        return unreadable(name, Unparsable(1, "it is nested too deeply"))
    findings.sort(key=lambda one: (one.line, one.rule, one.sentence))
    head = answer.get("head")
    stable = None if head is None else StableTokens(head_tokens(head, tokenizer), None, None, None)
    broken = any(one.severity != "info" for one in findings)
    return TemplateLint(name, "chat", stable, tuple(findings), no_order=_NO_ORDER if broken else None)


def _rendered(tree: nodes.Template, answer: dict[str, Any]) -> Iterator[Finding]:
    if "refused" in answer:
        sentence = (
            f"the template could not be rendered ({answer['refused'].rstrip('.')}): whether it reads the clock and "
            "keeps its history is not known; correct it."
        )
        yield Finding(1, "not-probed", "warning", sentence)
        return
    if answer["clock"]:
        coarse = answer["granularity"] in {"day", "month", "year"}
        yield Finding(_clock_line(tree), "clock", "warning" if coarse else "error", answer["clock"])
    elif answer["mentions_clock"]:
        sentence = (
            "strftime_now is called where no probe came: where it is reached, the prompt changes with the clock; "
            "serve an edited template that prints no date."
        )
        yield Finding(_clock_line(tree), "clock", "warning", sentence)
    for kind, sentence in answer["breaks"]:
        severity: Severity = "error" if kind == "earlier_turns_rewritten" else "warning"
        yield Finding(_messages_line(tree), "history-not-append-only", severity, sentence)
    for sentence in answer["skipped"]:
        yield Finding(1, "not-probed", "info", sentence)


def _random(tree: nodes.Template) -> Iterator[Finding]:
    for node in tree.find_all((nodes.Call, nodes.Filter)):
        call = call_of(node)
        if call is None or call.kind == "clock":
            continue
        what = "draws at random" if call.kind == "random" else "makes a new id"
        sentence = f"{call.name} {what} in every render: no prompt begins as the one before it; take it out."
        yield Finding(node.lineno, call.kind, "error", sentence)


def _clock_line(tree: nodes.Template) -> int:
    return min((node.lineno for node in tree.find_all(nodes.Name) if node.name == "strftime_now"), default=1)


def _messages_line(tree: nodes.Template) -> int:
    """Return the line of the first loop over the messages: there the history is printed."""
    lines = [loop.lineno for loop in tree.find_all(nodes.For) if next(loop.find_all(nodes.Output), None)]
    return min(lines, default=1)
