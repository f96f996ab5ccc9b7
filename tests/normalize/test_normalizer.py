"""The normalizer of a service: what it does to requests, worked out by hand, and that all of it can be taken back."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools import Normalizer
from kvtools.errors import InputError
from kvtools.fields.catalogue import Kind
from kvtools.fields.template import Gap, SectionTemplate
from kvtools.normalize.hoist import Moves
from kvtools.normalize.lines import LineRewriter, NewLine
from kvtools.normalize.manifest import TemplateFile, write_templates
from kvtools.normalize.rewriting import Rewriting

if TYPE_CHECKING:
    from pathlib import Path

TIME = Gap("time", Kind("time", "second"), "field", 0)
USER = Gap("user_id", Kind("user_id"), "field", 1)
TEXT = Gap("text", Kind("text"), "text", 2)
EXAMPLES = Gap("examples", Kind("text"), "section", 3)
FILES = [
    TemplateFile("shop", Moves(SectionTemplate("system", ("Now: ", "\nYou help ", "."), (TIME, USER)), (0, 1))),
    TemplateFile("few", Moves(SectionTemplate("system", ("You sort.\n", "Be brief."), (EXAMPLES,)), (0,))),
    TemplateFile("fixed", Moves(SectionTemplate("user", ("Question: ", ""), (TEXT,)), ())),
    TemplateFile("order", Moves(SectionTemplate("user", ("Order of ", ": ", ""), (USER, TEXT)), (0,))),
    TemplateFile("flat", Moves(SectionTemplate("prompt", ("At ", " say "," to ", "."), (TIME, TEXT, TIME)), (0, 2))),
]  # fmt: skip
NORMALIZER = Normalizer(FILES)


def chat(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in turns]


def test_values_move_to_the_end_of_their_messages() -> None:
    parts = [
        {"type": "text", "text": "Order of u_1: where?"},
        {"type": "image_url", "image_url": {"url": "x"}},
    ]
    messages = chat(
        ("developer", "Now: 10:41\nYou help u_1."), ("assistant", "Order of u_1: hi"), ("user", parts)
    )
    messages[0]["name"] = "shop"
    before = copy.deepcopy(messages)
    sent, values = NORMALIZER.normalize(messages)
    assert messages == before
    assert sent == [
        {
            "role": "developer",
            "content": "Now: [time]\nYou help [user_id].\n\n[time]: 10:41\n[user_id]: u_1",
            "name": "shop",
        },
        before[1],
        {
            "role": "user",
            "content": [{"type": "text", "text": "Order of [user_id]: where?\n\n[user_id]: u_1"}, parts[1]],
        },
    ]
    assert values == [
        {"message": 0, "template": "shop", "values": {"time": "10:41", "user_id": "u_1"}},
        {"message": 2, "template": "order", "values": {"user_id": "u_1", "text": "where?"}},
    ]
    answered = [*sent, {"role": "assistant", "content": "Soon."}]
    assert NORMALIZER.restore(answered, json.loads(json.dumps(values))) == [*before, answered[-1]]
    assert answered[:-1] == sent


def test_a_flat_prompt_with_one_value_twice() -> None:
    sent, values = NORMALIZER.prompt("At 10:41 say hi to 10:41.")
    assert sent == "At [time] say hi to [time].\n\n[time]: 10:41"
    assert NORMALIZER.restore_prompt(sent, values) == "At 10:41 say hi to 10:41."
    assert NORMALIZER.prompt("At 10:41 say hi to 10:42.") == ("At 10:41 say hi to 10:42.", [])


def test_half_of_a_surrogate_pair_elsewhere_stays_and_stops_nothing() -> None:
    """It refers to no line; who can send it may."""
    sent, values = NORMALIZER.normalize(
        chat(("system", "You sort.\n1: a\n2: b\nBe brief."), ("user", "\ud800"))
    )
    moved = "You sort.\n[examples]\nBe brief.\n\n[examples]:\n1: a\n2: b\n"
    assert sent == chat(("system", moved), ("user", "\ud800"))
    [told] = values
    assert (told["message"], told["values"]) == (0, {"examples": "1: a\n2: b\n"})


@pytest.mark.parametrize(
    "messages",
    [
        [],
        chat(("user", "Question: why?")),
        chat(("system", "something else"), ("tool", "Now: 1\nYou help 2.")),
        chat(("system", "Now: [time]\nYou help u_1."), ("system", "Now: 1\nYou help [user_id] and [time].")),
        chat(("system", None), ("system", ""), ("system", [{"type": "text"}]), ("system", 7)),
        [None, 7, "text", {}, {"role": None}, {"content": "Now: 1\nYou help 2."}],
        chat(("system", "You sort.\n1: a\n2: b\nBe brief."), ("user", "What does example 2 say?")),
    ],
    ids=["empty", "text", "unfit", "placeholder", "no-text", "no-messages", "refers"],
)
def test_where_nothing_fits_the_same_list_comes_back(messages: list[Any]) -> None:
    sent, values = NORMALIZER.normalize(messages)
    assert sent is messages
    assert values == []
    assert NORMALIZER.restore(messages, values) == messages


def test_lines_stay_where_another_message_names_one_of_them() -> None:
    examples = ("system", "You sort.\n1: a\n2: b\nBe brief.")
    sent, values = NORMALIZER.normalize(chat(examples, ("user", "Order of u_1: as in example 2")))
    assert sent == chat(examples, ("user", "Order of [user_id]: as in example 2\n\n[user_id]: u_1"))
    assert [value["message"] for value in values] == [1]
    sent, _ = NORMALIZER.normalize(chat(examples, ("user", "hi")))
    assert sent[0]["content"] == "You sort.\n[examples]\nBe brief.\n\n[examples]:\n1: a\n2: b\n"


WORDS = st.sampled_from(
    [
        "Now: ",
        "\nYou help ",
        ".",
        "Order of ",
        ": ",
        "You sort.\n",
        "Be brief.",
        "[time]",
        "example 2",
        "\n",
        "订单",
    ]
)
CONTENT = st.one_of(
    st.lists(WORDS, max_size=8).map("".join),
    st.builds("Now: {}\nYou help {}.".format, st.text(max_size=6), st.text(max_size=6)),
    st.builds("Order of {}: {}".format, st.text(max_size=6), st.text(max_size=6)),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant", "tool"]), CONTENT), max_size=5))
def test_it_does_what_the_command_does_and_takes_it_back(turns: list[tuple[str, str]]) -> None:
    messages = chat(*turns)
    sent, values = NORMALIZER.normalize(messages)
    assert NORMALIZER.restore(sent, json.loads(json.dumps(values))) == messages
    assert NORMALIZER.normalize(sent) == (sent, [])
    rewriting = Rewriting([one.moves for one in FILES if one.moves.gaps])
    line = LineRewriter(rewriting, "chat-jsonl").rewrite(json.dumps({"messages": messages}).encode())
    assert sent == (json.loads(line.data)["messages"] if isinstance(line, NewLine) else messages)


DAMAGE: dict[str, dict[str, Any]] = {
    "place": {"message": 5},
    "no-place": {"message": None},
    "negative": {"message": -1},
    "template": {"template": "other"},
    "no-template": {"template": None},
    "value": {"values": {"time": "10:42", "user_id": "u_1"}},
    "missing": {"values": {"time": "10:41"}},
    "number": {"values": {"time": 10, "user_id": "u_1"}},
    "no-values": {"values": None},
    "other-message": {"message": 1},
    "no-text": {"message": 2},
}


@pytest.mark.parametrize("key", DAMAGE)
def test_values_of_another_request_restore_nothing(key: str) -> None:
    messages = chat(("system", "Now: 10:41\nYou help u_1."), ("user", "hi"), ("assistant", None))
    sent, (entry,) = NORMALIZER.normalize(messages)
    with pytest.raises(InputError, match=r"^values (for message|of template) .*\.$"):
        NORMALIZER.restore(sent, [{**entry, **DAMAGE[key]}])
    if "message" not in DAMAGE[key]:
        with pytest.raises(InputError):
            NORMALIZER.restore_prompt(sent[0]["content"], [{**entry, **DAMAGE[key]}])


def test_a_rewriting_that_would_change_again_is_left() -> None:
    """Two templates that take turns: what the first makes, the second would rewrite."""
    first = SectionTemplate("system", ("a ", " b"), (TIME,))
    second = SectionTemplate("system", ("a ", "b\n\n[time]: ", ""), (TEXT, USER))
    both = Normalizer([TemplateFile("1", Moves(first, (0,))), TemplateFile("2", Moves(second, (1,)))])
    alone = Normalizer([TemplateFile("1", Moves(first, (0,)))])
    messages = chat(("system", "a 1 b"))
    assert alone.normalize(messages)[0] == chat(("system", "a [time] b\n\n[time]: 1"))
    assert both.normalize(messages) == (messages, [])


def test_it_is_loaded_from_a_folder(tmp_path: Path) -> None:
    write_templates(tmp_path, FILES)
    loaded = Normalizer.load(str(tmp_path))
    messages = chat(("system", "Now: 10:41\nYou help u_1."), ("user", "Order of u_1: {{ x }}\r\n"))
    assert loaded.normalize(messages) == NORMALIZER.normalize(messages)
    with pytest.raises(InputError, match="no such folder"):
        Normalizer.load(tmp_path / "none")


def test_a_service_loads_nothing_heavy(tmp_path: Path) -> None:
    write_templates(tmp_path, FILES)
    program = (
        "import sys\nfrom kvtools import Normalizer\n"
        "out, values = Normalizer.load(sys.argv[1]).normalize([\n"
        "    {'role': 'system', 'content': 'You sort.\\n1: a\\nBe brief.'}, {'role': 'user', 'content': 'hi'}])\n"
        "assert values\nprint(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    )
    heavy = {"pandas", "numpy", "pyarrow", "numba", "tokenizers", "rich", "click", "asyncio"}
    assert not heavy & set(done.stdout.split())


def test_the_package_has_no_other_names() -> None:
    import kvtools

    with pytest.raises(AttributeError, match="no attribute 'Normaliser'"):
        _ = kvtools.Normaliser
