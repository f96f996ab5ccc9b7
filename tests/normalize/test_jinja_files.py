"""Template files: plain jinja2 is the oracle for what they render to; what is more than text is never run."""

from __future__ import annotations

from itertools import product

import jinja2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvtools.errors import InputError
from kvtools.fields.catalogue import Kind
from kvtools.fields.template import Gap, SectionTemplate
from kvtools.normalize.hoist import Moved, Moves
from kvtools.normalize.jinja_files import logged_source, parsed, served_source

PIECES = (
    *("{", "}", "{{", "}}", "{%", "%}", "{#", "#}", "{% raw %}", "{% endraw %}", "{{ x }}", "{%-", "-%}", "{{-", "-}}"),
    *("\r", "\r\n", "\n", "\n\n", "\\", "\\n", '"', "'", "%", "#", "-", "+", " ", "\t", "\x00", "\x85", "\u2028", "\ufeff"),
    *("```\nx = {}\n```\n", "订单", "。", "שלום", "\u202e", "e\u0301", "\u1112\u1161\u11ab", "\U0001f600", "text", "[name]"),
)  # fmt: skip
TEXT = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
NAMES = ("time", "user_id", "value", "class", "examples", "name")


def gap(name: str, shape: str = "section") -> Gap:
    return Gap(name, Kind("text"), shape, 0)  # type: ignore[arg-type]


@st.composite
def templates(draw: st.DrawFn) -> tuple[SectionTemplate, dict[str, str]]:
    """Return any template whose gaps have text between them, and values for its names."""
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    inner = [draw(TEXT.filter(bool)) for _ in names[1:]]
    literals = [draw(TEXT), *inner, draw(TEXT)] if names else [draw(TEXT)]
    values = {name: draw(TEXT) for name in names}
    return SectionTemplate("system", tuple(literals), tuple(map(gap, names))), values


def rendered(source: str, values: dict[str, str]) -> str:
    return jinja2.Environment().from_string(source).render(values)  # noqa: S701 - as a user would


def row(template: SectionTemplate, values: dict[str, str]) -> list[str]:
    return [values[one.name] for one in template.gaps]


@settings(deadline=None, max_examples=200)
@given(drawn=templates())
def test_plain_jinja2_renders_the_logged_text(drawn: tuple[SectionTemplate, dict[str, str]]) -> None:
    template, values = drawn
    source = logged_source(template)
    assert rendered(source, values) == template.render(row(template, values))
    assert parsed(source, "t.j2") == (template.literals, tuple(one.name for one in template.gaps))
    # It lives in a file: UTF-8, and whatever a checkout makes of its line ends.
    again = source.encode().replace(b"\n", b"\r\n").decode("utf-8-sig")
    assert rendered(again, values) == template.render(row(template, values))


@settings(deadline=None, max_examples=200)
@given(drawn=templates(), data=st.data())
def test_plain_jinja2_renders_the_rewritten_text(
    drawn: tuple[SectionTemplate, dict[str, str]], data: st.DataObject
) -> None:
    template, values = drawn
    numbers = list(range(len(template.gaps)))
    moves = Moves(
        template, tuple(sorted(data.draw(st.sets(st.sampled_from(numbers) if numbers else st.nothing()))))
    )
    text = template.render(row(template, values))
    moved = moves.moved(text)
    if not isinstance(moved, Moved):
        return
    found = template.match(text)
    assert found is not None
    cut = {one.name: value for one, value in zip(template.gaps, found, strict=True)}
    assert rendered(served_source(moves), cut) == moved.text
    if not any("\n" in value for value in cut.values()):
        assert rendered(served_source(moves, frozenset(cut)), cut) == moved.text


def test_sequences_of_signs_that_jinja2_reads() -> None:
    for signs in product(("{", "%", "#", "\r", "\n", "}", "a"), repeat=4):
        literal = "".join(signs)
        template = SectionTemplate("system", (literal, literal), (gap("time"),))
        assert rendered(logged_source(template), {"time": "{{ x"}) == literal + "{{ x" + literal


