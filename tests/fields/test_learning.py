"""Templates learned from texts: the stable text, and a gap for each value; worked out by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtools.fields import Learned, SectionSample, grouped, learn_group
from kvtools.fields.catalogue import Catalogue


def learned(texts: list[str], role: str = "prompt") -> list[Learned]:
    """Return the templates of some texts of one role."""
    sample = SectionSample()
    for text in texts:
        sample.offer(role, text, None)
    return [
        one
        for group in grouped(list(sample.texts.values()))
        for one in learn_group(group, Catalogue.bundled())
    ]


def only(texts: list[str]) -> Learned:
    found = learned(texts)
    assert len(found) == 1
    return found[0]


def test_a_time_on_the_first_line() -> None:
    template = only(
        [f"Current time: 2026-09-21T14:1{n}:53Z\nYou are the shop's assistant." for n in range(4)]
    ).template
    assert template.literals == ("Current time: ", "\nYou are the shop's assistant.")
    assert [(gap.name, gap.kind.granularity, gap.shape) for gap in template.gaps] == [
        ("time", "second", "field")
    ]


def test_neighbouring_lines_are_one_run() -> None:
    people = [("Ada", "u_100001", "en_US"), ("Ben Oda", "u_200002", "de_DE"), ("Cy", "u_300003", "en_US")]
    texts = [
        f"You help.\n\nRules first.\n\nCustomer: {name}\nuser_id: {user}\nlocale: {locale}\n\nRules last, be brief."
        for name, user, locale in people
    ]
    template = only(texts).template
    assert template.literals == (
        "You help.\n\nRules first.\n\nCustomer: ",
        "\nuser_id: ",
        "\nlocale: ",
        "\n\nRules last, be brief.",
    )
    assert [gap.name for gap in template.gaps] == ["name", "user_id", "locale"]
    assert len({gap.run for gap in template.gaps}) == 1


def test_lines_in_changing_order_are_one_block() -> None:
    examples = [f"Example {n}: Q: how far is {n}? A: {n} miles.\n" for n in range(4)]
    orders = [(0, 1, 2), (2, 0, 1), (1, 2, 0), (3, 0, 2), (1, 3, 0)]
    texts = [
        "You answer.\n" + "".join(examples[n] for n in order) + "Now answer in one line." for order in orders
    ]
    one = only(texts)
    assert one.template.literals == ("You answer.\n", "Now answer in one line.")
    assert [(gap.name, gap.shape) for gap in one.template.gaps] == [("examples", "section")]
    assert {values[0] for values in one.values} == {"".join(examples[n] for n in order) for order in orders}


def test_values_of_several_words_are_one_value() -> None:
    names = ["Ada", "Ada Example", "Dr Ada B Example"]
    one = only([f"Greet {name} and offer help with order {n}." for n, name in enumerate(names, 11)])
    assert one.template.literals == ("Greet ", " and offer help with order ", ".")
    assert {values[0] for values in one.values} == set(names)


def test_ideographs_need_no_blanks() -> None:
    one = only(
        [
            f"你是商城的订单助手。用户[ID:{user}]在2026-07-15T08:{minute}咨询订单[NO:{order}]，相关条款如下。"
            for user, minute, order in [(18392, 23, 874635), (20817, 24, 556692), (15219, 31, 729094)]
        ]
    )
    assert one.template.literals == (
        "你是商城的订单助手。用户[ID:",
        "]在",
        "咨询订单[NO:",
        "]，相关条款如下。",
    )
    assert [gap.name for gap in one.template.gaps] == ["user_id", "time", "order_id"]
    assert one.template.gaps[1].kind.granularity == "minute"


def test_what_never_varies_is_no_field() -> None:
    one = only(
        [
            f"Policy in force since 2024-01-01 (v3.2.1). Build 9f2c. Answer in English.\nTicket opened {at}: printer {of} is offline."
            for at, of in [("2026-03-01 08:11", "A7"), ("2026-03-02 19:45", "C2"), ("2026-03-05 07:02", "A7")]
        ]
    )
    assert len(one.template.gaps) == 2
    assert all(value in one.template.literals[0] for value in ("2024-01-01", "v3.2.1", "9f2c"))


def test_numbers_that_are_meaning_make_templates_of_their_own() -> None:
    texts = [
        f"Run in mode {mode}. Use {units} units only. Request {100 + n}"
        for n, (mode, units) in enumerate([(1, "metric"), (1, "metric"), (2, "imperial")] * 2)
    ]
    found = learned(texts)
    assert sorted(one.template.literals[0] for one in found) == [
        "Run in mode 1. Use metric units only. Request ",
        "Run in mode 2. Use imperial units only. Request ",
    ]
    assert sorted(len(one.texts) for one in found) == [2, 4]


def test_free_text_is_no_value() -> None:
    questions = [
        "where is my parcel?\nIt was sent on Monday.",
        "may I return shoes?",
        "do you ship abroad?\n\nPlease.",
    ]
    template = only(
        [f"You are the assistant of the shop. The question is this: {q}\nAnswer it now." for q in questions]
    ).template
    assert [gap.shape for gap in template.gaps] == ["text"]


def test_the_order_of_the_log_does_not_matter() -> None:
    texts = [f"node-{name} restarted service web" for name in "abcd"]
    expected = [(one.template, one.texts) for one in learned(texts)]
    assert [one[0].literals for one in expected] == [("", " restarted service web")]
    for seed in range(6):
        shuffled = random.Random(seed).sample(texts, len(texts))
        assert [(one.template, one.texts) for one in learned(shuffled)] == expected


def test_texts_that_share_nothing_have_no_template() -> None:
    assert learned(["one two three four five six", "seven eight nine ten eleven twelve"]) == []
    assert learned([]) == []
    assert learned([""]) == []


WORDS = st.lists(
    st.sampled_from(["stable", "text", "says", "many", "words", ",", ".", "\n", ":", "[", "说", "明", "é"]),
    min_size=8,
)
VALUES = st.text(alphabet="abc123-_/ \n说{}[]%", max_size=12)


@settings(max_examples=150, deadline=None)
@given(
    parts=st.lists(WORDS, min_size=1, max_size=4),
    rows=st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=2, max_size=6),
)
def test_a_template_gives_back_its_texts(parts: list[list[str]], rows: list[list[str]]) -> None:
    """Whatever the texts: what a template matches, it renders, byte for byte."""
    texts = []
    for row in rows:
        text = ""
        for number, part in enumerate(parts):
            text += " ".join(part) + (row[number] if number < len(parts) - 1 else "")
        texts.append(text)
    for one in learned(texts):
        for text, values in zip(one.texts, one.values, strict=True):
            assert one.template.render(values) == text.text


@pytest.mark.parametrize("budget", [0, 200, 1000, 100_000])
def test_a_sample_is_the_same_for_any_partition(budget: int) -> None:
    texts = [f"system prompt number {n} with some text behind it" for n in range(60)]
    whole, left, right = (SectionSample(budget_chars=budget) for _ in range(3))
    for number, text in enumerate(texts * 2):
        whole.offer("system", text, "shop")
        (left if number % 3 else right).offer("system", text, "shop")
    right.merge(left)
    assert right.level == whole.level
    assert {k: (t.requests, t.routes) for k, t in right.texts.items()} == {
        k: (t.requests, t.routes) for k, t in whole.texts.items()
    }
    assert all(text.requests == 2 for text in whole.texts.values())
