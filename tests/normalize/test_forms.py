"""Byte forms: what each rule changes and what it must leave, worked out by hand; and that a second pass changes nothing."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvtools.normalize import FORMS, OneForm, one_form
from kvtools.normalize.forms import (
    TEXT_RULES,
    blank_lines,
    line_ends,
    no_break_spaces,
    trailing_blanks,
    unicode_form,
)
from kvtools.normalize.protected import code_spans, machine_spans, verbatim_spans
from kvtools.table import digest64

PIECES = (
    *("a", "e", " ", "  ", "    ", "\t", "\n", "\n\n\n", "\r\n", "\r", "\n    ", "\u00a0"),
    *("```", "\n```\n", "````", "~~~", "`", "> ", "- ", "1. ", "<pre>", "</pre>", "<code", "</CODE>"),
    *(
        "--- a\n+++ b\n",
        "\n@@ -1,2 +1,2 @@\n",
        "\n+x",
        "\n-y",
        "diff --git a b\n",
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
    ),
    *(
        "https://",
        "www.",
        "\u0301",
        "\u0338",
        "=",
        "<",
        "\u212a",
        "\u1fef",
        "\u037e",
        "\u0327",
        "\u1112\u1161\u11ab",
    ),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
NFD = "e\u0301"
NFC = "\u00e9"


def test_line_ends() -> None:
    assert line_ends("a\r\nb\rc\n\r\n") == "a\nb\nc\n\n"


def test_trailing_blanks() -> None:
    assert trailing_blanks("a \nb\t \n  \nc  d\n e") == "a\nb\n\nc  d\n e"
    assert trailing_blanks("a \r\nb \rc") == "a\r\nb\rc"


def test_blank_lines() -> None:
    assert blank_lines("a\n\n\nb\n\nc\n\n\n\n\nd\ne") == "a\n\nb\n\nc\n\nd\ne"
    assert blank_lines("\n\n\n\na") == "\n\na"


def test_no_break_spaces() -> None:
    assert no_break_spaces("5\u00a0km\u00a0\nto\u00a0go") == "5 km \nto go"
    assert no_break_spaces("\u00a0 \u00a0a") == "\u00a0 \u00a0a"
    assert no_break_spaces('say {"a": "\u00a0"} or `\u00a0`') == 'say {"a": "\u00a0"} or `\u00a0`'


@pytest.mark.parametrize("end", ["  ", "\n\n\n\n", " \n \n", "\t\n", "\u00a0", " \n\n\n "])
def test_the_end_of_the_text_stays(end: str) -> None:
    assert (
        one_form(f"a \n\n\nb{end}", ["no_break_spaces", "trailing_blanks", "blank_lines"]) == f"a\n\nb{end}"
    )


PROTECTED = [
    "```python\nx = 1  \n\n\n\ny \n```",
    "~~~\nx  \n```\n\n\n~~~",
    "````\nx \n```\n\n\ny \n````",
    "   ```\nx \n\n\ny\n  ```",
    "> ```\n> x \n> ```",
    "<pre>\nx \n\n\n\ny \n</pre>",
    '<PRE class="a">x \n\n\ny</PRE> tail',
    "<code>\nx \n\n\ny \n</code>",
    "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n x \n-y \n+z \n ",
    "diff --git a/f b/f\nnew file mode 1 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-y \n+z ",
]


@pytest.mark.parametrize("block", PROTECTED)
def test_a_protected_block_stays_to_the_byte(block: str) -> None:
    block = block.replace("x", f"x{NFD}\u00a0")
    for written in (block, block.replace("\n", "\r\n"), block.replace("\n", "\r")):
        text = f"Look: \r\n{written}\nDone: \r\n\r\n\r\nend"
        rules = tuple(TEXT_RULES)
        assert one_form(text, rules) == f"Look:\n{written}\nDone:\n\nend"


def test_a_fence_inside_a_list_stays_and_so_does_what_follows() -> None:
    """Its end could open a fence of its own: the list's depth decides, and we don't follow it."""
    text = "- ```\n  x \n\n\n  y\n  ```\nz \n\n\nw"
    assert one_form(text, tuple(TEXT_RULES)) == text


def test_empty_lines_behind_a_hunk_keep_their_number() -> None:
    """They may be context that lost its blank; their line ends lie outside of the diff."""
    text = "@@ -1,5 +1,5 @@\r-y\r+z\r\r\r\rend"
    assert one_form(text, tuple(TEXT_RULES)) == "@@ -1,5 +1,5 @@\r-y\r+z\n\n\n\nend"


@pytest.mark.parametrize("opening", ["```python", "~~~", "<pre>", "@@ -1,9 +1,9 @@"])
def test_what_is_open_runs_to_the_end(opening: str) -> None:
    text = f"{opening}\r\n a \r\n\r\n\r\n\r\n b \r\n c"
    assert one_form("x \n" + text, tuple(TEXT_RULES)) == "x\n" + text


def test_text_behind_a_closed_fence_is_text() -> None:
    assert one_form("```\nx \n```\na \n\n\nb", ["trailing_blanks", "blank_lines"]) == "```\nx \n```\na\n\nb"
    assert one_form("```\nx \n``` \r\na \r\nb") == "```\nx \n``` \na\nb"


def test_a_short_or_other_fence_closes_nothing() -> None:
    assert verbatim_spans("````\n```\n~~~~\n````\nx") == [(0, 18)]
    assert verbatim_spans("```a`b\nx") == []


def test_an_indented_line_keeps_its_inside_and_not_its_line_end() -> None:
    text = f"a \r\n    x {NFD} \r\n\r\n\r\n \r\n\ty \r\n\r\n\r\nb"
    assert one_form(text, ["line_ends", "trailing_blanks", "blank_lines", "unicode_form"]) == (
        f"a\n    x {NFD} \n\n\n \n\ty \n\nb"
    )


def test_a_rule_of_markdown_is_no_diff() -> None:
    assert code_spans("a\n---\nb\n--- c\nd") == []
    assert code_spans("a\n--- c\n+++ d\n-e\nf") == [(2, 16)]


def test_nfc_stays_out_of_code_json_and_urls() -> None:
    for kept in (
        f"`{NFD}`",
        f"``{NFD} ` {NFD}``",
        f'{{"{NFD}": ["}}", "{NFD}"]}}',
        f'["{NFD}"]',
        f"https://a.b/{NFD}?q={NFD}",
    ):
        assert unicode_form(f"{NFD} {kept} {NFD}") == f"{NFC} {kept} {NFC}"
    assert unicode_form(f'{NFD} {{"cut": "{NFD}') == f'{NFC} {{"cut": "{NFD}'
    assert (
        unicode_form(f"[{NFD}] ({NFD} `{NFD}\n\n`{NFD} {{ {NFD}")
        == f"[{NFC}] ({NFC} `{NFC}\n\n`{NFC} {{ {NFC}"
    )


def test_ascii_signs_neither_go_nor_come() -> None:
    text = "a <\u0338 b, =\u0338\u0301c, >\u0338"
    assert unicode_form(text + NFD) == text + NFC
    assert (
        unicode_form(f"\u037e \u1fef\u1fef\u1fef 5 \u212a {NFD}")
        == f"\u037e \u1fef\u1fef\u1fef 5 \u212a {NFC}"
    )


def test_the_signs_whose_nfc_is_ascii_are_those_that_are_named() -> None:
    found = [c for c in map(chr, range(128, sys.maxunicode + 1)) if unicodedata.normalize("NFC", c).isascii()]
    assert found == ["\u037e", "\u1fef", "\u212a"]


@given(text=st.text(st.characters(min_codepoint=0x80, exclude_characters="\u037e\u1fef\u212a"), max_size=30))
@example(text="\u0bc6\u0bbe \u09c7\u09be")
@example(text="\u1112\u1161\u11ab\ud800")
def test_beyond_ascii_it_is_all_of_nfc(text: str) -> None:
    """Two-part vowels of Indic scripts too, whose second part is no combining mark."""
    assert unicode_form(text) == unicodedata.normalize("NFC", text)


def test_blank_lines_are_asked_for_by_name() -> None:
    text = "a\n\n\nb\u00a0c"
    assert one_form(text) == text
    assert tuple(FORMS) == ("line_ends", "trailing_blanks", "unicode_form")
    form = OneForm("system", ("blank_lines",), frozenset({digest64("a\n\nb\u00a0c")}))
    assert form.apply(text) == "a\n\nb\u00a0c"
    assert form.apply("b" + text) == "b" + text


@pytest.mark.parametrize("rule", TEXT_RULES)
@given(text=TEXTS)
def test_a_second_pass_changes_nothing(rule: str, text: str) -> None:
    once = one_form(text, [rule])
    assert one_form(once, [rule]) == once


@given(text=TEXTS, rules=st.sets(st.sampled_from(tuple(TEXT_RULES))).map(sorted))
def test_a_second_pass_of_several_rules_changes_nothing(text: str, rules: list[str]) -> None:
    once = one_form(text, rules)
    assert one_form(once, rules) == once


@given(text=TEXTS)
def test_what_is_protected_stays_and_nothing_but_white_space_goes(text: str) -> None:
    blank = ["line_ends", "no_break_spaces", "trailing_blanks", "blank_lines"]
    once = one_form(text, blank)
    assert once.split() == text.split()
    assert [once[a:b] for a, b in verbatim_spans(once)] == [text[a:b] for a, b in verbatim_spans(text)]
    assert unicodedata.normalize("NFC", unicode_form(text)) == unicodedata.normalize("NFC", text)
    composed = unicode_form(text)
    assert [composed[a:b] for a, b in machine_spans(composed)] == [text[a:b] for a, b in machine_spans(text)]


@pytest.mark.parametrize(
    "text",
    [
        " " * 200_000 + "a\r\nb",
        "a" + " " * 200_000 + "b\r\nc",
        "[" * 100_000 + f"\r{NFD}",
        "{" * 20_000 + f"\r{NFD}",
        "`" * 100_000 + f" \r{NFD}",
        "`a``b" * 20_000 + f"\r{NFD}",
        "<pre></pre>" * 20_000 + f"\r{NFD}",
        "- " * 100_000 + f"```\r{NFD}",
        "x" * 200_000 + f"://\r{NFD}",
    ],
    ids=["blanks", "inner", "brackets", "braces", "ticks", "pairs", "tags", "lists", "scheme"],
)
def test_hostile_texts_end_soon(text: str) -> None:
    """Each takes well under a second; a rule that is quadratic would take minutes."""
    once = one_form(text, tuple(TEXT_RULES))
    assert once.rstrip()[-1] in {NFD[1], NFC, "b", "c"}