def test_what_a_service_is_given() -> None:
    template = SectionTemplate(
        "system", ("Now: ", "\nFor ", ", be brief {{x}}.\n"), (gap("time"), gap("user"))
    )
    assert logged_source(template) == 'Now: {{ time }}\nFor {{ user }}, be brief {{ "{{" }}x}}.{{ "\\n" }}'
    assert served_source(Moves(template, (0,)), {"time"}) == (
        'Now: [time]\nFor {{ user }}, be brief {{ "{{" }}x}}.\n\n\n[time]: {{ time }}'
    )
    assert served_source(Moves(template, (0,))) == (
        'Now: [time]{{ "\\n" if time[-1:] == "\\n" else "" }}\nFor {{ user }}, be brief {{ "{{" }}x}}.\n\n\n'
        '[time]:{{ "\\n" if "\\n" in time else " " }}{{ time }}'
    )


def test_hand_written_source() -> None:
    source = '{# a note #}Now: {{ time }}\n{% raw %}{{ x }}{% endraw %}{{ "\\r" }}\nBy {{- user_id -}} \n. {{time}}\n'
    assert parsed(source, "t.j2") == (("Now: ", "\n{{ x }}\r\nBy", ". ", ""), ("time", "user_id", "time"))


HOSTILE = {
    "a\n{{ ''.__class__.__mro__ }}": (2, "an attribute"),
    "{% for i in range(10**12) %}x{% endfor %}": (1, "a loop"),
    "\n\n{% include '/etc/passwd' %}": (3, "an include"),
    "{% import 'os' as os %}": (1, "an import"),
    "{% extends 'base' %}": (1, "an extends"),
    "{% if x %}a{% endif %}": (1, "a condition"),
    "{% set x = 1 %}": (1, "a set"),
    "{% macro x() %}a{% endmacro %}": (1, "a macro"),
    "{{ x | upper }}": (1, "a filter"),
    "{{ now() }}": (1, "a call"),
    "{{ 9 ** 9 ** 9 ** 9 }}": (1, "an expression"),
    "{{ x ~ y }}": (1, "an expression"),
    "{{ 1 }}": (1, "an expression"),
    "{{ true }}": (1, "an expression"),
    "{{ self }}": (1, "an expression"),
    "{{ x[0] }}": (1, "an item of a value"),
}


@pytest.mark.parametrize("source", HOSTILE, ids=range(len(HOSTILE)))
def test_more_than_text_and_placeholders_is_refused(source: str) -> None:
    line, what = HOSTILE[source]
    with pytest.raises(InputError) as told:
        parsed(source, "dir/t.j2")
    assert str(told.value) == (
        f"dir/t.j2:{line}: {what} can be rendered but not matched against a prompt; keep text and {{{{ name }}}}."
    )


@pytest.mark.parametrize(
    "source",
    [
        "x\n{% for i in range(10**12) %}",
        "x\n{{ ",
        "x\n{{ 'a }}",
        "x\n{{ '\\x' }}",
    ],
    ids=["for", "open", "quote", "escape"],
)
def test_what_is_no_jinja2_is_refused(source: str) -> None:
    with pytest.raises(InputError, match=r"^dir/t\.j2:2: not a jinja2 template \(.*\); repair it\.$"):
        parsed(source, "dir/t.j2")


@pytest.mark.parametrize(
    "expression", ["(" * 100_000, "1" * 5_000, "-" * 100_000 + "x"], ids=["deep", "long", "signs"]
)
def test_an_expression_without_end_is_refused(expression: str) -> None:
    with pytest.raises(InputError, match=r"^dir/t\.j2:1: "):
        parsed("{{ " + expression + " }}", "dir/t.j2")


@example(between="")
@example(between='{{ "" }}')
@given(between=st.sampled_from(["", "{# note #}", "{{ '' }}", "{% raw %}{% endraw %}"]))
def test_placeholders_side_by_side_are_refused(between: str) -> None:
    with pytest.raises(InputError, match=r"^dir/t\.j2:8: first and second stand side by side"):
        parsed("a\n{{ first }}" + between + "{{ second }}", "dir/t.j2", first_line=7)


@pytest.mark.parametrize("name", ["true", "self", "loop", "not", "in", "range"])
def test_names_that_jinja2_keeps_are_no_placeholders(name: str) -> None:
    with pytest.raises(InputError):
        parsed(f"a {{{{ {name} }}}} b", "t.j2")
