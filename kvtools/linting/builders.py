"""Prompt builders in Python: where each input stands in the prompt, found by calling the builder.

Reading the source gives hints only; running it is the authority. Each field is changed alone, and the prompts compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kvtools.chat.probes import common_chars
from kvtools.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Effect: TypeAlias = Literal["whole prompt", "tail only", "none"]

_SHORTEST = 3
"""Equal runs of fewer characters inside two values are chance."""


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Where a field stands first: ``char`` and UTF-8 ``byte`` from 0, ``line`` from 1, in the prompt of ``inputs_a``.

    ``stable_chars_behind`` counts characters that the builder itself writes behind it. ``effect``: ``whole prompt``
    where more of the stable text stands behind the field than in front of it, ``tail only`` where less does,
    ``none`` where nothing does. ``order_matters``: a dict whose entries change the prompt when they come in another
    order.
    """

    name: str
    char: int
    byte: int
    line: int
    stable_chars_behind: int
    effect: Effect
    order_matters: bool


@dataclass(frozen=True, slots=True)
class BuilderFields:
    """``fields`` in the order in which they stand; ``unused`` inputs change nothing.

    ``unsteady_char``: where two calls with equal inputs differ (the builder reads a clock, or draws at random).
    ``first_difference_char``: where the prompts of both inputs part; all behind it is computed again.
    """

    fields: tuple[FieldPlace, ...]
    unused: tuple[str, ...]
    unsteady_char: int | None
    first_difference_char: int | None

    @property
    def order(self) -> list[str]:
        """The fields' names in order of position."""
        return [field.name for field in self.fields]


def fields_in_order(
    build: Callable[..., str], inputs_a: Mapping[str, Any], inputs_b: Mapping[str, Any]
) -> BuilderFields:
    """Return where each keyword argument of ``build`` stands in the prompt, in order of position.

    ``build`` is called with all of ``inputs_a`` (twice), with all of ``inputs_b``, and with one field of ``inputs_b``
    at a time. Give values that differ from their first character on: where a value's own text is found in the prompt
    its beginning is meant, else the place where the prompts part.

    Raises:
        InputError: ``build`` returned no text.
        UsageError: the two inputs do not name the same fields.
    """
    if set(inputs_a) != set(inputs_b):
        odd = ", ".join(sorted(set(inputs_a) ^ set(inputs_b)))
        raise UsageError(f"both inputs must name the same fields; only one has {odd}.")
    base, again, other = (_built(build, inputs) for inputs in (inputs_a, inputs_a, inputs_b))
    own = _own_text(base, other)
    places, unused = [], []
    for name in inputs_a:
        changed = _built(build, {**inputs_a, name: inputs_b[name]})
        if changed == base:
            unused.append(name)
            continue
        char = _beginning(base, common_chars(base, changed), inputs_a[name])
        places.append(
            _place(name, char, base, own, order_matters=_order_matters(build, inputs_a, name, base))
        )
    places.sort(key=lambda place: (place.char, place.name))
    return BuilderFields(
        tuple(places),
        tuple(unused),
        None if base == again else common_chars(base, again),
        None if base == other else common_chars(base, other),
    )


def _built(build: Callable[..., str], inputs: Mapping[str, Any]) -> str:
    prompt: object = build(**inputs)
    if not isinstance(prompt, str):
        raise InputError(
            f"the builder returned {type(prompt).__name__}, not a text: return the prompt's text."
        )
    return prompt


def _own_text(base: str, other: str) -> list[bool]:
    """Say for each character whether it is the builder's own: equal in both prompts, in a run that is no chance."""
    own = [False] * len(base)
    for start, _, size in SequenceMatcher(None, base, other, autojunk=False).get_matching_blocks():
        if size >= _SHORTEST or start == 0:
            own[start : start + size] = [True] * size
    return own


def _beginning(base: str, char: int, value: object) -> int:
    """Return where the value's own text begins, if it covers ``char``: two values may begin alike."""
    text = str(value)
    start = base.rfind(text, max(0, char - len(text) + 1), char + len(text)) if text else -1
    return start if 0 <= start <= char else char


def _place(name: str, char: int, base: str, own: list[bool], *, order_matters: bool) -> FieldPlace:
    behind, before = sum(own[char:]), sum(own[:char])
    effect: Effect = "none" if not behind else "whole prompt" if behind > before else "tail only"
    line = base.count("\n", 0, char) + 1
    return FieldPlace(name, char, len(base[:char].encode()), line, behind, effect, order_matters)


def _order_matters(build: Callable[..., str], inputs: Mapping[str, Any], name: str, base: str) -> bool:
    value = inputs[name]
    if not isinstance(value, dict) or len(value) < 2:
        return False
    return _built(build, {**inputs, name: dict(reversed(value.items()))}) != base
