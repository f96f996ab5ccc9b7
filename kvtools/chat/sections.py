"""Where in a rendered prompt each message, each text part and the tools stand, whatever the template puts around them.

The prompt is rendered once more with a mark in place of each text. What stands around the marks is the template's;
what stands between in the real prompt is the text, and is compared with it: a template may trim it or cut it short.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvtools.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kvtools.chat.template import ChatTemplate

# Private use characters: no text that a template would look into.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}(\\d+){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Section:
    """A named piece of a prompt: ``messages[1]``, ``messages[1].content[0]`` (one part of a list) or ``tools``.

    Characters ``start`` to ``stop`` of the prompt, half open; ``skipped`` characters of the logged text before its
    start are not in the prompt (a template that trims).
    """

    name: str
    start: int
    stop: int
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Text:
    name: str
    text: str


def locate_sections(
    template: ChatTemplate,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None,
    prompt: str,
) -> list[Section]:
    """Return the sections of ``prompt``, which is ``template.render(messages, tools)``, in their order there.

    A text that the template changes beyond recognition ends the search: the sections before it are returned.
    """
    if _OPEN in prompt:
        return []
    texts: list[_Text] = []
    marked = [_marked(message, place, texts) for place, message in enumerate(messages)]
    try:
        pieces = _MARK.split(template.render(marked, tools))
        bare = _MARK.split(template.render(marked)) if tools else pieces
    except TemplateError:
        return []
    return list(_walk(prompt, pieces, bare, texts))


def section_at(sections: Sequence[Section], character: int) -> tuple[str, int] | None:
    """Return the section that holds a character of the prompt, and which one of the section it is.

    Just behind a section counts as its end; ``None`` is the template's own text, or what could not be located.
    """
    for section in sections:
        if section.start <= character < section.stop:
            return section.name, character - section.start + section.skipped
    for section in sections:
        if character == section.stop:
            return section.name, character - section.start + section.skipped
    return None


def _marked(message: Mapping[str, Any], place: int, texts: list[_Text]) -> Mapping[str, Any]:
    def mark(name: str, text: str) -> str:
        # An empty text stays: templates ask for it.
        if not text.strip():
            return text
        texts.append(_Text(name, text))
        return f"{_OPEN}{len(texts) - 1}{_CLOSE}"

    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": mark(f"messages[{place}]", content)}
    if not isinstance(content, list):
        return message
    parts = [
        {**part, "text": mark(f"messages[{place}].content[{index}]", part["text"])}
        if isinstance(part, dict) and isinstance(part.get("text"), str)
        else part
        for index, part in enumerate(content)
    ]
    return {**message, "content": parts}


def _walk(prompt: str, pieces: list[str], bare: list[str], texts: list[_Text]) -> Iterator[Section]:
    """Yield the sections; ``pieces`` are the template's own text and the numbers of the marks in turn."""
    # With the same marks in the same order, what is longer with tools holds them.
    comparable = bare is not pieces and pieces[1::2] == bare[1::2]
    at = 0
    for index in range(0, len(pieces), 2):
        own = pieces[index]
        if not prompt.startswith(own, at):
            return
        if comparable and len(own) > len(bare[index]):
            yield _inserted(own, bare[index], at)
        at += len(own)
        if index + 1 == len(pieces):
            return
        text, follows = texts[int(pieces[index + 1])], pieces[index + 2]
        found = _extent(prompt, at, text.text, follows, last=index + 3 == len(pieces))
        if found is None:
            return
        stop, skipped = found
        yield Section(text.name, at, stop, skipped)
        at = stop


def _inserted(own: str, bare: str, at: int) -> Section:
    head = _shared(own, bare)
    tail = _shared(own[head:][::-1], bare[head:][::-1])
    return Section("tools", at + head, at + len(own) - tail)


def _shared(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _extent(prompt: str, at: int, text: str, follows: str, *, last: bool) -> tuple[int, int] | None:
    """Return where the text ends that begins at ``at``, and how much of its beginning the template left out."""
    for shown in (text, text.lstrip(), text.rstrip(), text.strip()):
        stop = at + len(shown)
        if not prompt.startswith(shown, at) or not prompt.startswith(follows, stop):
            continue
        if not last or stop + len(follows) == len(prompt):
            return stop, text.index(shown)
    stop = prompt.rfind(follows, at) if last else prompt.find(follows, at)
    return (stop, 0) if follows and stop >= 0 else None
