"""Moves and byte forms: what a text becomes, worked out by hand; and that nothing of it is lost."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.fields import Gap, SectionTemplate
from kvtools.fields.catalogue import Kind
from kvtools.normalize import FORMS, Moves, Rewriting, one_form

if TYPE_CHECKING:
    from pathlib import Path

TIME = Gap("time", Kind("time", "second"), "field", 0)
USER = Gap("user_id", Kind("user_id", None), "field", 0)
EXAMPLES = Gap("examples", Kind("text", None), "section", 1)


def test_a_value_moves_to_the_end_of_its_message() -> None:
    template = SectionTemplate("system", ("Now: ", "\nYou help."), (TIME,))
    assert Moves(template, (0,)).apply("Now: 10:41\nYou help.") == "Now: [time]\nYou help.\n\n[time]: 10:41"
    assert Moves(template, (0,)).apply("You help.") is None


def test_lines_move_as_a_block_in_their_order() -> None:
    template = SectionTemplate("system", ("You help ", ".\n", "Be brief."), (USER, EXAMPLES))
    text = "You help u_1.\nExample 2: b\nExample 1: a\nBe brief."
    assert Moves(template, (0, 1)).apply(text) == (
        "You help [user_id].\n[examples]\nBe brief.\n\n[user_id]: u_1\n[examples]:\nExample 2: b\nExample 1: a\n"
    )
    assert Moves(template, (1,)).apply(text) == (
        "You help u_1.\n[examples]\nBe brief.\n\n[examples]:\nExample 2: b\nExample 1: a\n"
    )


def test_only_the_role_of_the_template_is_rewritten() -> None:
    template = SectionTemplate("system", ("Now: ", "\nYou help."), (TIME,))
    rewriting = Rewriting((Moves(template, (0,)),))
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Now: 10:41\nYou help.", "name": "kept"},
        {"role": "user", "content": "Now: 10:41\nYou help."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "hi"}]},
    ]
    again = json.loads(json.dumps(messages))
    changed = rewriting.messages(messages)
    assert changed is not None
    assert changed[0] == {
        "role": "system",
        "content": "Now: [time]\nYou help.\n\n[time]: 10:41",
        "name": "kept",
    }
    assert changed[1:] == again[1:]
    assert messages == again
    assert rewriting.messages(messages[1:]) is None


def test_one_text_of_a_message_in_parts_is_rewritten() -> None:
    template = SectionTemplate("user", ("Order ", " is late."), (USER,))
    parts = [{"type": "image_url", "image_url": "x"}, {"type": "text", "text": "Order 7 is late."}]
    changed = Rewriting((Moves(template, (0,)),)).messages([{"role": "user", "content": parts}])
    assert changed == [
        {
            "role": "user",
            "content": [parts[0], {"type": "text", "text": "Order [user_id] is late.\n\n[user_id]: 7"}],
        }
    ]


@given(
    values=st.tuples(st.text(max_size=20), st.text(max_size=20)), gaps=st.sampled_from([(0,), (1,), (0, 1)])
)
def test_a_move_keeps_every_value(values: tuple[str, str], gaps: tuple[int, ...]) -> None:
    template = SectionTemplate("system", ("first ", " then ", " last"), (TIME, EXAMPLES))
    text = template.render(values)
    matched = template.match(text)
    assert matched is not None
    assert template.render(matched) == text
    moved = Moves(template, gaps).apply(text)
    assert moved is not None
    assert all(value in moved for value in matched)


def test_byte_forms_in_their_order() -> None:
    text = "Line one  \r\nline two\t\r\n\r\nline  three\r    def f():\n        return 1  "
    assert one_form(text) == "Line one\nline two\n\nline  three\n    def f():\n        return 1  "


def test_blanks_inside_code_stay() -> None:
    text = "Fix this:\n```python\nx = 1  \n```\nplain \nend"
    assert one_form(text) == "Fix this:\n```python\nx = 1  \n```\nplain\nend"


def test_nfc_takes_in_no_operator(shared: Path) -> None:
    """Case 036: ``<`` and ``=`` with an overlay stay; the accent is composed."""
    (line,) = (shared / "cases/036-nfc-creates-or-eats-operators/input.jsonl").read_text().splitlines()
    text = json.loads(line)["prompt"]
    assert one_form(text, ["unicode_form"]) == "a <\u0338 b and a =\u0338 b and caf\u00e9"


def test_hangul_is_composed(shared: Path) -> None:
    lines = (shared / "cases/037-hangul-nfd-vs-nfc/input.jsonl").read_text().splitlines()
    one, other = (json.loads(line)["prompt"] for line in lines)
    assert one != other
    assert one_form(one) == one_form(other) == unicodedata.normalize("NFC", one)


def test_compatibility_forms_are_never_folded(shared: Path) -> None:
    """Case 035: NFKC would change what is said."""
    for line in (shared / "cases/035-nfkc-changes-meaning/input.jsonl").read_text().splitlines():
        prompt = json.loads(line)["prompt"]
        assert one_form(prompt) == prompt


@pytest.mark.parametrize("rule", FORMS)
@given(text=st.text(alphabet="ab `~\t\r\n<=\u0338e\u0301\u1112\u1161\u11ab", max_size=40))
def test_a_form_can_be_applied_twice(rule: str, text: str) -> None:
    once = one_form(text, [rule])
    assert one_form(once, [rule]) == once
