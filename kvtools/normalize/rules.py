"""The rules of ``normalize --mode canonicalize``: same meaning, fewer byte forms, each switched by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvtools.errors import UsageError
from kvtools.fields.sections import FLAT
from kvtools.normalize.forms import one_form

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TEXT_ROLES = frozenset({"system", "user", FLAT})
"""Sections whose text the rules change: not what a tool put out, nor what the model answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    ``applies_to``: texts of the sender, the list of tools, or the arguments of tool calls. ``default``: whether it is
    on without being asked for. ``explanation``: what it does and, where it is off, what it risks, in one line.
    """

    name: str
    applies_to: Literal["text", "tools", "arguments"]
    default: bool
    explanation: str


_RULES = (
    Rule(
        name="line_ends",
        applies_to="text",
        default=True,
        explanation="Line feeds for CRLF and lone CR, outside fenced code, <pre> and diffs.",
    ),
    Rule(
        name="no_break_spaces",
        applies_to="text",
        default=False,
        explanation="Blanks for no-break spaces, outside code, JSON, URLs; off: some join a number to its unit.",
    ),
    Rule(
        name="trailing_blanks",
        applies_to="text",
        default=False,
        explanation="No blanks before line ends, outside code; off: two of them are a hard line break in Markdown.",
    ),
    Rule(
        name="blank_lines",
        applies_to="text",
        default=False,
        explanation="One blank line for several, outside code; off: a prompt may part its sections by their number.",
    ),
    Rule(
        name="unicode_form",
        applies_to="text",
        default=False,
        explanation="NFC (never NFKC), outside code, JSON, URLs; off: names in NFD may be compared byte by byte.",
    ),
    Rule(
        name="tool_order",
        applies_to="tools",
        default=True,
        explanation="Tools by function name; each keeps its bytes, the order inside its schema with them.",
    ),
    Rule(
        name="argument_keys",
        applies_to="arguments",
        default=True,
        explanation="Keys of a tool call's arguments sorted at every depth; values and white space keep their bytes.",
    ),
)

RULES: Mapping[str, Rule] = {rule.name: rule for rule in _RULES}
"""All rules in the order in which they are applied."""

_GROUPS: Mapping[str, frozenset[str]] = {
    "default": frozenset(rule.name for rule in _RULES if rule.default),
    "all": frozenset(RULES),
}


def chosen_rules(names: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that ``names`` choose, in the order of ``RULES``.

    A name is a rule's, ``default`` or ``all``; with a minus in front it is taken off, wherever it stands. Where nothing
    is added, the defaults are what is taken from: ``[]`` gives them, ``["-tool_order"]`` the rest of them.

    Raises:
        UsageError: a name is unknown.
    """
    added: set[str] = set()
    taken: set[str] = set()
    for name in names:
        bare = name.removeprefix("-")
        if bare not in RULES and bare not in _GROUPS:
            known = ", ".join((*RULES, *_GROUPS))
            raise UsageError(
                f"There is no rule {bare!r}: choose from {known}, with a minus in front to take one off."
            )
        (added if bare is name else taken).update(_GROUPS.get(bare, {bare}))
    chosen = (added if any(not name.startswith("-") for name in names) else _GROUPS["default"]) - taken
    return tuple(name for name in RULES if name in chosen)


def canonical_text(role: str, text: str, rules: Sequence[str]) -> str:
    """Return a section's text by those of ``rules`` that are for texts; tool outputs and answers stay as they are.

    ``role`` is a section as ``kvtools.fields.sections`` names it: ``developer`` messages are ``system`` there.
    """
    return one_form(text, rules) if role in TEXT_ROLES else text
