from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from kvtools.diagnosis.turns import Break, Turn, parted, rebuilt, starts_with_two_bos

SYSTEM = {"role": "system", "content": "Be brief."}


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _said(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


def _call(arguments: Any, call: str = "c1") -> dict[str, Any]:
    return _said("", tool_calls=[{"id": call, "function": {"name": "get", "arguments": arguments}}])


def _tool(name: str, *properties: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {key: {"type": "string"} for key in properties}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _found(earlier: Turn, later: Turn) -> Break:
    found = parted(earlier, later)
    assert found is not None
    return found


def _kind(earlier: list[Any], later: list[Any]) -> str | None:
    found = parted(Turn(messages=earlier), Turn(messages=later))
    return None if found is None else found.kind


HISTORY = [SYSTEM, _user("Weather?"), _call('{"city": "Oslo", "unit": "c"}'), _user("And now?")]


def test_arguments_are_compared_as_the_template_sees_them() -> None:
    # vLLM parses them: spaces in the JSON text reach no prompt, the order of keys does.
    spaced = [*HISTORY[:2], _call('{"city":"Oslo","unit":"c"}'), HISTORY[3], _said("Cold.")]
    parsed = [*HISTORY[:2], _call({"city": "Oslo", "unit": "c"}), HISTORY[3]]
    assert _kind(HISTORY, spaced) is None
    assert _kind(HISTORY, parsed) is None
    swapped = [*HISTORY[:2], _call('{"unit": "c", "city": "Oslo"}'), HISTORY[3], _said("Cold.")]
    earlier, later = Turn(messages=HISTORY), Turn(messages=swapped)
    found = _found(earlier, later)
    assert (found.kind, found.place) == ("json_key_order", "message 2 (assistant)")
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.messages == [*HISTORY, _said("Cold.")]
    # A list's order is its meaning.
    assert _kind(
        [*HISTORY[:2], _call('{"a": [1, 2]}'), _user("x")], [*HISTORY[:2], _call('{"a": [2, 1]}'), _user("x")]
    ) == ("edited_history")


def test_new_ids_of_old_tool_calls() -> None:
    renamed = [*HISTORY[:2], _call('{"city": "Oslo", "unit": "c"}', "c2"), HISTORY[3]]
    assert _kind(HISTORY, renamed) == "call_ids"


def test_forms_of_one_message_that_reach_the_template_alike() -> None:
    parts = [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}
    ]
    assert _kind([_user("Hi")], parts) is None
    assert _kind([_said("")], [_said(None)]) is None  # type: ignore[arg-type]
    assert _kind([_user("Hi")], [{"content": "Hi", "role": "user", "created_at": 5}]) is None


def test_tools_in_another_order() -> None:
    one, other = [_tool("a", "x"), _tool("b", "y")], [_tool("b", "y"), _tool("a", "x")]
    earlier, later = Turn(messages=[SYSTEM], tools=one), Turn(messages=[SYSTEM, _user("Hi")], tools=other)
    found = _found(earlier, later)
    assert (found.kind, found.place, found.detail) == (
        "tool_order",
        "tools",
        "The same 2 tools stand in another order.",
    )
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.tools == one
    assert parted(earlier, fixed) is None


def test_keys_of_tools_in_another_order() -> None:
    swapped = json.loads(
        '{"function": {"parameters": {"properties": {"x": {"type": "string"}}, "type": "object"}, "name": "a"}, "type": "function"}'
    )
    earlier, later = (
        Turn(messages=[SYSTEM], tools=[_tool("a", "x")]),
        Turn(messages=[SYSTEM], tools=[swapped]),
    )
    found = _found(earlier, later)
    assert (found.kind, found.place) == ("json_key_order", "tools")
    assert rebuilt(earlier, later, found) is not None


@pytest.mark.parametrize("field", ["properties", "required", "enum"])
def test_032_order_inside_a_schema_has_a_meaning(field: str) -> None:
    values: Any = ["reasoning", "answer"]
    values = {name: {} for name in values} if field == "properties" else values
    turned = dict(reversed(values.items())) if field == "properties" else values[::-1]
    tools = [{"function": {"name": "a", "parameters": {field: value}}} for value in (values, turned)]
    earlier, later = Turn(messages=[SYSTEM], tools=tools[:1]), Turn(messages=[SYSTEM], tools=tools[1:])
    found = _found(earlier, later)
    assert found.kind == "schema_order"
    assert rebuilt(earlier, later, found) is None


def test_other_tools() -> None:
    earlier = Turn(messages=[SYSTEM], tools=[_tool("a"), _tool("b")])
    later = Turn(messages=[SYSTEM], tools=[_tool("a"), _tool("c"), _tool("d")])
    found = _found(earlier, later)
    assert (found.kind, found.detail) == (
        "tools_changed",
        "1 tools of 2 are gone or changed, 2 of 3 are new.",
    )
    assert rebuilt(earlier, later, found) is None


def test_reasoning_in_a_field_of_its_own() -> None:
    thought = [SYSTEM, _user("91?"), _said("No.", reasoning_content="7 x 13"), _user("97?")]
    bare = [SYSTEM, _user("91?"), _said("No."), _user("97?"), _said("Yes.")]
    earlier, later = Turn(messages=thought), Turn(messages=bare)
    found = _found(earlier, later)
    assert (found.kind, found.place) == ("reasoning_stripped", "message 2 (assistant)")
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.messages == [*thought, _said("Yes.")]


def test_reasoning_in_the_answer_alone() -> None:
    earlier = Turn(messages=[_user("91?")], output="<think>\n7 x 13\n</think>\n\nNo.<|im_end|>")
    later = Turn(messages=[_user("91?"), _said("No."), _user("97?")])
    found = _found(earlier, later)
    assert (found.kind, found.place, found.position) == ("reasoning_stripped", "message 1 (assistant)", 0)
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.messages == [_user("91?"), _said("<think>\n7 x 13\n</think>\n\nNo."), _user("97?")]


def test_the_history_holds_another_answer() -> None:
    earlier = Turn(messages=[_user("91?")], output="No, it is not.")
    later = Turn(messages=[_user("91?"), _said("No, never."), _user("97?")])
    found = _found(earlier, later)
    assert (found.kind, found.position) == ("edited_answer", 4)
    assert rebuilt(earlier, later, found) is None


ROUNDS = [SYSTEM, _user("q1"), _said("a1"), _user("q2"), _said("a2"), _user("q3")]
NEXT = [_said("a3"), _user("q4")]


@pytest.mark.parametrize(
    ("later", "kind"),
    [
        ([SYSTEM, *ROUNDS[3:], *NEXT], "sliding_window"),
        ([SYSTEM, _user("So far: …"), *ROUNDS[5:], *NEXT], "summarised_history"),
        ([SYSTEM, _user("Reminder"), *ROUNDS[1:], *NEXT], "inserted_message"),
        ([*ROUNDS[:5], *NEXT, ROUNDS[5]], "moved_message"),
        ([SYSTEM, ROUNDS[3], ROUNDS[4], ROUNDS[1], ROUNDS[2], ROUNDS[5], *NEXT], "reordered_passages"),
        ([*ROUNDS[:2], _said("something else"), *ROUNDS[3:], *NEXT], "edited_history"),
        ([{"role": "system", "content": "Be verbose."}, *ROUNDS[1:], *NEXT], "edited_history"),
        ([*ROUNDS[:5], *NEXT, _user("q5")], "dropped_message"),
        ([*ROUNDS, *NEXT], None),
        (ROUNDS[:3], None),  # goes back: all of it was computed
        ([SYSTEM, _user("another conversation")], None),
        ([_user("nothing in common")], None),
    ],
)
def test_what_became_of_a_history(later: list[Any], kind: str | None) -> None:
    assert _kind(ROUNDS, later) == kind


@pytest.mark.parametrize("at", [3, 5])
def test_windows_and_summaries_are_undone(at: int) -> None:
    for put in ([], [_user("So far: …")]):
        earlier, later = Turn(messages=ROUNDS), Turn(messages=[SYSTEM, *put, *ROUNDS[at:], *NEXT])
        fixed = rebuilt(earlier, later, _found(earlier, later))
        assert fixed is not None
        assert fixed.messages == [*ROUNDS, *NEXT]


def test_a_message_that_was_sent_once_is_put_back() -> None:
    earlier = Turn(messages=[SYSTEM, _user("Hi"), _user("It is 9:05.")])
    later = Turn(messages=[SYSTEM, _user("Hi"), _said("Hello."), _user("Bye"), _user("It is 9:06.")])
    fixed = rebuilt(earlier, later, _found(earlier, later))
    assert fixed is not None
    assert fixed.messages == [*(earlier.messages or []), *(later.messages or [])[2:]]


def test_messages_in_another_order_are_put_back() -> None:
    shots = [_user("2+2"), _said("4"), _user("3+5"), _said("8")]
    earlier = Turn(messages=[SYSTEM, *shots, _user("7+1")])
    later = Turn(messages=[SYSTEM, *shots[2:], *shots[:2], _user("7+1"), _said("8.")])
    found = _found(earlier, later)
    assert found.kind == "reordered_passages"
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.messages == [SYSTEM, *shots, _user("7+1"), _said("8.")]


def test_several_cut_outputs_are_restored_at_once_and_an_edit_beside_them_is_not() -> None:
    long = [{"role": "tool", "content": f"{number} " + "x" * 90} for number in range(2)]
    cut = [{"role": "tool", "content": f"{number} xxx [cleared]"} for number in range(2)]
    earlier = Turn(messages=[_user("go"), *long, _user("and")])
    later = Turn(messages=[_user("go"), *cut, _user("or"), _said("Done.")])
    found = _found(earlier, later)
    assert found.kind == "truncated_tool_output"
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.messages == [_user("go"), *long, _user("or"), _said("Done.")]


def test_a_short_change_of_a_tool_output_is_no_cut() -> None:
    one, other = ({"role": "tool", "content": f"temp {value} degrees"} for value in ("21", "9"))
    assert _kind([_user("go"), one, _user("and")], [_user("go"), other, _user("and")]) == "edited_history"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-28", "2026-11-29"),
        ("2026-11-28T23:59:50Z", "2026-11-29T00:00:10+00:00"),
        ("Saturday, Nov 28, 2026 9:05 PM", "Sunday, Nov 29, 2026 10:15 AM"),
        ("28 November 2026", "1 December 2026"),
        ("1795910390", "1795910410.25"),
        ("2026年11月28日", "2026年12月1日"),
        ("09:15", "09:16:30"),
    ],
)
def test_clock_values_of_many_forms(one: str, other: str) -> None:
    earlier, later = (
        Turn(messages=[SYSTEM, _user(f"(sent {value}) Hello"), _said("Hi"), _user("?")])
        for value in (one, other)
    )
    found = _found(earlier, later)
    assert found.kind == "restamped_history"
    assert rebuilt(earlier, later, found) == earlier


