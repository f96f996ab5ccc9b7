"""Prompt templates with worked-out counts: one byte is one token, so every count is a length."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jinja2 import Template

from kvtools.linting import TemplateLint, lint_template
from kvtools.linting.pieces import pieces_of
from kvtools.tokens import BytesTokenizer, load_tokenizer

A7 = (
    "[系统]会话#{{session_id}} 用户{{user_type}}咨询\n"
    "[历史]{{last_3_messages|trim}}\n"
    "[当前]类型={{query_type}} 问题={{text}} 订单={{order_id}}\n"
)


def lint(source: str, **changes: str) -> TemplateLint:
    return lint_template("t.j2", source, BytesTokenizer(), changes)  # type: ignore[arg-type]


def found(one: TemplateLint) -> list[tuple[int, str, str]]:
    return [(finding.line, finding.rule, finding.severity) for finding in one.findings]


def stable(one: TemplateLint) -> tuple[int, int | None, str | None, int | None]:
    assert one.stable is not None
    return one.stable.leading, one.stable.behind, one.stable.stopped_by, one.stable.line


def order(one: TemplateLint) -> str | None:
    return one.order.text if one.order else None


class TestArticleA:
    def test_session_id_in_line_1_defeats_the_reuse(self) -> None:
        one = lint(A7)
        # In front: [系统]会话# = 1+6+1+6+1 bytes. Behind: " 用户" 7, 咨询 and line feed and [历史] 6+1+8, line feed and
        # [当前]类型= 1+8+7, " 问题=" 8, " 订单=" 8.
        assert stable(one) == (15, 7 + 15 + 16 + 8 + 8, "session_id", 1)
        assert found(one) == [
            (1, "placeholder-before-stable-text", "error"),
            (2, "placeholder-before-stable-text", "warning"),
        ]
        assert one.findings[0].sentence == (
            "{{ session_id }} (an id) defeats the reuse of everything behind it, 54 stable tokens: "
            "move it behind the stable text."
        )

    def test_the_order_that_shares_the_longest_prefix(self) -> None:
        one = lint(A7)
        assert order(one) == (
            "[系统]用户{{user_type}}咨询\n"
            "[当前]类型={{query_type}}\n"
            "[历史]{{last_3_messages|trim}}\n"
            "[系统]会话#{{session_id}}\n"
            "[当前]问题={{text}} 订单={{order_id}}"
        )
        # [系统]用户 14, 咨询 line feed [当前]类型= 6+1+15, line feed [历史] 9.
        assert one.order_tokens == 14 + 22 + 9

    def test_with_the_default_tokenizer_too(self) -> None:
        one = lint_template("t.j2", A7, load_tokenizer(fast=False))
        assert one.stable is not None
        assert one.order_tokens is not None
        assert one.order_tokens > one.stable.leading
        assert one.findings[0].line == 1
        assert "session_id" in one.findings[0].sentence

    @pytest.mark.parametrize("proposed", [False, True])
    def test_the_count_holds_for_every_value(self, proposed: bool) -> None:
        # The oracle: the prompts that jinja2 renders, as the tokenizer cuts them whole.
        tokenizer = load_tokenizer(fast=False)
        one = lint_template("t.j2", A7, tokenizer)
        assert one.order is not None
        assert one.stable is not None
        promised = one.order_tokens if proposed else one.stable.leading
        ids = [f"{n:x}" for n in range(7, 4000, 331)] + ["中", " 9", "_x", "#1", "-3", "]", "\n"]
        prompts = [
            Template(one.order.text if proposed else A7).render(
                session_id=value,
                user_type="vip",
                last_3_messages=value,
                query_type="refund",
                text=value,
                order_id=value,
            )
            for value in ids
        ]
        rows = tokenizer.encode(prompts)
        tokens = [rows.row(at).tolist() for at in range(len(rows))]
        shared = next(at for at, row in enumerate(zip(*tokens, strict=False)) if len(set(row)) > 1)
        assert promised is not None
        assert shared >= promised
        # In front of values of a class nothing else counts, so without them the count is exact.
        assert proposed or shared == promised


class TestPlacement:
    def test_stable_in_front(self) -> None:
        one = lint("Be kind.\nID {{ id }}")
        assert (stable(one), found(one), order(one)) == ((12, 0, "id", 2), [], None)

    def test_a_line_moves(self) -> None:
        one = lint("ID {{ id }}\nBe kind.\n")
        assert stable(one) == (3, 9, "id", 1)
        assert (order(one), one.order_tokens) == ("Be kind.\nID {{ id }}", 12)
        assert found(one) == [(1, "placeholder-before-stable-text", "warning")]

    def test_from_a_block_of_16_tokens_on_it_is_an_error(self) -> None:
        # What moves in front is the sentence and a line feed, 15 or 16 tokens.
        for length, severity in ((14, "warning"), (15, "error")):
            assert found(lint("{{ id }}\n" + "a" * length))[0][2] == severity

    def test_a_value_of_a_class_may_stand_in_front(self) -> None:
        one = lint("Hello {{ user_type }}. {{ language }}\nBe kind.\n{{ question }}")
        # "Hello ", ". ", "\nBe kind.\n": values count nothing.
        assert (stable(one), found(one), order(one)) == ((6 + 2 + 10, 0, "question", 3), [], None)

    def test_what_is_not_always_printed_is_not_counted(self) -> None:
        one = lint("{% if user_type == 'vip' %}VIP line.{% endif %}\nBe kind. {{ question }}\nAnswer:")
        assert (stable(one), found(one)) == ((10, 8, "question", 2), [])

    def test_the_closing_cue_stays_last(self) -> None:
        one = lint("Question: {{ question }}\nBe kind.\nAnswer:")
        assert order(one) == "Be kind.\nQuestion: {{ question }}\nAnswer:"

    def test_sentences_part_and_prose_does_not(self) -> None:
        assert (
            order(lint("Today is {{ date }}. Be kind. Be short."))
            == "Be kind. Be short. Today is {{ date }}."
        )
        assert (
            order(lint("Request {{ id }} at {{ time }}\nBe kind."))
            == "Be kind.\nRequest {{ id }} at {{ time }}"
        )

    def test_a_heading_goes_with_its_lines(self) -> None:
        assert order(lint("# User\nBe polite.\nName: {{ user_name }}\n# Rules\nBe kind.")) == (
            "# User\nBe polite.\n# Rules\nBe kind.\n# User\nName: {{ user_name }}"
        )
        # A value of a class goes behind what never changes, too.
        assert order(lint("# User\nPlan: {{ plan }} Name: {{ user_name }}\n# Rules\nBe kind.")) == (
            "# Rules\nBe kind.\n# User\nPlan: {{ plan }} Name: {{ user_name }}"
        )

    @pytest.mark.parametrize(
        "block",
        [
            '```\n{"id": "{{ id }}"}\n```',
            "<context>\n{{ context }}\n</context>",
            "{\n  'id': {{ id }}\n}",
            "1. First.\n2. For {{ user_name }}.",
            "{% for m in history %}\n{{ m }}\n{% endfor %}",
            "Context:\n{{ context }}",
        ],
        ids=["code", "tag", "brackets", "numbers", "loop", "label"],
    )
    def test_what_belongs_together_moves_together(self, block: str) -> None:
        assert order(lint(f"{block}\nBe kind.")) == f"Be kind.\n{block}"

    def test_unknown_values_are_notes_until_they_are_stated(self) -> None:
        source = "{{ foo }}\nBe kind."
        assert found(lint(source)) == [(1, "unknown-before-stable-text", "info")]
        assert stable(lint(source)) == (0, 9, "foo", 1)
        assert (found(lint(source, foo="class")), stable(lint(source, foo="class"))[0]) == ([], 9)
        assert found(lint(source, foo="request")) == [(1, "placeholder-before-stable-text", "warning")]

    def test_through_set(self) -> None:
        one = lint("{% set sid = session_id %}\n{{ sid }}\nBe kind.")
        assert stable(one) == (1, 9, "session_id", 2)
        assert order(one) == "{% set sid = session_id %}\nBe kind.\n{{ sid }}"

    def test_words_of_place_are_told(self) -> None:
        one = lint("{{ context }}\nUse only the text above.")
        assert one.order is not None
        assert one.order.place_words

    @pytest.mark.parametrize(
        ("source", "why"),
        [
            ("<|system|>{{ id }}\nBe kind.", "role marks"),
            ("{% block a %}{{ id }}{% endblock %}\nBe kind.", "another template may fill"),
            ("{% set a = 1 %}{% set a = 2 %}\n{{ id }}\nBe kind.", "sets a more than once"),
            ("{% set t = now() %}Now {{ t }}.\nBe kind.", "behind its use"),
        ],
    )
    def test_no_order_and_why(self, source: str, why: str) -> None:
        one = lint(source)
        assert one.order is None
        assert why in str(one.no_order)
        assert [rule for _, rule, severity in found(one) if severity != "info"]

    @settings(max_examples=150, deadline=None)
    @given(
        st.lists(
            st.sampled_from(
                [
                    "Be kind.", "# Rules", "[系统]", "ID={{ id }} PLAN={{ plan }}", "At {{ time }}. Be short.",
                    "{{ question }}", "{% if vip_tier %}VIP{% endif %}", "Context:", "{{ context }}", "", "Answer:",
                    "- {{ foo }} of {{ region }}", "{# remark #}", "{% for h in history %}{{ h }}{% endfor %}",
                ]
            ),
            max_size=8,
        )
    )  # fmt: skip
    @example(["# Rules", "{{ question }}", "# Rules", "Be kind."])
    def test_a_proposal_keeps_every_placeholder_and_needs_no_other(self, lines: list[str]) -> None:
        source = "\n".join(lines)
        one = lint(source)
        if one.order is None:
            return
        values = sorted(piece.source for piece in pieces_of(source) if piece.kind != "text")
        assert sorted(piece.source for piece in pieces_of(one.order.text) if piece.kind != "text") == values
        again = lint(one.order.text)
        assert again.stable is not None
        assert again.stable.leading == one.order_tokens
        assert one.stable is not None
        assert one.order_tokens > one.stable.leading
        assert not [finding for finding in again.findings if finding.severity != "info"]


class TestCalls:
    @pytest.mark.parametrize(
        ("call", "rule"),
        [
            ("now()", "clock"),
            ("strftime_now('%H')", "clock"),
            ("datetime.utcnow().isoformat()", "clock"),
            ("time.time()", "clock"),
            ("tips|random", "random"),
            ("tips|shuffle|join", "random"),
            ("random.choice(tips)", "random"),
            ("uuid4()", "fresh-id"),
            ("uuid.uuid4().hex", "fresh-id"),
        ],
    )
    def test_in_front_it_fails_and_behind_it_is_a_note(self, call: str, rule: str) -> None:
        front = [one for one in found(lint(f"{{{{ {call} }}}}\nBe kind.", tips="never")) if one[1] == rule]
        behind = [one for one in found(lint(f"Be kind.\n{{{{ {call} }}}}", tips="never")) if one[1] == rule]
        assert (front, behind) == ([(1, rule, "warning")], [(2, rule, "info")])

    @pytest.mark.parametrize("harmless", ["now", "text.strip()", "range(3)|join", "created.strftime('%H')"])
    def test_a_value_that_is_given_is_no_call(self, harmless: str) -> None:
        assert not {rule for _, rule, _ in found(lint(f"Be kind. {{{{ {harmless} }}}}"))}


class TestOrderOfData:
    @pytest.mark.parametrize(
        "source",
        [
            "{% for k, v in flags.items() %}{{ k }}={{ v }}{% endfor %}",
            "{% for k, v in flags|items %}{{ k }}{% endfor %}",
            "{{ flags.values()|join(', ') }}",
            "{% for t in set(tags) %}{{ t }}{% endfor %}",
            "{{ tag_set|join }}",
            "{{ a.union(b)|join }}",
        ],
    )
    def test_unordered(self, source: str) -> None:
        assert (1, "unordered-loop", "warning") in found(lint(source))

    @pytest.mark.parametrize(
        "source",
        [
            "{% for k, v in flags|dictsort %}{{ k }}={{ v }}{% endfor %}",
            "{% for k, v in flags.items()|sort %}{{ k }}{% endfor %}",
            "{{ tag_set|sort|join }}",
            "{{ flags.keys()|length }}",
            "{% set d = {'a': 1} %}{% for k, v in d.items() %}{{ k }}{% endfor %}",
            "{{ 'yes' if 'a' in flags.keys() }}",
            # jinja2's own tojson sorts its keys.
            "{{ flags|tojson }}",
        ],
    )
    def test_ordered(self, source: str) -> None:
        assert found(lint(source)) == []


class TestUnreadable:
    @pytest.mark.parametrize(
        ("source", "line"),
        [
            ("a\n{{ id \nx", 3),
            ("{% if a %}\nb", 1),
            ("a\n{% nonsense %}", 2),
            ("{{ " + "(" * 3000 + ")" * 3000 + " }}", 1),
            ("{{ " + "a + " * 5000 + "a }}", 1),
        ],
        ids=["print", "if", "tag", "deep", "long"],
    )
    def test_is_a_finding_with_its_line(self, source: str, line: int) -> None:
        one = lint(source)
        assert (one.kind, found(one)) == ("unreadable", [(line, "cannot-parse", "error")])

    def test_other_templates_are_not_read(self) -> None:
        one = lint("{% include '/etc/passwd' %}\nBe kind.")
        assert (1, "not-followed", "info") in found(one)
        assert stable(one) == (0, 9, "include", 1)


@pytest.mark.parametrize(
    "line",
    ["{{ a }} ", "{\n", "<a>\n", "a:\n", "```\n", "1. {{ a }}\n", "# a\n", "a. "],
    ids=["values", "brackets", "tags", "labels", "fences", "numbers", "headings", "sentences"],
)
def test_long_templates_end(line: str) -> None:
    assert lint(line * 4000 + "{{ id }}\nBe kind.").stable is not None


def test_values_made_of_values_do_not_double() -> None:
    steps = "".join(f"{{% set a{n + 1} = a{n} ~ a{n} %}}" for n in range(60))
    assert stable(lint(f"{steps}{{{{ a60 }}}}"))[2] == "a0"


def test_reading_does_not_compute() -> None:
    # Compiling would fold the constant and never end; the loop would run for years.
    one = lint(
        "{{ 10**(10**10) }}{% for i in range(10**9) %}{% for j in range(10**9) %}x{% endfor %}{% endfor %}"
    )
    assert found(one) == []
    assert found(lint("{{ ''.__class__.__mro__[1].__subclasses__() }}")) == []
