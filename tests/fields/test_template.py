"""Templates: which values they find, worked out by hand; one name is one value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.fields import Gap, SectionSample, SectionTemplate, grouped, learn_group
from kvtools.fields.catalogue import Catalogue, Kind
from kvtools.fields.gaps import Piece, pieces_to_template
from kvtools.table import digest64


def template(*parts: str) -> SectionTemplate:
    """Return a template of literals and, between them, names."""
    gaps = tuple(Gap(name, Kind("text"), "field", run) for run, name in enumerate(parts[1::2]))
    return SectionTemplate("system", parts[::2], gaps)


def learned(texts: list[str]) -> SectionTemplate:
    sample = SectionSample()
    for text in texts:
        sample.offer("prompt", text, None)
    (group,) = grouped(list(sample.texts.values()))
    (one,) = learn_group(group, Catalogue.bundled())
    return one.template


def names(of: SectionTemplate) -> list[str]:
    return [gap.name for gap in of.gaps]


def test_gaps_of_one_name_have_one_value() -> None:
    twice = template("order ", "a", " replaces ", "b", "; again ", "a", ".")
    assert twice.repeats == ((0, 2),)
    assert twice.match("order 1 replaces 2; again 1.") == ("1", "2", "1")
    assert twice.match("order 1 replaces 2; again 2.") is None
    thrice = template("", "a", "-", "a", "-", "a", "")
    assert thrice.match("x-x-x") == ("x", "x", "x")
    assert thrice.match("x-x-y") is None
    assert template("", "a", "-", "b", "").repeats == ()


def test_what_must_be_equal_is_part_of_the_id() -> None:
    free, tied = template("x ", "a", " y ", "b", ""), template("x ", "a", " y ", "a", "")
    assert free.template_id != tied.template_id
    assert free.template_id == template("x ", "c", " y ", "d", "").template_id

    literals = chr(0).join(("system", "x ", " y ", ""))
    assert free.template_id == f"{digest64(literals):016x}"[:8]


LONG = "The rules of the shop are these, and each of them holds for all customers: be brief, be kind."


def test_a_long_literal_is_found_behind_one_that_begins_alike() -> None:
    one = template("Now ", "a", LONG, "b", "End")
    decoy = LONG[:-1] + "!"
    assert one.match(f"Now x{decoy}{LONG}yEnd") == ("x" + decoy, "y")
    assert one.match(f"Now {decoy}End") is None
    assert one.match(f"Now {LONG}End") == ("", "")
    assert one.match(f"Now {LONG[:-2]}End") is None


@given(st.lists(st.sampled_from(["a" * 40, "b", "a" * 64, "ab"]), max_size=12).map("".join))
def test_a_long_literal_is_found_where_find_finds_it(text: str) -> None:
    literal = "a" * 70 + "b"
    place = text.find(literal)
    found = template("<", "a", literal, "b", ">").match(f"<{text}>")
    assert found == (None if place < 0 else (text[:place], text[place + len(literal) :]))


IDS = ["7f3a91", "8c0b11", "90aa21", "a1b2c3"]


def test_a_value_that_stands_twice_in_every_text_is_one() -> None:
    one = learned([f"Please check order {n} of the shop today; again order {n}, and answer." for n in IDS])
    assert names(one) == ["order_id", "order_id"]
    assert one.gaps[0].kind == one.gaps[1].kind


@pytest.mark.parametrize(
    "values",
    [
        [("7f3a91", "7f3a91"), ("8c0b11", "8c0b11"), ("90aa21", "90aa22")],
        [("1", "1"), ("2", "2")],
    ],
    ids=["one-differs", "two-short-ones"],
)
def test_values_that_may_be_equal_by_chance_are_two(values: list[tuple[str, str]]) -> None:
    one = learned(
        [f"Please check order {a} of the shop today; again order {b}, and answer." for a, b in values]
    )
    assert len(one.gaps) == 2
    assert names(one)[0] != names(one)[1]


@pytest.mark.parametrize(
    "label, name",
    [
        ("true", "true_value"),
        ("self", "self_value"),
        ("in", "in_value"),
        ("订单2", "value_2"),
        ("loop", "loop_value"),
    ],
)
def test_names_are_variables_of_jinja2(label: str, name: str) -> None:
    words = ["blue sky", "red rock", "green leaf", "white sand"]
    one = learned(
        [f"The rules of the shop are these, be brief.\n{label}: {word}\nThen answer it." for word in words]
    )
    assert names(one) == [name]


def test_values_are_never_side_by_side() -> None:
    """A sign that a value is written with belongs to it only where something else parts it from its neighbour."""
    values = Piece.of_values(["u 1", "u 2", "u 3"], run=0), Piece.of_values(["k", "l", "m"], run=0)
    between = Piece.of_literal("abcd-")
    pieces = [
        Piece.of_literal("Take all of "),
        values[0],
        between,
        values[1],
        Piece.of_literal(" and answer."),
    ]
    one = pieces_to_template("prompt", pieces, Catalogue.bundled())
    assert one is not None
    assert one.literals == ("Take all of ", "abcd-", " and answer.")
    alone = pieces_to_template("prompt", [between, *pieces[3:]], Catalogue.bundled())
    assert alone is not None
    assert alone.literals == ("", " and answer.")
