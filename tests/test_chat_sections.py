"""Where messages stand in a rendered prompt: every section holds the text it names, in every bundled format."""

from __future__ import annotations

from typing import Any

import pytest

from kvtools.chat import BUILT_IN, ChatTemplate, load
from kvtools.chat.sections import Section, locate_sections, section_at

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "user"},  # a word that templates write too
    {"role": "assistant", "content": "You are terse."},  # the same text twice
    {"role": "user", "content": "And <|im_end|> in a text?"},
]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def _contents(sections: list[Section], prompt: str) -> dict[str, str]:
    return {section.name: prompt[section.start : section.stop] for section in sections}


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "plain"])
def test_every_message_is_found_where_it_stands(name: str) -> None:
    template = load(name)
    prompt = template.render(MESSAGES)
    found = _contents(locate_sections(template, MESSAGES, None, prompt), prompt)
    assert found == {f"messages[{i}]": message["content"] for i, message in enumerate(MESSAGES)}


@pytest.mark.parametrize("name", ["chatml", "deepseek"])
def test_tools_are_what_is_there_only_with_tools(name: str) -> None:
    template = load(name)
    prompt = template.render(MESSAGES, TOOLS)
    sections = locate_sections(template, MESSAGES, TOOLS, prompt)
    (tools,) = (section for section in sections if section.name == "tools")
    without = prompt[: tools.start] + prompt[tools.stop :]
    assert without == template.render(MESSAGES)
    assert "look" in prompt[tools.start : tools.stop]
    assert len(sections) == len(MESSAGES) + 1


PLAIN = "{% for m in messages %}[{{ m['content'] | trim }}]{% endfor %}"


def test_a_template_that_trims() -> None:
    template = ChatTemplate("trims", PLAIN)
    messages = [{"role": "user", "content": "  two blanks "}, {"role": "user", "content": "end"}]
    prompt = template.render(messages)
    assert prompt == "[two blanks][end]"
    sections = locate_sections(template, messages, None, prompt)
    assert sections == [Section("messages[0]", 1, 11, skipped=2), Section("messages[1]", 13, 16)]
    assert section_at(sections, 5) == ("messages[0]", 6)  # the second word of the logged text begins there
    assert section_at(sections, 11) == ("messages[0]", 12)  # just behind its end
    assert section_at(sections, 12) is None


def test_a_template_that_changes_a_text_is_followed_by_what_stands_around_it() -> None:
    template = ChatTemplate("loud", PLAIN.replace("trim", "upper"))
    messages = [{"role": "user", "content": "abc"}, {"role": "user", "content": "de"}]
    prompt = template.render(messages)
    assert _contents(locate_sections(template, messages, None, prompt), prompt) == {
        "messages[0]": "ABC",
        "messages[1]": "DE",
    }


def test_parts_of_a_list_have_names_of_their_own() -> None:
    template = load("chatml")
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    messages = [{"role": "user", "content": parts}]
    prompt = template.render(messages)
    assert _contents(locate_sections(template, messages, None, prompt), prompt) == {
        "messages[0].content[0]": "one",
        "messages[0].content[1]": "two",
    }


def test_a_template_that_refuses_or_ignores_messages_gives_none() -> None:
    template = ChatTemplate("fixed", "always the same")
    assert locate_sections(template, MESSAGES, None, "always the same") == []
