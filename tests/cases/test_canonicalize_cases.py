"""Cases of group B of ../shared/cases: one form for what means the same, and nothing that changes meaning."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from shared_case import Case

from kvtools.normalize.rules import RULES, canonical_text, chosen_rules
from kvtools.normalize.tool_forms import canonical_tools, duplicate_tool_names

if TYPE_CHECKING:
    from pathlib import Path


def _tools(shared: Path, number: str) -> list[bytes]:
    """The arrays of tools as the case's requests have them, one tool's bytes as ``json.dumps`` writes it."""
    requests = Case.load(shared / "cases", number).requests
    return [json.dumps(request["tools"]).encode() for request in requests]


def test_032_tools_are_sorted_and_their_schemas_are_not(shared: Path) -> None:
    case = Case.load(shared / "cases", "032")
    (raw,) = _tools(shared, "032")
    written = canonical_tools(raw)
    assert written is not None
    tools = json.loads(written)
    assert [tool["function"]["name"] for tool in tools] == case.expected["tool_order"]
    for tool in tools:
        assert list(tool["function"]["parameters"]["properties"]) == case.expected["properties_order"]
        assert tool["function"]["parameters"]["required"] == case.expected["properties_order"]
    assert canonical_tools(written) is None


def test_033_white_space_in_the_order_of_the_rules(shared: Path) -> None:
    """The case's text has a no-break space, its answer a blank: that rule is asked for with the others."""
    case = Case.load(shared / "cases", "033")
    (text,) = (request["prompt"] for request in case.requests)
    rules = chosen_rules(["line_ends", "no_break_spaces", "trailing_blanks", "blank_lines"])
    written = canonical_text("prompt", text, rules)
    assert written == case.expected["output"]
    assert canonical_text("prompt", written, rules) == written


def test_034_code_and_hard_breaks_stay_under_the_default_rules(shared: Path) -> None:
    (request,) = Case.load(shared / "cases", "034").requests
    (message,) = request["messages"]
    assert canonical_text(message["role"], message["content"], chosen_rules([])) == message["content"]


def test_034_the_fence_stays_under_all_rules(shared: Path) -> None:
    """Asked for by name, ``trailing_blanks`` takes the hard break, and no more than that."""
    (request,) = Case.load(shared / "cases", "034").requests
    (message,) = request["messages"]
    written = canonical_text(message["role"], message["content"], tuple(RULES))
    assert written == message["content"].replace("here:  \n", "here:\n")


@pytest.mark.parametrize("rules", [["default"], ["all"]], ids=["default", "all"])
def test_035_compatibility_forms_stay_under_every_rule(shared: Path, rules: list[str]) -> None:
    for request in Case.load(shared / "cases", "035").requests:
        assert canonical_text("prompt", request["prompt"], chosen_rules(rules)) == request["prompt"]


def test_036_no_operator_is_taken_in(shared: Path) -> None:
    """The answer as ``expected.md`` spells it; nothing changes by default."""
    (request,) = Case.load(shared / "cases", "036").requests
    text = request["prompt"]
    assert canonical_text("prompt", text, chosen_rules([])) == text
    written = canonical_text("prompt", text, chosen_rules(["default", "unicode_form"]))
    assert written == "a <\u0338 b and a =\u0338 b and caf\u00e9"


def test_037_two_forms_of_one_korean_text(shared: Path) -> None:
    one, other = (request["prompt"] for request in Case.load(shared / "cases", "037").requests)
    rules = chosen_rules(["unicode_form"])
    assert canonical_text("prompt", one, ()) != canonical_text("prompt", other, ())
    assert canonical_text("prompt", one, rules) == canonical_text("prompt", other, rules)


def test_043_tools_of_one_name_have_one_order_and_are_named(shared: Path) -> None:
    case = Case.load(shared / "cases", "043")
    raws = _tools(shared, "043")
    assert raws[0] != raws[1]
    first, second = (canonical_tools(raw) or raw for raw in raws)
    assert first == second
    functions = [tool["function"] for tool in json.loads(first)]
    assert [[f["name"], f["description"]] for f in functions] == case.expected["order"]
    assert [duplicate_tool_names(raw) for raw in raws] == [{"connect": 2}, {"connect": 2}]
