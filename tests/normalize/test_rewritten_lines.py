"""Lines rewritten in place: what is written byte for byte, worked out by hand, and that it gives the logged line back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.fields import Gap, SectionTemplate
from kvtools.fields.catalogue import Kind
from kvtools.normalize import Moves, Rewriting
from kvtools.normalize.lines import Kept, LineRewriter, NewLine
from kvtools.normalize.modes import Canonical
from kvtools.normalize.places import places_in
from kvtools.normalize.splicing import restored

TIME = Gap("time", Kind("time", "second"), "field", 0)
EXAMPLES = Gap("examples", Kind("text", None), "section", 1)
NOW = SectionTemplate("system", ("Now: ", "\nYou help."), (TIME,))
REWRITER = LineRewriter(Rewriting((Moves(NOW, (0,)),)), "chat-jsonl")


def rewritten(line: bytes, rewriter: LineRewriter = REWRITER) -> NewLine:
    new = rewriter.rewrite(line)
    assert isinstance(new, NewLine)
    assert restored(new.data, new.pieces) == line
    return new


def test_only_the_string_that_changes_is_replaced() -> None:
    line = (
        b'{ "temperature":1.0, "seed":12345678901234567890,"messages":[{"content":"Now: 10:41\\nYou help.","role":'
        b'"system"} ,{"role":"user","content":"Now: 10:41\\nYou help."}],"x":1e400 }'
    )
    new = rewritten(line)
    assert new.data == line.replace(
        b'"Now: 10:41\\nYou help.","role"', b'"Now: [time]\\nYou help.\\n\\n[time]: 10:41","role"', 1
    )
    # The value is taken from behind, everything else from where it stands: no text of its own is needed.
    assert all(not isinstance(piece, str) for piece in new.pieces)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_the_escapes_of_the_log_are_kept(ascii_only: bool) -> None:
    template = SectionTemplate("prompt", ("用户[ID:", ']咨询 😀 "订单"'), (TIME,))
    rewriter = LineRewriter(Rewriting((Moves(template, (0,)),)), "chat-jsonl")
    record = {"prompt": '用户[ID:é\t七]咨询 😀 "订单"'}
    line = json.dumps(record, ensure_ascii=ascii_only).encode()
    new = rewritten(line, rewriter)
    wanted = {"prompt": '用户[ID:[time]]咨询 😀 "订单"\n\n[time]: é\t七'}
    assert new.data == json.dumps(wanted, ensure_ascii=ascii_only).encode()
    assert all(not isinstance(piece, str) for piece in new.pieces)


def test_a_string_with_escapes_of_its_own_is_kept_beside() -> None:
    line = b'{"messages":[{"role":"system","content":"Now: 1\\/2\\nYou help."}]}'
    new = rewritten(line)
    assert json.loads(new.data)["messages"][0]["content"] == "Now: [time]\nYou help.\n\n[time]: 1/2"
    assert '"Now: 1\\/2\\nYou help."' in new.pieces


def test_values_may_go_behind_the_last_user_message() -> None:
    rewriter = LineRewriter(Rewriting((Moves(NOW, (0,)),)), "chat-jsonl", "prompt-end")
    line = (
        b'{"messages":[{"role":"system","content":"Now: 10:41\\nYou help."},{"role":"user","content":"a"},'
        b'{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}'
    )
    new = rewritten(line, rewriter)
    messages = json.loads(new.data)["messages"]
    assert [message["content"] for message in messages] == [
        "Now: [time]\nYou help.",
        "a",
        "b",
        "c\n\n[time]: 10:41",
    ]
    assert rewriter.rewrite(new.data) == Kept()


def test_a_second_pass_changes_nothing() -> None:
    line = b'{"messages":[{"role":"system","content":"Now: 10:41\\nYou help."}]}'
    assert REWRITER.rewrite(rewritten(line).data) == Kept()


@pytest.mark.parametrize(
    ("line", "reasons"),
    [
        (b'{"messages":[{"role":"system","content":"Now: [time] 1\\nYou help."}]}', ("placeholder_in_text",)),
        (b'{"messages":[{"role":"system","content":"Now: ' + b"x" * 600 + b'\\nYou help."}]}', ("value_too_long",)),
        (b'{"messages":[{"role":"system","content":"You help."}]}', ()),
        (b'{"messages":[{"role":"system","content":"Now: \\ud800\\nYou help."}]}', ("not_this_format",)),
        (b'{"messages":[{"role":"system","content":"Now: 1', ("not_this_format",)),
        (b"[" * 10_000, ("not_this_format",)),
    ],
)  # fmt: skip
def test_what_cannot_be_moved_stays_and_says_why(line: bytes, reasons: tuple[str, ...]) -> None:
    assert REWRITER.rewrite(line) == Kept(reasons)


def test_lines_that_another_message_refers_to_stay() -> None:
    template = SectionTemplate("system", ("You help.\n", "Be brief."), (EXAMPLES,))
    rewriter = LineRewriter(Rewriting((Moves(template, (0,)),)), "chat-jsonl")

    def asked(question: str) -> bytes:
        system = "You help.\nShipping\nReturn policy\nBe brief."
        return json.dumps(
            {"messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}
        ).encode()

    assert rewriter.rewrite(asked("Summarise document 2.")) == Kept(("refers_to_place",))
    new = rewritten(asked("How long is shipping?"), rewriter)
    assert json.loads(new.data)["messages"][0]["content"] == (
        "You help.\n[examples]\nBe brief.\n\n[examples]:\nShipping\nReturn policy\n"
    )


def test_the_places_of_each_format() -> None:
    body = b'{"messages":[{"role":"developer","content":[{"type":"text","text":"a"}]},{"role":"tool","content":"b"}]}'
    for log_format, line in {
        "chat-jsonl": body,
        "openai-batch": b'{"custom_id":"1","body":' + body + b"}",
        "exchange": b'{"request":{"body":' + body + b'},"response":{}}',
    }.items():
        places = places_in(line, log_format)
        assert places is not None
        assert [(place.role, place.text, line[slice(*place.span())]) for place in places.texts] == [
            ("system", "a", b'"a"'), ("tool", "b", b'"b"'),
        ]  # fmt: skip
        assert places.requests == 1
    talk = b'{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"},{"from":"gpt","value":"c"}]}'
    places = places_in(talk, "conversation")
    assert places is not None
    assert ([place.text for place in places.texts], places.requests) == (["a"], 2)
    several = places_in(b'{"prompt":["a","b"]}', "chat-jsonl")
    assert several is not None
    assert ([place.text for place in several.texts], several.requests) == (["a", "b"], 2)


def test_tools_and_arguments_take_one_form() -> None:
    rewriter = LineRewriter(Canonical(()), "chat-jsonl", "message", tool_order=True, argument_keys=True)
    line = (
        b'{"tools":[{"type":"function","function":{"name":"b"}}, {"type":"function","function":{"name":"a"}}],'
        b'"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":"{\\"y\\": 1.0, \\"x\\": 2}"}}]}]}'
    )
    new = json.loads(rewritten(line, rewriter).data)
    assert [tool["function"]["name"] for tool in new["tools"]] == ["a", "b"]
    assert list(json.loads(new["messages"][0]["tool_calls"][0]["function"]["arguments"])) == ["x", "y"]


TEXTS = st.text(
    alphabet='ab {}%#`"\\/\r\n\t[]:\u00e9\u0301\u4e2d\U0001f600\u05e9\u2028\x00<\u0338', max_size=30
)


@given(value=TEXTS, before=TEXTS, behind=TEXTS, ascii_only=st.booleans(), prompt_end=st.booleans())
def test_every_rewrite_gives_the_logged_line_back(
    value: str, before: str, behind: str, ascii_only: bool, prompt_end: bool
) -> None:
    template = SectionTemplate("system", (before, behind), (TIME,))
    rewriter = LineRewriter(
        Rewriting((Moves(template, (0,)),)), "chat-jsonl", "prompt-end" if prompt_end else "message"
    )
    record = {
        "messages": [
            {"role": "system", "content": before + value + behind},
            {"role": "user", "content": behind},
        ]
    }
    line = json.dumps(record, ensure_ascii=ascii_only).encode()
    new = rewriter.rewrite(line)
    if isinstance(new, NewLine):
        assert restored(new.data, new.pieces) == line
        messages = json.loads(new.data)["messages"]
        assert [message["role"] for message in messages] == ["system", "user"]
        assert any(value in message["content"] for message in messages)
        assert isinstance(rewriter.rewrite(new.data), Kept)
    else:
        # Nothing to move, or a placeholder that the text has of its own.
        assert not before + value + behind or "[time" in before + value + behind or new.reasons == ()