def test_a_number_is_no_clock() -> None:
    assert (
        _kind([SYSTEM, _user("order 17959"), _said("y")], [SYSTEM, _user("order 17960"), _said("y")])
        == "edited_history"
    )


def test_two_drifts_of_form_at_once_are_told_in_one_sentence() -> None:
    earlier = Turn(messages=[SYSTEM, _user("one\ntwo"), _said("ok")])
    later = Turn(messages=[SYSTEM, _user("one  \r\ntwo"), _said("ok")])
    assert _found(earlier, later).detail == "The texts differ only in line ends and trailing blanks."


def test_salts_and_adapters_come_before_all_else() -> None:
    earlier = Turn(messages=ROUNDS, cache_salt="a")
    later = Turn(messages=[*ROUNDS, *NEXT], cache_salt="b")
    found = _found(earlier, later)
    assert (found.kind, found.place) == ("salt", "request")
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.cache_salt == "a"
    assert parted(Turn(messages=ROUNDS, cache_salt=""), Turn(messages=ROUNDS)) is None
    adapters = Turn(messages=ROUNDS, lora="x"), Turn(messages=ROUNDS)
    assert _found(*adapters).kind == "adapter"
    assert rebuilt(*adapters, _found(*adapters)) is None
    unrelated = Turn(messages=[_user("nothing in common")], cache_salt="b")
    assert parted(earlier, unrelated) is None


