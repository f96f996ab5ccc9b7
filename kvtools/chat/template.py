"""A chat template: the text a model family wants for a list of messages."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jinja2

from kvtools.chat.content_format import detect_content_format
from kvtools.chat.environment import DEFAULT_CLOCK, compiled
from kvtools.chat.messages import prepare_messages, prepare_tools
from kvtools.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from kvtools.chat.messages import ContentFormat

_REASON_CHARS = 200
"""An error sentence quotes at most so much of what a template says about its input."""


@dataclass(frozen=True)
class ChatTemplate:
    """A jinja2 template with the special tokens and the clock that it is rendered with.

    ``source`` is the template's text; ``tool_source`` the text for requests with tools, if the model
    folder has one of its own. ``special_tokens`` maps names as ``bos_token`` to their text. ``clock`` is
    what ``strftime_now`` reads. ``tools_as_logged`` skips vLLM's reshaping of the tools: only for
    templates that no engine runs.
    """

    name: str
    source: str
    special_tokens: Mapping[str, str] = field(default_factory=dict, hash=False)
    tool_source: str | None = None
    clock: datetime = DEFAULT_CLOCK
    tools_as_logged: bool = False

    def __post_init__(self) -> None:
        for source in (self.source, self.tool_source):
            if source is None:
                continue
            try:
                compiled(source, self.clock)
            except jinja2.TemplateSyntaxError as error:
                reason = _one_line(error.message or "syntax error")
                raise TemplateError(
                    f"chat template {self.name}:{error.lineno} does not parse ({reason}): "
                    "correct it or name another."
                ) from error

    @property
    def bos_token(self) -> str | None:
        """The text that begins a prompt, or None if the template has none or it is unknown."""
        return self.special_tokens.get("bos_token")

    @property
    def eos_token(self) -> str | None:
        """The text that ends an answer, or None if the template has none or it is unknown."""
        return self.special_tokens.get("eos_token")

    @property
    def content_format(self) -> ContentFormat:
        """``string`` or ``openai``: how messages' contents reach the template, as vLLM detects it."""
        return self._plans[False][1]

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str:
        """Return the prompt's text for one request.

        ``messages`` and ``tools`` are OpenAI's, as a log holds them; they are prepared as vLLM's server
        does it and are not changed. ``kwargs`` are the request's ``chat_template_kwargs``; those that are
        ``None`` or ``"auto"`` count as not given, as on the server. (A request's own ``reasoning_effort``
        reaches the template as that and as ``enable_thinking`` = effort is not ``none``.)

        Raises:
            TemplateError: the messages are not of the shape that vLLM accepts, or the template raised an
                error of its own.
        """
        shown = list(tools) if tools and self.tools_as_logged else prepare_tools(tools)
        source, content_format, developer = self._plans[shown is not None]
        prepared = prepare_messages(messages, content_format, developer=developer)
        given = {key: value for key, value in kwargs.items() if value is not None and value != "auto"}
        variables = {"documents": None, **self.special_tokens, **given}
        variables.update(messages=prepared, tools=shown, add_generation_prompt=add_generation_prompt)
        try:
            return compiled(source, self.clock).render(variables)
        except Exception as error:  # a stranger's template can raise anything
            raise TemplateError(
                f"chat template {self.name}{_line(error)} refuses its input ({_one_line(str(error))}): "
                "choose the template of the model that served the log, or leave the request out."
            ) from error

    @cached_property
    def _plans(self) -> tuple[tuple[str, ContentFormat, bool], tuple[str, ContentFormat, bool]]:
        """Source, content format and knowledge of the developer role: without tools, with tools."""
        return _plan(self.source), _plan(self.tool_source or self.source)


def _plan(source: str) -> tuple[str, ContentFormat, bool]:
    # vLLM looks for the quoted word, not for the syntax (_detect_developer_role_support).
    developer = '"developer"' in source or "'developer'" in source
    return source, detect_content_format(source), developer


def _line(error: Exception) -> str:
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"
    ]
    return f":{lines[-1]}" if lines else ""


def _one_line(reason: str) -> str:
    flat = " ".join(reason.split()) or "no reason given"
    return flat if len(flat) <= _REASON_CHARS else flat[: _REASON_CHARS - 1] + "…"
