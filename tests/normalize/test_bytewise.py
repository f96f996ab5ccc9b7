"""A template matched on bytes finds what it finds in the text, or leaves the decision to it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtools.fields import Gap, SectionTemplate
from kvtools.fields.catalogue import Kind
from kvtools.normalize import Moves, Rewriting
from kvtools.normalize.bytewise import ByteMoves, byte_moves, fits, tried
from kvtools.normalize.splicing import restored
from kvtools.normalize.swaps import written

TEXT = Kind("text", None)
PLACES = st.text(alphabet='an\\u/"\n\t[]: \u4e2d\x7f', max_size=6)


def gaps(*names: str, shape: str = "field") -> tuple[Gap, ...]:
    return tuple(Gap(name, TEXT, shape, number) for number, name in enumerate(names))  # type: ignore[arg-type]


def moves(literals: tuple[str, ...], names: tuple[str, ...]) -> Moves:
    return Moves(SectionTemplate("system", literals, gaps(*names)), tuple(range(len(names))))


NOW = moves(("Now: ", "\nYou help."), ("time",))


def test_what_is_written_and_what_it_says() -> None:
    done = ByteMoves(NOW).rewritten(b'"Now: 10:41\\nYou help."')
    assert done is not None
    text, one, data, back = done
    assert text == one.formed == "Now: 10:41\nYou help."
    assert data == b'"Now: [time]\\nYou help.\\n\\n[time]: 10:41"'
    # The quote and `Now: `; the value behind `[time]: `; from the line end to the full stop; the quote.
    assert back == ((0, 6), (35, 40), (12, 23), (40, 41))


@pytest.mark.parametrize(
    "raw",
    [
        b'"Now: 1\\/2\\nYou help."',  # the log escapes what it need not
        b'"Now: [time]\\nYou help."',  # done already
        b'"Now: \\\\nYou help."',  # a backslash and an n, no line end
        b'"Now:\\nYou help."',
        b'"Now: \\nYou help.',
        b'"You help."',
    ],
)
def test_what_the_bytes_do_not_tell_is_left_to_the_text(raw: bytes) -> None:
    assert ByteMoves(NOW).rewritten(raw) is None


def test_the_first_template_that_fits_the_text_is_taken() -> None:
    """The bytes of the first do not stand there, but its text does: ``\\/`` says ``/``."""
    first, second = moves(("a/", "!"), ("x",)), moves(("a", "!"), ("y",))
    every = [ByteMoves(first), ByteMoves(second)]
    done = tried(every, b'"a-1!"')
    assert done is not None
    assert done[1].moves is second
    assert tried(every, b'"a\\/1!"') is None
    assert tried(every, b'"b"') is None


def test_templates_that_need_the_text() -> None:
    lines = SectionTemplate("system", ("a", "b", "c"), (*gaps("lines", shape="section"), *gaps("x")))
    twice = SectionTemplate("system", ("a", "b", "c"), gaps("x", "x"))
    assert [fits(Moves(one, (0, 1))) for one in (lines, twice)] == [False, False]
    assert [len(every) for every in byte_moves(Rewriting((NOW, Moves(lines, (0,)), NOW))).values()] == [1]
    assert byte_moves(Rewriting((Moves(lines, (0,)), NOW))) == {}


@given(
    literals=st.tuples(PLACES, PLACES, PLACES),
    values=st.tuples(PLACES, PLACES),
    moved=st.sampled_from([(0,), (1,), (0, 1)]),
    ascii_only=st.booleans(),
)
def test_bytes_and_text_agree(
    literals: tuple[str, str, str], values: tuple[str, str], moved: tuple[int, ...], ascii_only: bool
) -> None:
    template = SectionTemplate("system", literals, gaps("x", "y"))
    text = template.render(values)
    raw = json.dumps(text, ensure_ascii=ascii_only).encode()
    one = Rewriting((Moves(template, moved),)).rewritten("system", text)
    done = ByteMoves(Moves(template, moved)).rewritten(raw)
    if done is not None:
        assert done[:2] == (text, one)
        assert done[2:] == written(raw, text, one)
        assert restored(done[2], done[3]) == raw
