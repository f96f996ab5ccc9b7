"""All rules over one prompt template, its stable tokens, and a better order for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from jinja2 import nodes

from kvtools.linting.counting import StableTokens, stable_tokens
from kvtools.linting.findings import Finding, Rule, Severity
from kvtools.linting.loops import order_findings
from kvtools.linting.names import CHANGES
from kvtools.linting.order import Order, better_order, moves, refusal
from kvtools.linting.pieces import Unparsable, parse, pieces_of
from kvtools.linting.reading import Reader
from kvtools.linting.units import Read, Unit, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kvtools.linting.names import Changes
    from kvtools.linting.reading import Call, Use
    from kvtools.tokens import Tokenizer

TemplateKind: TypeAlias = Literal["prompt", "chat", "unreadable"]

BLOCK_TOKENS = 16
"""From so many tokens on (a block of vLLM's default size) what stands behind a placeholder is an error to lose."""

_DEEP = "it is nested too deeply"


@dataclass(frozen=True, slots=True)
class TemplateLint:
    """What the linter says of one template.

    ``stable`` is ``None`` where the template could not be read, or, of a chat template, where no probe was printed.
    ``order`` is a better order with ``order_tokens`` leading stable tokens; ``no_order`` says why there is none though
    one is called for.
    """

    name: str
    kind: TemplateKind
    stable: StableTokens | None
    findings: tuple[Finding, ...]
    order: Order | None = None
    order_tokens: int | None = None
    no_order: str | None = None


def lint_template(
    name: str, source: str, tokenizer: Tokenizer, given: Mapping[str, Changes] | None = None
) -> TemplateLint:
    """Return what stands in a prompt template in the way of its reuse; ``given`` states how often values change.

    A template that cannot be parsed is a finding, not an error.
    """
    try:
        return _linted(name, source, tokenizer, given or {})
    except Unparsable as fault:
        return unreadable(name, fault)
    except RecursionError:
        return unreadable(name, Unparsable(1, _DEEP))


def unreadable(name: str, fault: Unparsable) -> TemplateLint:
    """Return the one finding on a source that is no template."""
    sentence = f"the template does not parse ({fault.reason}): correct it; nothing else was looked at."
    return TemplateLint(name, "unreadable", None, (Finding(fault.line, "cannot-parse", "error", sentence),))


def _linted(name: str, source: str, tokenizer: Tokenizer, given: Mapping[str, Changes]) -> TemplateLint:
    tree = parse(source)
    reads, assigned = _read(source, given)
    units = units_of(reads)
    stable = stable_tokens(reads, tokenizer)
    refused = refusal(tree, source, assigned, units)
    better = None if refused else better_order(units)
    order, tokens = None, None
    if isinstance(better, str):
        refused = better
    elif better is not None:
        order = better
        tokens = stable_tokens(_read(order.text, given)[0], tokenizer).leading
        if tokens <= stable.leading:
            order, tokens = None, None
    placed = moves(units) if order is not None or refused else [(unit, False) for unit, _ in moves(units)]
    findings = [*_placement(placed, stable, tokens), *order_findings(tree, chat=False), *_not_followed(tree)]
    called_for = any(in_front for _, in_front in placed)
    findings.sort(key=lambda one: (one.line, one.rule, one.sentence))
    return TemplateLint(
        name, "prompt", stable, tuple(findings), order, tokens, refused if called_for else None
    )


def _read(source: str, given: Mapping[str, Changes]) -> tuple[list[Read], list[str]]:
    reader = Reader(given)
    return [Read(piece, reader.read(piece)) for piece in pieces_of(source)], reader.assigned


def _placement(
    placed: Sequence[tuple[Unit, bool]], stable: StableTokens, better: int | None
) -> Iterator[Finding]:
    """Yield a finding for each variable in front of shared text, and for each call wherever it stands."""
    seen: set[str] = set()
    called: set[tuple[str, int]] = set()
    gain = (stable.behind or 0) if better is None else better - stable.leading
    for unit, in_front in placed:
        for read in unit.reads:
            for call in read.reading.calls if read.piece.kind != "silent" else ():
                if (call.name, call.line) not in called:
                    called.add((call.name, call.line))
                    yield _of_call(call, gain, in_front=in_front)
            for use in read.reading.uses:
                if in_front and use.name not in seen and CHANGES.index(use.judgement.changes) > 1:
                    seen.add(use.name)
                    yield _of_use(use, stable, gain)


def _of_use(use: Use, stable: StableTokens, gain: int) -> Finding:
    unknown = use.judgement.changes == "unknown"
    first = use.name == stable.stopped_by
    what = f"{{{{ {use.name} }}}} ({use.judgement.kind})"
    if unknown:
        sentence = (
            f"{what} stands in front of stable text: if it changes from request to request, nothing behind it is "
            f"reused; move it behind, or say how it changes (--changes {use.name}=never|class|history|request)."
        )
        return Finding(use.line, "unknown-before-stable-text", "info", sentence)
    severity: Severity = "error" if first and gain >= BLOCK_TOKENS else "warning"
    lost = (
        f"defeats the reuse of everything behind it, {stable.behind:,} stable tokens"
        if first
        else "stands in front of text that requests could share"
    )
    return Finding(
        use.line,
        "placeholder-before-stable-text",
        severity,
        f"{what} {lost}: move it behind the stable text.",
    )


_ADVICE: dict[str, str] = {
    "clock": "pass the time in as a variable, as coarse as it may be, and print it last",
    "random": "choose outside the template, by something that stays the same for equal requests",
    "fresh-id": "leave the id out of the prompt, or pass it in and print it last",
}


def _of_call(call: Call, gain: int, *, in_front: bool) -> Finding:
    rule: Rule = call.kind
    what = {"clock": "reads the clock", "random": "draws at random", "fresh-id": "makes a new id"}[call.kind]
    severity: Severity = ("error" if gain >= BLOCK_TOKENS else "warning") if in_front else "info"
    where = "in front of stable text" if in_front else "behind all stable text, where it costs nothing"
    return Finding(
        call.line, rule, severity, f"{call.name} {what} in every render, {where}: {_ADVICE[call.kind]}."
    )


def _not_followed(tree: nodes.Template) -> Iterator[Finding]:
    for node in tree.find_all((nodes.Extends, nodes.Include, nodes.Import, nodes.FromImport)):
        word = type(node).__name__.removeprefix("From").lower()
        sentence = (
            f"{word} is not followed: lint the other template by itself; what it prints here is not counted."
        )
        yield Finding(node.lineno, "not-followed", "info", sentence)
