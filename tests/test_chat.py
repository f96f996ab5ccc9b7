"""Messages to prompt text: the built-in templates, vLLM's preparation, loading, the sandbox, the clock."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.chat import BUILT_IN, ChatTemplate, load, malformed_arguments
from kvtools.chat.environment import compiled
from kvtools.errors import TemplateError

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"

SYSTEM: Json = {"role": "system", "content": "You help."}
USER: Json = {"role": "user", "content": "Rain?"}
CALL: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "sky", "arguments": '{"city": "Åre", "days": 2}'},
        }
    ],
}
OUTPUT: Json = {"role": "tool", "tool_call_id": "c1", "content": "wet"}
ANSWER: Json = {"role": "assistant", "content": "Yes."}
TOOL: Json = {
    "type": "function",
    "function": {"name": "sky", "description": "é", "parameters": {"type": "object"}},
}
DIALOGUE = [SYSTEM, USER, CALL, OUTPUT, ANSWER, {"role": "user", "content": "Thanks"}]


def template(source: str) -> ChatTemplate:
    return ChatTemplate("test", source)


class TestDeepseek:
    def test_a_dialogue(self) -> None:
        messages = [SYSTEM, USER, ANSWER, {"role": "user", "content": "Thanks"}]
        assert load("deepseek").render(messages) == (
            f"{BOS}You help.<｜User｜>Rain?<｜Assistant｜>Yes.{EOS}<｜User｜>Thanks<｜Assistant｜>"
        )

    def test_without_generation_prompt_it_ends_with_the_last_message(self) -> None:
        assert load("deepseek").render([USER], add_generation_prompt=False) == f"{BOS}<｜User｜>Rain?"

    def test_it_is_the_default(self) -> None:
        assert load() == load("deepseek")
        assert (load().bos_token, load().eos_token) == (BOS, EOS)

    def test_system_messages_are_joined_in_front(self) -> None:
        assert load("deepseek").render([SYSTEM, USER, {"role": "system", "content": "Be brief."}]) == (
            f"{BOS}You help.\n\nBe brief.<｜User｜>Rain?<｜Assistant｜>"
        )

    def test_tools_calls_and_outputs(self) -> None:
        assert load("deepseek").render(DIALOGUE[:-1], [TOOL]) == (
            f"{BOS}You help.\n\n## Tools\nYou have access to the following tools:\n\n"
            '### sky\nDescription: é\n\nParameters: {"type": "object"}\n\n'
            "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments"
            "<｜tool▁call▁end｜>{{additional_tool_calls}}<｜tool▁calls▁end｜>\n\nWhere:\n\n"
            "- `tool_call_name` must be an exact match to one of the available tools\n"
            "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"
            "- For multiple tool calls, chain them directly without separators or spaces\n"
            "<｜User｜>Rain?<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>sky<｜tool▁sep｜>"
            f'{{"city": "Åre", "days": 2}}<｜tool▁call▁end｜><｜tool▁calls▁end｜>{EOS}'
            f"<｜tool▁output▁begin｜>wet<｜tool▁output▁end｜>Yes.{EOS}<｜Assistant｜>"
        )

    def test_generation_follows_an_output_directly(self) -> None:
        text = load("deepseek").render([USER, CALL, OUTPUT])
        assert text.endswith(f"<｜tool▁calls▁end｜>{EOS}<｜tool▁output▁begin｜>wet<｜tool▁output▁end｜>")

    def test_an_unknown_role_is_refused_not_lost(self) -> None:
        with pytest.raises(TemplateError, match="has no role critic"):
            load("deepseek").render([{"role": "critic", "content": "no"}])


class TestDeepseekV4:
    def test_not_thinking(self) -> None:
        messages = [SYSTEM, USER, ANSWER, {"role": "user", "content": "Thanks"}]
        assert load("deepseek-v4").render(messages, thinking=False) == (
            f"{BOS}You help.<｜User｜>Rain?<｜Assistant｜></think>Yes.{EOS}"
            "<｜User｜>Thanks<｜Assistant｜></think>"
        )

    def test_thinking_drops_earlier_reasoning(self) -> None:
        thought = {**ANSWER, "reasoning_content": "Clouds."}
        messages = [USER, thought, {"role": "user", "content": "Thanks"}]
        assert load("deepseek-v4").render(messages, reasoning_effort="low") == (
            f"{BOS}<｜User｜>Rain?<｜Assistant｜></think>Yes.{EOS}<｜User｜>Thanks<｜Assistant｜><think>"
        )
        assert load("deepseek-v4").render(messages, reasoning_effort="low", drop_thinking=False) == (
            f"{BOS}<｜User｜>Rain?<｜Assistant｜><think>Clouds.</think>Yes.{EOS}"
            "<｜User｜>Thanks<｜Assistant｜><think>"
        )

    def test_thinking_hard_is_the_default(self) -> None:
        text = load("deepseek-v4").render([USER])
        assert text.startswith(f"{BOS}Reasoning Effort: Absolute maximum with no shortcuts permitted.\n")
        assert text.endswith("<｜User｜>Rain?<｜Assistant｜><think>")
        assert load("deepseek-v4").render([USER], thinking=None) == text

    def test_outputs_stand_in_the_users_turn_in_the_order_of_the_calls(self) -> None:
        second = {"id": "c2", "type": "function", "function": {"name": "sea", "arguments": ""}}
        calls = {**CALL, "tool_calls": [*CALL["tool_calls"], second]}
        late = {"role": "tool", "tool_call_id": "c2", "content": "calm"}
        text = load("deepseek-v4").render([USER, calls, late, OUTPUT, USER], thinking=False)
        assert text == (
            f"{BOS}<｜User｜>Rain?<｜Assistant｜></think>\n\n<｜DSML｜tool_calls>\n"
            '<｜DSML｜invoke name="sky">\n'
            '<｜DSML｜parameter name="city" string="true">Åre</｜DSML｜parameter>\n'
            '<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
            '<｜DSML｜invoke name="sea">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
            f"{EOS}<｜User｜><tool_result>wet</tool_result>\n\n<tool_result>calm</tool_result>\n\nRain?"
            "<｜Assistant｜></think>"
        )

    def test_tools_stand_behind_the_first_system_text_with_the_servers_defaults(self) -> None:
        bare = {"function": {"name": "sky"}, "type": "function"}
        text = load("deepseek-v4").render([SYSTEM, USER], [bare], thinking=False)
        assert text.startswith(f"{BOS}You help.\n\n## Tools\n\nYou have access to a set of tools")
        assert '\n\n{"name": "sky", "description": null, "parameters": null}\n\nYou MUST' in text
        assert text.endswith("to invoke tool calls.\n<｜User｜>Rain?<｜Assistant｜></think>")

    def test_parts_are_joined_with_an_empty_line(self) -> None:
        content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
        text = load("deepseek-v4").render([{"role": "user", "content": content}], thinking=False)
        assert text == f"{BOS}<｜User｜>a\n\n<｜deepseek_image｜><｜Assistant｜></think>"

    @pytest.mark.parametrize(
        "message",
        [{"role": "critic", "content": "no"}, {"role": "user", "content": [{"type": "input_audio"}]}],
    )
    def test_what_the_format_cannot_say_is_refused(self, message: Json) -> None:
        with pytest.raises(
            TemplateError, match=r"chat template deepseek-v4:\d+ refuses its input \(DeepSeek-V4"
        ):
            load("deepseek-v4").render([message])


class TestChatml:
    def test_a_dialogue(self) -> None:
        assert load("chatml").render([SYSTEM, USER]) == (
            "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n"
            "<|im_start|>assistant\n"
        )

    def test_tools_in_front_of_the_system_text(self) -> None:
        tools = [TOOL, {"function": {"name": "b"}}]
        lines = f"{json.dumps(tools[0])}\n{json.dumps(tools[1])}\n"
        assert load("chatml").render([SYSTEM, USER], tools, add_generation_prompt=False) == (
            f"<|im_start|>system\n# Tools\n{lines}You help.<|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n"
        )
        assert load("chatml").render([USER], tools, add_generation_prompt=False) == (
            f"<|im_start|>system\n# Tools\n{lines}<|im_end|>\n<|im_start|>user\nRain?<|im_end|>\n"
        )

    def test_calls_and_outputs(self) -> None:
        assert load("chatml").render([CALL, {**CALL, "content": "Well:"}, OUTPUT]) == (
            '<|im_start|>assistant\n<tool_call>\n{"name": "sky", "arguments": {"city": "Åre", "days": 2}}\n'
            "</tool_call><|im_end|>\n<|im_start|>assistant\nWell:\n<tool_call>\n"
            '{"name": "sky", "arguments": {"city": "Åre", "days": 2}}\n</tool_call><|im_end|>\n'
            "<|im_start|>tool\nwet<|im_end|>\n<|im_start|>assistant\n"
        )


class TestLlama3AndPlain:
    def test_llama3(self) -> None:
        assert load("llama3").render([SYSTEM, {"role": "user", "content": " Rain? \n"}]) == (
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nYou help.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nRain?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
        )

    def test_llama3_keeps_tools_calls_and_outputs(self) -> None:
        text = load("llama3").render([USER, CALL, OUTPUT], [TOOL], add_generation_prompt=False)
        assert text.startswith(
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
            "You have access to the following functions."
        )
        assert '\n\n{\n    "type": "function",\n    "function": {\n        "name": "sky",\n' in text
        assert text.endswith(
            "<|start_header_id|>assistant<|end_header_id|>\n\n"
            '{"name": "sky", "parameters": {"city": "Åre", "days": 2}}<|eot_id|>'
            "<|start_header_id|>ipython<|end_header_id|>\n\nwet<|eot_id|>"
        )

    def test_plain(self) -> None:
        assert load("plain").render(DIALOGUE, [TOOL]) == (
            f"tool: {json.dumps(TOOL, ensure_ascii=False)}\nsystem: You help.\nuser: Rain?\nassistant: \n"
            'call: sky {"city": "Åre", "days": 2}\ntool: wet\nassistant: Yes.\nuser: Thanks\nassistant:'
        )


SHOW = "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
PARTS = "{% for m in messages %}{% for p in m.content %}[{{ p.type }} {{ p.text }}]{% endfor %};{% endfor %}"


class TestPreparation:
    @pytest.mark.parametrize(
        ("arguments", "shown"),
        [
            ('{"city": "Oslo"}', '{"city": "Oslo"}'),
            ({"city": "Oslo"}, '{"city": "Oslo"}'),
            ("", "{}"),
            (None, "{}"),
            ("[1]", "{}"),
            ('{"city": Oslo', "{}"),
        ],
    )
    def test_arguments_reach_the_template_as_a_mapping(self, arguments: Any, shown: str) -> None:
        call = {"function": {"name": "get", "arguments": arguments}}
        messages = [{"role": "assistant", "content": "", "tool_calls": [call]}]
        loop = "{% for tc in messages[0].tool_calls %}{% set f = tc.function %}"
        source = loop + "CALL {{ f.name }} {{ f.arguments | tojson }}{% endfor %}"
        assert template(source).render(messages) == f"CALL get {shown}"

    def test_malformed_arguments_are_named(self) -> None:
        calls = [{"function": {"name": "f", "arguments": text}} for text in ("{}", "", "{oops", "[1]")]
        messages = [USER, {"role": "assistant", "tool_calls": calls}]
        assert malformed_arguments(messages) == ("messages[1].tool_calls[2]", "messages[1].tool_calls[3]")

    def test_parts_become_one_text_or_stay_parts(self) -> None:
        content = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        messages: list[Json] = [{"role": "user", "content": content}, {"role": "assistant", "content": None}]
        string, openai = template(SHOW), template(PARTS)
        assert (string.content_format, openai.content_format) == ("string", "openai")
        assert string.render(messages) == "user=a\nb;assistant=;"
        assert openai.render([*messages, USER]) == "[text a][text b];;[text Rain?];"

    def test_a_picture_leaves_a_mark_in_front(self) -> None:
        content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
        assert template(SHOW).render([{"role": "user", "content": content}]) == "user=<##IMAGE##>\na;"
        assert template(PARTS).render([{"role": "user", "content": content}]) == "[text a][image ];"

    def test_developer_messages_join_the_system_text_where_the_role_is_unknown(self) -> None:
        messages = [SYSTEM, USER, {"role": "developer", "content": "Be brief."}]
        assert template(SHOW).render(messages) == "system=You help.\n\nBe brief.;user=Rain?;"
        known = SHOW + "{{ 'developer' }}"
        assert template(known).render(messages) == "system=You help.;user=Rain?;developer=Be brief.;developer"

    def test_the_clients_stamp_is_cut_from_system_texts_as_vllm_cuts_it(self) -> None:
        stamped = {"role": "system", "content": "x-anthropic-billing-header: cch=1f;\nYou help."}
        assert template(SHOW).render([stamped]) == "system=You help.;"

    def test_reasoning_has_both_names_and_unknown_fields_are_gone(self) -> None:
        source = "{% set m = messages[0] %}{{ m.reasoning }}{{ m.reasoning_content }}{{ m.prefix }}"
        message = {"role": "assistant", "content": "x", "reasoning_content": "R", "prefix": "P"}
        assert template(source).render([message]) == "RR"

    def test_the_input_is_not_changed(self) -> None:
        messages, tools = copy.deepcopy(DIALOGUE), [copy.deepcopy(TOOL)]
        for name in BUILT_IN:
            load(name).render(messages, tools)
        assert (messages, tools) == (DIALOGUE, [TOOL])

    @pytest.mark.parametrize(
        ("message", "reason"),
        [
            ("text", "message 1 has no role"),
            ({"content": "x"}, "message 1 has no role"),
            ({"role": "user", "content": 5}, "message 1 has a content of type int"),
            (
                {"role": "user", "content": [{"type": "tool_use"}]},
                "message 1 holds a content part of type 'tool_use'",
            ),
            (
                {"role": "assistant", "tool_calls": ["x"]},
                "message 1 holds a tool call without a function object",
            ),
        ],
    )
    def test_what_vllm_refuses_is_refused_with_its_place(self, message: Any, reason: str) -> None:
        with pytest.raises(TemplateError, match=reason):
            load("plain").render([USER, message])


class TestSandboxAndEnvironment:
    @pytest.mark.parametrize(
        "source",
        [
            "{{ ''.__class__.__mro__ }}",
            "{{ messages.append(1) }}",
            "{{ cycler.__init__.__globals__ }}",
            "{% set ns = namespace() %}{{ ns.__init__.__globals__ }}",
            "{% for m in messages %}{{ loop._iterator.gi_frame }}{% endfor %}",
            "{% for i in range(10 ** 9) %}x{% endfor %}",
            "{% include 'other' %}",
        ],
    )
    def test_a_template_reaches_nothing_but_its_input(self, source: str) -> None:
        with pytest.raises(TemplateError, match="chat template test:1 refuses its input"):
            template(source).render([USER])

    @pytest.mark.parametrize(
        "source",
        [
            "{{ messages.__class__ }}",
            "{{ messages[0]['__class__'] }}",
            "{{ messages | attr('__class__') }}",
            "{{ '{0.__class__.__init__}'.format(messages) }}",
            "{% for m in messages %}{{ loop.__class__.__init__ }}{% endfor %}",
            "{% set ns = namespace() %}{{ ns.__class__ }}{{ ns['__class__'] }}",
        ],
    )
    def test_a_printed_internal_is_empty(self, source: str) -> None:
        assert template(source).render([USER]) == ""

    def test_tojson_escapes_nothing_but_what_json_must(self) -> None:
        message = {"role": "user", "content": "é<b>&'\"\n"}
        assert template("{{ messages[0].content | tojson }}").render([message]) == '"é<b>&\'\\"\\n"'
        assert template("{{ messages[0].content | tojson(ensure_ascii=True) }}").render([message]) == (
            '"\\u00e9<b>&\'\\"\\n"'
        )
        ordered = "{{ {'b': 1, 'a': [2]} | tojson(indent=1, separators=(',', ':'), sort_keys=true) }}"
        assert template(ordered).render([]) == '{\n "a":[\n  2\n ],\n "b":1\n}'

    def test_the_clock_is_pinned(self) -> None:
        source = "Today Date: {{ strftime_now('%d %b %Y') }}"
        assert template(source).render([]) == "Today Date: 01 Jan 2026"
        clock = datetime(2024, 7, 26, tzinfo=UTC)
        assert ChatTemplate("test", source, clock=clock).render([]) == "Today Date: 26 Jul 2024"

    def test_tags_and_whitespace_are_those_of_transformers(self) -> None:
        source = (
            "{% for m in messages %}\n    {% if loop.index == 2 %}{% break %}{% endif %}\n"
            "{% generation %}{{ m.content }}{% endgeneration %}\n{% endfor %}\n"
            "{{ eos_token }}|{{ documents }}"
        )
        # trim_blocks takes the newline behind each block, lstrip_blocks the blanks before it.
        assert ChatTemplate("test", source, {"eos_token": "</s>"}).render([USER, USER]) == "Rain?</s>|None"

    def test_arguments_reach_the_template_unless_they_say_nothing(self) -> None:
        source = "{{ thinking is defined }}{{ thinking }}{{ add_generation_prompt }}"
        assert template(source).render([], thinking=False) == "TrueFalseTrue"
        assert template(source).render([], thinking=None, add_generation_prompt=False) == "FalseFalse"

    def test_a_template_is_compiled_once_and_travels_between_processes(self) -> None:
        shipped = pickle.loads(pickle.dumps(load("plain")))  # noqa: S301 - our own bytes
        assert shipped.render([USER]) == "user: Rain?\nassistant:"
        before = compiled.cache_info().misses
        for _ in range(3):
            load("plain").render([USER])
        assert compiled.cache_info().misses == before

    def test_errors_are_one_sentence(self) -> None:
        with pytest.raises(TemplateError) as raised:
            template("line\n{{ raise_exception('only\n  users') }}").render([USER])
        assert str(raised.value) == (
            "chat template test:2 refuses its input (only users): "
            "choose the template of the model that served the log, or leave the request out."
        )
        with pytest.raises(
            TemplateError, match=r"^chat template test:1 does not parse \(.*\): correct it or"
        ):
            template("{% if %}")


class TestLoading:
    def test_a_file_takes_the_special_tokens_beside_it(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.jinja"
        file.write_text("{{ bos_token }}{{ messages[0].content }}", encoding="utf-8")
        assert load(str(file)).render([USER]) == "Rain?"
        (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<s>"}', encoding="utf-8")
        assert load(str(file)).render([USER]) == "<s>Rain?"

    def test_a_folder_with_its_template_in_the_tokenizer_config(self, tmp_path: Path) -> None:
        config = {
            "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
            "bos_token": {"__type": "AddedToken", "content": "<s>"},
            "eos_token": None,
        }
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "</s>"}', encoding="utf-8")
        loaded = load(str(tmp_path))
        assert (loaded.bos_token, loaded.eos_token) == ("<s>", "</s>")
        assert loaded.render([USER]) == "<s>Rain?</s>"

    def test_a_folder_with_named_templates(self, tmp_path: Path) -> None:
        named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
        (tmp_path / "tokenizer_config.json").write_text(
            json.dumps({"chat_template": named}), encoding="utf-8"
        )
        assert load(str(tmp_path)).render([USER]) == "plain"
        assert load(str(tmp_path)).render([USER], [TOOL]) == "tools"
        assert load(str(tmp_path)).render([USER], []) == "plain"

    def test_the_jinja_file_wins_over_the_configs(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "third"}', encoding="utf-8")
        (tmp_path / "chat_template.json").write_text('{"chat_template": "second"}', encoding="utf-8")
        assert load(str(tmp_path)).render([]) == "second"
        (tmp_path / "chat_template.jinja").write_text("first", encoding="utf-8")
        assert load(str(tmp_path)).render([]) == "first"

    def test_a_model_whose_prompts_vllm_builds_in_code(self, tmp_path: Path) -> None:
        (tmp_path / "chat_template.jinja").write_text("not used", encoding="utf-8")
        config = tmp_path / "config.json"
        config.write_text('{"architectures": ["DeepseekV4ForCausalLM"]}', encoding="utf-8")
        assert load(str(tmp_path)).name == "deepseek-v4"
        config.write_text('{"architectures": ["DeepseekV32ForCausalLM"]}', encoding="utf-8")
        with pytest.raises(TemplateError, match="vLLM builds the prompts of DeepseekV32ForCausalLM"):
            load(str(tmp_path))

    def test_an_unknown_name_lists_the_built_in_ones(self) -> None:
        with pytest.raises(TemplateError) as raised:
            load("qwen99")
        assert str(raised.value) == (
            "there is no chat template 'qwen99': name one of deepseek, deepseek-v4, chatml, llama3, plain, "
            "a .jinja or .j2 file, or a model folder."
        )

    def test_what_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(TemplateError, match=r"file .*gone\.jinja does not exist: check the path\.$"):
            load(str(tmp_path / "gone.jinja"))
        with pytest.raises(
            TemplateError, match=r"^the folder .* holds no chat template .* name one of deepseek,"
        ):
            load(str(tmp_path))
        (tmp_path / "latin.jinja").write_bytes(b"\xe9")
        with pytest.raises(TemplateError, match=r"latin\.jinja cannot be read \(it is not UTF-8 text\)"):
            load(str(tmp_path / "latin.jinja"))
        (tmp_path / "tokenizer_config.json").write_text('{\n"chat_template": ', encoding="utf-8")
        with pytest.raises(TemplateError, match=r"tokenizer_config\.json:2 is not JSON"):
            load(str(tmp_path))
