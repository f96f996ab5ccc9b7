"""The rules of canonicalize: which are on, how they are chosen, and to what they apply."""

from __future__ import annotations

import pytest

from kvtools.errors import UsageError
from kvtools.normalize.forms import TEXT_RULES
from kvtools.normalize.rules import RULES, canonical_text, chosen_rules

DEFAULT = ("line_ends", "tool_order", "argument_keys")
MESSY = "a \r\n\r\n\r\n\r\nb\u00a0c e\u0301"


def test_what_is_risky_is_off_and_says_why() -> None:
    assert tuple(rule.name for rule in RULES.values() if rule.default) == DEFAULT
    for name, rule in RULES.items():
        assert name == rule.name
        assert "\n" not in rule.explanation
        assert ("off: " in rule.explanation) is not rule.default


def test_the_rules_for_texts_stand_in_the_order_in_which_they_are_applied() -> None:
    assert [rule.name for rule in RULES.values() if rule.applies_to == "text"] == list(TEXT_RULES)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], DEFAULT),
        (["default"], DEFAULT),
        (["trailing_blanks", "default"], ("line_ends", "trailing_blanks", "tool_order", "argument_keys")),
        (["all"], tuple(RULES)),
        (["-tool_order"], ("line_ends", "argument_keys")),
        (["-tool_order", "default"], ("line_ends", "argument_keys")),
        (["all", "-unicode_form", "-line_ends"], tuple(RULES)[1:4] + tuple(RULES)[5:]),
        (["blank_lines"], ("blank_lines",)),
        (["blank_lines", "-blank_lines"], ()),
        (["-default"], ()),
    ],
    ids=lambda value: ",".join(value) or "none",
)
def test_rules_are_chosen_by_name(names: list[str], chosen: tuple[str, ...]) -> None:
    assert chosen_rules(names) == chosen


@pytest.mark.parametrize("name", ["nfkc", "-nfkc", "", "-", "--tool_order", "Line_ends"])
def test_an_unknown_rule_is_named_beside_the_known(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        chosen_rules(["default", name])
    assert repr(name.removeprefix("-")) in str(raised.value)
    assert "line_ends, no_break_spaces, trailing_blanks, blank_lines, unicode_form, " in str(raised.value)
    assert "tool_order, argument_keys, default, all" in str(raised.value)


@pytest.mark.parametrize("role", ["system", "user", "prompt"])
def test_what_the_sender_wrote_is_formed(role: str) -> None:
    assert canonical_text(role, MESSY, chosen_rules([])) == "a \n\n\n\nb\u00a0c e\u0301"
    assert canonical_text(role, MESSY, chosen_rules(["all"])) == "a\n\nb c \u00e9"
    assert canonical_text(role, MESSY, ()) == MESSY


@pytest.mark.parametrize("role", ["tool", "assistant", "developer", ""])
def test_tool_outputs_and_answers_stay(role: str) -> None:
    assert canonical_text(role, MESSY, tuple(RULES)) == MESSY
