from __future__ import annotations

import itertools
from typing import Any

import pytest

from kvtools.errors import InputError, UsageError
from kvtools.linting import fields_in_order


def test_positions_by_hand() -> None:
    def build(name: str, city: str, unused: int) -> str:  # noqa: ARG001 - that is the point
        return f"Héllo {name}\nin {city}."

    found = fields_in_order(
        build, {"city": "Oslo", "unused": 1, "name": "Ada"}, {"city": "Rome", "unused": 2, "name": "Bob"}
    )
    # "Héllo " has 6 characters and 7 bytes; "Héllo Ada\nin " 13 and 14.
    assert [(f.name, f.char, f.byte, f.line) for f in found.fields] == [
        ("name", 6, 7, 1),
        ("city", 13, 14, 2),
    ]
    assert found.unused == ("unused",)
    assert (found.unsteady_char, found.first_difference_char) == (None, 6)


def test_values_that_begin_alike_stand_where_they_begin() -> None:
    found = fields_in_order("id {id}".format, {"id": "req-001"}, {"id": "req-002"})
    assert (found.fields[0].char, found.first_difference_char) == (3, 9)


def test_a_builder_that_is_never_the_same() -> None:
    calls = itertools.count()
    found = fields_in_order(lambda name: f"{next(calls)}: {name}", {"name": "a"}, {"name": "b"})
    assert found.unsteady_char == 0


def test_the_order_of_a_dict() -> None:
    def build(flags: dict[str, Any], kept: dict[str, Any]) -> str:
        return f"{list(flags)} {sorted(kept)}"

    one, other = {"x": 1, "y": 2}, {"p": 1, "q": 2}
    found = fields_in_order(build, {"flags": one, "kept": one}, {"flags": other, "kept": other})
    assert [(f.name, f.order_matters) for f in found.fields] == [("flags", True), ("kept", False)]


def test_wrong_calls_are_told() -> None:
    with pytest.raises(UsageError, match="only one has b"):
        fields_in_order(str, {"a": 1}, {"a": 1, "b": 2})
    with pytest.raises(InputError, match="returned int, not a text"):
        fields_in_order(lambda a: a, {"a": 1}, {"a": 2})