@pytest.mark.parametrize("mark", ["<s>", "<|begin_of_text|>", "<｜begin▁of▁sentence｜>"])
def test_two_bos_in_the_text(mark: str) -> None:
    assert starts_with_two_bos(mark * 2 + "Hi")
    assert not starts_with_two_bos(mark + "Hi" + mark)
    earlier, later = Turn(prompt=mark + "Hello"), Turn(prompt=mark * 2 + "Hello there")
    found = _found(earlier, later)
    assert found.kind == "double_bos"
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.prompt == mark + "Hello there"


HEAD = "<|im_start|>user\n91?<|im_end|>\n<|im_start|>assistant\n"
TAIL = "<|im_end|>\n<|im_start|>user\n97?<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("live", "output", "kept", "kind", "mended"),
    [
        # A template that opens the thought itself, and a history without it.
        (
            "<think>\n",
            "7 x 13\n</think>\n\nNo.",
            "No.",
            "reasoning_stripped",
            "<think>\n7 x 13\n</think>\n\nNo.",
        ),
        ("<think>\n", None, "No.", "template_not_append_only", "<think>\nNo."),
        # A line break of the template stands where the thought stood.
        (
            "",
            "<think>\n7 x 13\n</think>\n\nNo.",
            "\nNo.",
            "reasoning_stripped",
            "<think>\n7 x 13\n</think>\n\nNo.",
        ),
        # A template that writes the empty thought into the history only.
        ("", "No.", "<think>\n\n</think>\n\nNo.", "template_not_append_only", "No."),
        ("", "No. ", "No.", "trailing_blanks", "No. "),
        ("", "No, it is not.", "No, never.", "edited_answer", None),
        ("", "No.", "No.", None, None),
        ("", "No.", "\n\nNo.", None, None),  # logs trim what the model began with
        ("", "\n\nNo.", "No.", "whitespace", "\n\nNo."),
    ],
)
def test_answers_in_rendered_prompts(
    live: str, output: str | None, kept: str, kind: str | None, mended: str | None
) -> None:
    earlier, later = Turn(prompt=HEAD + live, output=output), Turn(prompt=HEAD + kept + TAIL + live)
    found = parted(earlier, later)
    assert (found and found.kind) == kind
    if found is not None:
        fixed = rebuilt(earlier, later, found)
        assert (fixed and fixed.prompt) == (None if mended is None else HEAD + mended + TAIL + live)


