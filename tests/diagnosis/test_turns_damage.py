"""Conversations that grow are whole; each damage that is planted in one is named, whatever else stands in the text."""

from __future__ import annotations

import copy
import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvtools.chat import load
from kvtools.diagnosis.turns import Turn, parted, rebuilt

Messages = list[dict[str, Any]]

# Anything that people write, but for the marks that end a role in a rendered prompt.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(
    lambda text: "<|" not in text and "[INST]" not in text and "<｜" not in text
)


@st.composite
def conversations(draw: st.DrawFn, min_rounds: int = 1) -> Messages:
    messages = [{"role": "system", "content": draw(TEXT)}]
    for number in range(draw(st.integers(min_rounds, min_rounds + 2))):
        messages.append({"role": "user", "content": f"question {number} {draw(TEXT)}"})
        messages.append({"role": "tool", "content": f"result {number} {draw(TEXT)}"})
        messages.append({"role": "assistant", "content": f"answer {number} {draw(TEXT)}"})
    return [*messages, {"role": "user", "content": f"last question {draw(TEXT)}"}]


@st.composite
def grown(draw: st.DrawFn) -> tuple[Messages, Messages]:
    messages = draw(conversations(2))
    cut = draw(st.integers(1, len(messages) - 1))
    return messages[:cut], messages


CHATML = load("chatml")


def _rendered(messages: Messages, *, live: bool = True) -> str:
    return CHATML.render(messages, add_generation_prompt=live)


@given(grown())
def test_a_conversation_that_grows_is_whole(pair: tuple[Messages, Messages]) -> None:
    earlier, later = pair
    assert parted(Turn(messages=earlier), Turn(messages=copy.deepcopy(later))) is None
    answer = later[len(earlier)]
    output = answer["content"] if answer["role"] == "assistant" else None
    assert parted(Turn(messages=earlier, output=output), Turn(messages=later)) is None
    ids, more = list(_rendered(earlier, live=False).encode()), list(_rendered(later).encode())
    assert parted(Turn(token_ids=ids), Turn(token_ids=more)) is None


