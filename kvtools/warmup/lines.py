"""What is sent to warm a prefix: a request whose rendered prompt begins with exactly the prefix's blocks.

A chat request cannot end in the middle of a message's tokens, since the template goes on behind it. So a line carries
the head of a member's own messages, the last one cut just behind the prefix; where that renders otherwise (a template
that trims, or that treats the last message its own way) its messages whole; else the member's request as it is. Which
one it is is found by rendering: the token ids must begin with the prefix's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from kvtools.chat.sections import locate_sections
from kvtools.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kvtools.chat import ChatTemplate
    from kvtools.tokens import Tokenizer

Write: TypeAlias = Literal["batch", "prompts", "token-ids"]
Form: TypeAlias = Literal["cut", "messages", "member", "text", "ids"]

_MARGINS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Characters more than the prefix that are tried: text behind a cut may change the tokens in front of it."""

_PARTS = 24


@dataclass(frozen=True, slots=True)
class Member:
    """A request of the log as it was sent: messages and tools, or text, or token ids. ``media``: pictures or sounds.

    ``source`` is where it stands (``path:line``), ``request_id`` its name there.
    """

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    prompt: str | None = None
    token_ids: list[int] | None = None
    media: bool = False
    source: str | None = None
    request_id: str | None = None

    def body(self) -> dict[str, Any]:
        """Return the request as an OpenAI body without model and length."""
        if self.messages is not None:
            return _chat(self.messages, self.tools)
        return {"prompt": self.prompt if self.token_ids is None else self.token_ids}


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A request that warms: its body without model and length, its prompt's token ids, and how it was made.

    ``cut``: the last message is cut; ``messages``: whole messages; ``member``: a whole request of the log; ``text`` and
    ``ids``: the prefix itself. ``bytes_equal``: how many UTF-8 bytes of prompt it shares with the member, ``None`` for
    ids.
    """

    body: dict[str, Any]
    token_ids: NDArray[np.int32]
    form: Form
    bytes_equal: int | None = None


@dataclass(slots=True)
class LineWriter:
    """Makes lines with the template and tokenizer that the log was keyed with."""

    template: ChatTemplate
    tokenizer: Tokenizer
    write: Write = "batch"
    block_size: int = field(kw_only=True)

    def prompt_of(self, member: Member) -> tuple[str | None, NDArray[np.int32]]:
        """Return a member's prompt as text (``None`` where only ids are known) and as token ids.

        Raises:
            TemplateError: the template refuses the messages.
        """
        if member.token_ids is not None:
            return None, np.array(member.token_ids, dtype=np.int32)
        if member.messages is not None:
            text = self.template.render(member.messages, member.tools)
            return text, self.tokenizer.encode([text]).row(0)
        text = member.prompt or ""
        return text, self.tokenizer.framed([text]).row(0)

    def line(self, member: Member, depth: int) -> Line | None:
        """Return the line that warms the first ``depth`` blocks of a member's prompt, ``None`` where it has fewer."""
        text, ids = self.prompt_of(member)
        wanted = ids[: depth * self.block_size]
        if len(wanted) < depth * self.block_size:
            return None
        if member.media:
            return Line(_whole(member), ids, "member") if self.write == "batch" else None
        if self.write == "token-ids" or text is None:
            return Line({"prompt": wanted.tolist()}, wanted, "ids")
        if self.write == "batch" and member.messages is not None:
            return self._chat_line(member, text, ids, wanted)
        return self._text_line(member, text, ids, wanted)

    def _chat_line(
        self, member: Member, text: str, ids: NDArray[np.int32], wanted: NDArray[np.int32]
    ) -> Line:
        messages = member.messages or []
        for form, head in self._heads(member, text, self._shortest(text, wanted)):
            try:
                rendered = self.template.render(head, member.tools)
            except TemplateError:
                continue
            own = self.tokenizer.encode([rendered]).row(0)
            if len(own) <= len(ids) and np.array_equal(own[: len(wanted)], wanted):
                body = _chat(head, member.tools)
                return Line(body, own, form, _common_bytes(rendered, text))
        return Line(_chat(messages, member.tools), ids, "member", len(text.encode()))

    def _heads(self, member: Member, text: str, end: int) -> Iterator[tuple[Form, list[dict[str, Any]]]]:
        """Yield the heads of the messages that may do, the shortest first."""
        messages = member.messages or []
        for section in locate_sections(self.template, messages, member.tools, text):
            if section.name == "tools" or section.stop < end:
                continue
            place, part = _place(section.name)
            if section.start < end:
                for margin in _MARGINS:
                    keep = end - section.start + section.skipped + margin
                    cut = _cut(messages[place], part, keep)
                    if cut is None:
                        break
                    yield "cut", [*messages[:place], cut]
            break
        else:
            place = 0
        for count in range(max(place, 1), len(messages)):
            yield "messages", messages[:count]

    def _text_line(
        self, member: Member, text: str, ids: NDArray[np.int32], wanted: NDArray[np.int32]
    ) -> Line:
        framed = member.messages is None
        encode = self.tokenizer.framed if framed else self.tokenizer.encode
        # A rendered chat begins with its own BOS: the server must not add another, which would shift every block.
        extra: dict[str, Any] = {} if framed else {"add_special_tokens": False}
        end = self._shortest(text, wanted)
        heads = [text[: end + margin] for margin in _MARGINS]
        rows = encode(heads)
        for place, head in enumerate(heads):
            own = rows.row(place)
            if np.array_equal(own[: len(wanted)], wanted):
                return Line({"prompt": head, **extra}, own, "text", len(head.encode()))
        return Line({"prompt": text, **extra}, ids, "text", len(text.encode()))

    def _shortest(self, text: str, wanted: NDArray[np.int32]) -> int:
        """Return about the fewest characters whose tokens are as many as wanted: longer heads have no fewer."""
        low, high = 0, len(text)
        while high - low > 1:
            ends = sorted({low + (high - low) * part // _PARTS for part in range(1, _PARTS)} - {low})
            counts = self.tokenizer.encode([text[:end] for end in ends]).lengths()
            enough = np.flatnonzero(counts >= len(wanted))
            at = int(enough[0]) if len(enough) else len(ends)
            low, high = (ends[at - 1] if at else low), (ends[at] if at < len(ends) else high)
        return high


def renders_alike(writer: LineWriter, line: Line, members: Sequence[Member], depth: int) -> int:
    """Return how many members begin with the same ``depth`` blocks as the line, id for id.

    Equal ids are equal bytes: a token stands for one string of bytes.
    """
    wanted = line.token_ids[: depth * writer.block_size]
    alike = 0
    for member in members:
        try:
            _, ids = writer.prompt_of(member)
        except TemplateError:
            continue
        alike += np.array_equal(ids[: len(wanted)], wanted)
    return alike


def _whole(member: Member) -> dict[str, Any]:
    return {"prompt": member.token_ids} if member.messages is None else _chat(member.messages, member.tools)


def _chat(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> dict[str, Any]:
    # "none": the tools are part of the prompt, and the answer does not matter.
    return {"messages": messages} | ({"tools": tools, "tool_choice": "none"} if tools else {})


def _place(section: str) -> tuple[int, int | None]:
    """Return message and part of a name as ``messages[1]`` or ``messages[1].content[0]``."""
    numbers = [int(part.partition("]")[0]) for part in section.split("[")[1:]]
    return numbers[0], numbers[1] if len(numbers) > 1 else None


def _cut(message: dict[str, Any], part: int | None, keep: int) -> dict[str, Any] | None:
    """Return a message whose text is cut to ``keep`` characters, ``None`` where it has no more than that."""
    content = message["content"]
    if part is None:
        return {**message, "content": content[:keep]} if keep < len(content) else None
    text = content[part]["text"]
    if keep >= len(text):
        return None
    return {**message, "content": [*content[:part], {**content[part], "text": text[:keep]}]}


def _common_bytes(one: str, other: str) -> int:
    first, second = one.encode(), other.encode()
    length = min(len(first), len(second))
    different = np.frombuffer(first[:length], np.uint8) != np.frombuffer(second[:length], np.uint8)
    return int(different.argmax()) if different.any() else length