def test_a_template_that_ends_the_last_message_otherwise() -> None:
    # As in a published template of gpt-oss: a line break in front of the generation prompt only.
    question, answer = (
        "<|start|>user<|message|>91?<|end|>",
        "<|start|>assistant<|channel|>final<|message|>No.<|end|>",
    )
    more = "<|start|>user<|message|>97?<|end|>\n<|start|>assistant"
    earlier, later = Turn(prompt=question + "\n<|start|>assistant"), Turn(prompt=question + answer + more)
    found = _found(earlier, later)
    assert (found.kind, found.position) == ("template_not_append_only", len(question))
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.prompt == question + "\n" + answer + more


def test_reasoning_in_a_channel_of_its_own() -> None:
    head = "<|start|>user<|message|>91?<|end|><|start|>assistant"
    said = "<|channel|>final<|message|>No."
    thought = "<|channel|>analysis<|message|>7 x 13<|end|><|start|>assistant"
    tail = "<|end|><|start|>user<|message|>97?<|end|><|start|>assistant"
    earlier = Turn(prompt=head, output=thought + said + "<|return|>")
    found = _found(earlier, Turn(prompt=head + said + tail))
    assert found.kind == "reasoning_stripped"
    fixed = rebuilt(earlier, Turn(prompt=head + said + tail), found)
    assert fixed is not None
    assert fixed.prompt == head + thought + said + tail