@given(conversations(), TEXT, TEXT)
def test_a_rendered_conversation_that_grows_is_whole(messages: Messages, answer: str, question: str) -> None:
    later = [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": question}]
    prompts = _rendered(messages), _rendered(later)
    assert parted(Turn(prompt=prompts[0], output=answer), Turn(prompt=prompts[1])) is None
    assert parted(Turn(messages, prompts[0], answer), Turn(later, prompts[1])) is None


# Each damage: what the earlier message holds besides the random text, and what becomes of it.
Damage = Callable[[str], tuple[str, str]]
NOISE = "x1 "
PRIVATE = "zqx7"
"""Stands in every damaged text and in no sentence of ours: no detail may show it."""

DAMAGES: dict[str, tuple[str, Damage]] = {
    "line_ends": ("user", lambda t: (f"{t}|one\ntwo\n{NOISE}", f"{t}|one\r\ntwo\r\n{NOISE}")),
    "trailing_blanks": ("user", lambda t: (f"{t}|one\ntwo", f"{t}|one  \ntwo")),
    "unicode_form": (
        "user",
        lambda t: (
            unicodedata.normalize("NFC", t + "|Köln 빨간머리"),
            unicodedata.normalize("NFD", t + "|Köln 빨간머리"),
        ),
    ),
    "restamped_history": (
        "user",
        lambda t: (f"[2026-11-28T09:15:00Z] {t}", f"[2026-11-28T09:16:12Z] {t}"),
    ),
    "json_key_order": ("tool", lambda t: (f'{t}|{{"a": 1, "b": [2]}}', f'{t}|{{"b": [2], "a": 1}}')),
    "json_spacing": ("tool", lambda t: (f'{t}|{{"a": 1, "b": [2]}}', f'{t}|{{"a":1,"b":[2]}}')),
    "schema_order": (
        "tool",
        lambda t: (
            f'{t}|{{"properties": {{"why": {{}}, "answer": {{}}}}}}',
            f'{t}|{{"properties": {{"answer": {{}}, "why": {{}}}}}}',
        ),
    ),
    "truncated_tool_output": (
        "tool",
        lambda t: (f"log {t}" + "0123456789" * 20, f"log {t}" + "0123456789" * 3 + "..."),
    ),
    "truncated_history": (
        "user",
        lambda t: (f"log {t}" + "0123456789" * 20, f"log {t}" + "0123456789" * 3 + " [truncated]"),
    ),
    "reordered_passages": (
        "user",
        lambda t: (f"{t}\nalpha one\nbeta two\ngamma", f"{t}\nbeta two\nalpha one\ngamma"),
    ),
    "reasoning_stripped": (
        "assistant",
        lambda t: (f"<think>\n7 times 13 is 91\n</think>\n\nNo.{t}|", f"No.{t}|"),
    ),
    "edited_history": ("user", lambda t: (f"apples {t}|", f"pears and {t}|")),
}
SOME = settings(max_examples=25)  # of each kind

NEVER_REBUILT = {"schema_order", "edited_history"}


@pytest.mark.parametrize("kind", DAMAGES)
@SOME
@given(st.data())
def test_a_planted_damage_is_named(kind: str, data: st.DataObject) -> None:
    role, damage = DAMAGES[kind]
    messages = data.draw(conversations())
    text = data.draw(TEXT) + PRIVATE
    # What the damage's own kind of text would be in the noise is not the damage.
    assume("<think" not in text and "{" not in text and "[" not in text)
    before, after = damage(text)
    assume(before != after)
    place = data.draw(st.integers(1, len(messages) - 2))
    earlier = [*messages[:place], {"role": role, "content": before}, *messages[place:]]
    later = [*messages[:place], {"role": role, "content": after}, *messages[place:]]
    later += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Thanks"}]
    found = parted(Turn(messages=earlier), Turn(messages=later))
    assert found is not None
    assert (found.kind, found.place) == (kind, f"message {place} ({role})")
    assert before[: found.position] == after[: found.position]
    assert before[found.position : found.position + 1] != after[found.position : found.position + 1]
    assert PRIVATE not in found.detail
    fixed = rebuilt(Turn(messages=earlier), Turn(messages=later), found)
    if kind in NEVER_REBUILT:
        assert fixed is None
    else:
        assert fixed is not None
        assert fixed.messages == [*earlier, *later[-2:]]


@pytest.mark.parametrize("kind", ["restamped_history", "line_ends", "unicode_form", "truncated_tool_output"])
@SOME
@given(st.data())
def test_a_planted_damage_is_named_in_the_rendered_text_too(kind: str, data: st.DataObject) -> None:
    role, damage = DAMAGES[kind]
    messages = data.draw(conversations())
    before, after = damage(data.draw(TEXT))
    assume(before != after)
    earlier = [*messages, {"role": role, "content": before}]
    later = [*messages, {"role": role, "content": after}]
    later += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Thanks"}]
    turns = Turn(prompt=_rendered(earlier)), Turn(prompt=_rendered(later))
    found = parted(*turns)
    assert found is not None
    assert (found.kind, found.place) == (kind, "prompt")
    fixed = rebuilt(*turns, found)
    assert fixed is not None
    assert fixed.prompt == _rendered([*earlier, *later[-2:]])


@given(conversations(2), st.integers(1, 4))
def test_dropped_messages_are_a_sliding_window(messages: Messages, dropped: int) -> None:
    earlier, answered = messages, [*messages, {"role": "assistant", "content": "Yes."}]
    later = [messages[0], *answered[1 + dropped :]]
    found = parted(Turn(messages=earlier), Turn(messages=later))
    assert found is not None
    assert found.kind == "sliding_window"
    fixed = rebuilt(Turn(messages=earlier), Turn(messages=later), found)
    assert fixed is not None
    assert fixed.messages == answered
    texts = Turn(prompt=_rendered(earlier)), Turn(prompt=_rendered(later))
    found = parted(*texts)
    assert found is not None
    assert found.kind == "sliding_window"
    fixed = rebuilt(*texts, found)
    assert fixed is not None
    assert fixed.prompt == _rendered(answered)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
MESSAGE = JSON | st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "tool"]) | JSON,
        "content": JSON
        | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": JSON}), max_size=2),
        "tool_calls": JSON | st.lists(st.fixed_dictionaries({"function": JSON}), max_size=2),
        "reasoning": JSON,
        "name": JSON,
    },
)
ANY_TURN = st.builds(
    Turn,
    st.none() | st.lists(MESSAGE, max_size=4),
    st.none() | st.text(max_size=30),
    st.none() | st.text(max_size=10),
    st.none() | st.lists(st.integers(0, 3), max_size=12),
    st.none() | st.lists(st.integers(0, 3), max_size=6),
    st.none() | st.lists(JSON, max_size=3),
    st.none() | st.sampled_from(["", "a", "b"]),
    st.none() | st.sampled_from(["", "a"]),
)


@given(ANY_TURN, ANY_TURN)
def test_no_shape_of_a_turn_is_too_odd(earlier: Turn, later: Turn) -> None:
    assert parted(earlier, earlier) is None
    found = parted(earlier, later)
    if found is not None:
        rebuilt(earlier, later, found)


@given(
    st.text(st.sampled_from('[{"a:,}] \n1'), max_size=200),
    st.text(st.sampled_from('[{"a:,}] \n1'), max_size=200),
)
def test_no_text_is_too_odd(one: str, other: str) -> None:
    turns = Turn(prompt=one), Turn(prompt=other)
    found = parted(*turns)
    if found is not None:
        rebuilt(*turns, found)
    json.dumps(found and found.detail)
