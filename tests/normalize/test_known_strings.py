"""What is known of a string holds for the same bytes alone, and what fails a check is not written."""

from __future__ import annotations

import json

import pytest

from kvtools.fields import Gap, SectionTemplate
from kvtools.fields.catalogue import Kind
from kvtools.normalize import Moves, Rewriting
from kvtools.normalize import strings as known_strings
from kvtools.normalize.lines import Kept, LineRewriter, NewLine
from kvtools.normalize.rewriting import Rewritten
from kvtools.normalize.splicing import restored

NOW = SectionTemplate("system", ("Now: ", "\nYou help."), (Gap("time", Kind("time", "second"), "field", 0),))
MOVES = Moves(NOW, (0,))


def line(*contents: str, role: str = "system") -> bytes:
    return json.dumps({"messages": [{"role": role, "content": content} for content in contents]}).encode()


class Doubling:
    """Never done: each pass says the text twice."""

    roles = None

    def rewritten(self, role: str, text: str) -> Rewritten:  # noqa: ARG002 - as the protocol has it
        return Rewritten(text + text)


class Counting(Rewriting):
    """Counts the texts that it is asked about."""

    asked = 0

    def rewritten(self, role: str, text: str) -> Rewritten:
        self.asked += 1
        return super().rewritten(role, text)


def test_what_is_not_stable_stays() -> None:
    rewriter = LineRewriter(Doubling(), "chat-jsonl")
    for _ in range(2):
        assert rewriter.rewrite(line("a")) == Kept(("not_stable",))
    assert rewriter.rewrite(line("a", "b")) == Kept(("not_stable",))


def test_values_behind_the_prompt_are_tried_a_second_time() -> None:
    """What the user message becomes, ``Q: hi`` + values, is made from the second template: it would change again."""
    question = SectionTemplate(
        "user", ("Q: ", "\n\n[time]: 1"), (Gap("question", Kind("text", None), "field", 0),)
    )
    rewriter = LineRewriter(Rewriting((MOVES, Moves(question, (0,)))), "chat-jsonl", "prompt-end")
    messages = [{"role": "system", "content": "Now: 1\nYou help."}, {"role": "user", "content": "Q: hi"}]
    assert rewriter.rewrite(json.dumps({"messages": messages}).encode()) == Kept(("not_stable",))


def test_a_string_is_looked_at_once_with_its_second_pass() -> None:
    rewriting = Counting((MOVES,))
    rewriter = LineRewriter(rewriting, "chat-jsonl")
    for _ in range(3):
        assert isinstance(rewriter.rewrite(line("Now: 1\nYou help.")), NewLine)
        assert rewriter.rewrite(line("You help.")) == Kept()
        assert rewriter.rewrite(line("Now: 1\nYou help.", role="user")) == Kept()
    # What the text becomes that moves (itself it is matched on its bytes), and the one that stays; none is for users.
    assert rewriting.asked == 2


def test_what_was_not_seen_of_late_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each string has 20 bytes, a half holds two: after four others the first is worked out anew."""
    monkeypatch.setattr(known_strings, "MEMO_BYTES", 40)
    rewriting = Counting((MOVES,))
    rewriter = LineRewriter(rewriting, "chat-jsonl")
    for name, asked in [("a", 1), ("b", 2), ("a", 2), ("c", 3), ("d", 4), ("e", 5), ("a", 6)]:
        rewriter.rewrite(line(name * 18))
        assert rewriting.asked == asked, name


@pytest.mark.parametrize("escaped", [b"You help\\/serve.", b"You \\u0068elp/serve."])
def test_escapes_of_the_log_stay_where_they_stand(escaped: bytes) -> None:
    template = SectionTemplate("system", ("Now: ", "\nYou help/serve."), NOW.gaps)
    logged = b'{"messages":[{"role":"system","content":"Now: 10:41\\n' + escaped + b'"}]}'
    new = LineRewriter(Rewriting((Moves(template, (0,)),)), "chat-jsonl").rewrite(logged)
    assert isinstance(new, NewLine)
    assert new.data == (
        b'{"messages":[{"role":"system","content":"Now: [time]\\n' + escaped + b'\\n\\n[time]: 10:41"}]}'
    )
    assert restored(new.data, new.pieces) == logged
    assert all(not isinstance(piece, str) for piece in new.pieces)


def test_several_strings_of_a_line_change_at_once() -> None:
    logged = line("Now: 1\nYou help.", "You help.", "Now: 22\nYou help.")
    new = LineRewriter(Rewriting((MOVES,)), "chat-jsonl").rewrite(logged)
    assert isinstance(new, NewLine)
    assert new.data == line(
        "Now: [time]\nYou help.\n\n[time]: 1", "You help.", "Now: [time]\nYou help.\n\n[time]: 22"
    )
    assert restored(new.data, new.pieces) == logged
    assert all(not isinstance(piece, str) for piece in new.pieces)


def test_messages_that_are_no_turns_are_looked_for_elsewhere() -> None:
    """``messages`` is a number here; the turns stand under another name."""
    logged = b'{"messages":7,"conversations":[{"from":"system","value":"Now: 1\\nYou help."}]}'
    new = LineRewriter(Rewriting((MOVES,)), "chat-jsonl").rewrite(logged)
    assert isinstance(new, NewLine)
    assert new.data == logged.replace(b"Now: 1\\nYou help.", b"Now: [time]\\nYou help.\\n\\n[time]: 1")
    assert LineRewriter(Rewriting((MOVES,)), "chat-jsonl").rewrite(
        b'{"messages":[{"role":"system","content":"Now: 1\\nYou help."},{"role":"user","content":[7]}]}'
    ) == Kept(("not_this_format",))