def test_plain_text_that_goes_on_behind_a_change() -> None:
    earlier = Turn(prompt="Log of 09:15\nUser: Hi\nBot:", output=" Hello, what is it?")
    later = Turn(prompt="Log of 09:16\nUser: Hi\nBot: Hello, what is it?\nUser: Bye\nBot:")
    found = _found(earlier, later)
    assert (found.kind, found.position) == ("restamped_history", len("Log of 09:1"))
    fixed = rebuilt(earlier, later, found)
    assert fixed is not None
    assert fixed.prompt == "Log of 09:15\nUser: Hi\nBot: Hello, what is it?\nUser: Bye\nBot:"


def test_plain_texts_with_one_template_are_no_conversation() -> None:
    assert parted(Turn(prompt="Translate: one", output="eins"), Turn(prompt="Translate: two")) is None


def test_the_ids_judge_and_the_messages_explain() -> None:
    swapped = [*HISTORY[:2], _call('{"unit": "c", "city": "Oslo"}'), HISTORY[3]]
    # The engine saw no difference: there is none.
    assert parted(Turn(HISTORY, token_ids=[1, 2, 3]), Turn(swapped, token_ids=[1, 2, 3, 4])) is None
    assert (
        _found(Turn(HISTORY, token_ids=[1, 2, 3]), Turn(swapped, token_ids=[1, 9, 3, 4])).kind
        == "json_key_order"
    )


def test_equal_texts_with_other_ids_are_encoded_anew() -> None:
    earlier = Turn(prompt="ab", output="cd", token_ids=[1, 2], output_ids=[3, 4, 9])
    later = Turn(prompt="abcd!", token_ids=[1, 2, 5, 6, 7])
    found = _found(earlier, later)
    assert (found.kind, found.position) == ("retokenised_history", 2)
    assert found.detail.startswith("The text is the same")


@pytest.mark.parametrize(
    ("output", "history", "kind", "fixed"),
    [
        ([50, 19, 19, 51, 52], [50, 27, 51, 52], "retokenised_history", [50, 19, 19, 51, 52]),
        ([50, 19, 51, 52], [50, 27, 51, 52], "edited_history", None),  # a token for a token is another word
        ([50, 19, 19, 51], [50, 51], "edited_history", None),
        ([50, 51, 2], [50, 51, 3], None, None),  # the last id was never stored
    ],
)
def test_generated_ids(
    output: list[int], history: list[int], kind: str | None, fixed: list[int] | None
) -> None:
    prompt, question = list(range(100, 112)), [90, 91, 92, 93]
    earlier, later = Turn(token_ids=prompt, output_ids=output), Turn(token_ids=prompt + history + question)
    found = parted(earlier, later)
    assert (found and found.kind) == kind
    if found is not None:
        turn = rebuilt(earlier, later, found)
        assert (turn and turn.token_ids) == (fixed and prompt + fixed + question)


def test_nothing_is_changed_in_place() -> None:
    earlier, later = Turn(messages=ROUNDS), Turn(messages=[SYSTEM, *ROUNDS[3:], *NEXT])
    before = copy.deepcopy((earlier, later))
    rebuilt(earlier, later, _found(earlier, later))
    assert (earlier, later) == before
