"""The jinja2 sandbox that chat templates run in, set up as Hugging Face transformers sets it up.

The reference is ``transformers/utils/chat_template_utils.py`` (5.19): the same environment options, the
same extra tag, filters and globals. One thing differs on purpose: the clock is given, never read.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2.parser import Parser

DEFAULT_CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
"""What ``strftime_now`` says unless the caller gives another clock, so that a run can be repeated."""


class GenerationTag(Extension):
    """``{% generation %} … {% endgeneration %}`` marks an answer for training; here it renders its body."""

    tags = {"generation"}  # noqa: RUF012 - jinja2 declares it as an instance attribute

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the body as a block that is called and rendered where it stands, with a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller: Callable[[], str]) -> str:
        return caller()


class ChatSandbox(ImmutableSandboxedEnvironment):
    """The immutable sandbox, quick at what chat templates do most: reading loops and namespaces.

    Invariant: it permits what ``ImmutableSandboxedEnvironment`` permits, and nothing else. A public
    attribute of a loop or a namespace whose value is plain data passes all of that class's checks, so they
    are left out; they cost ten times the read itself.
    """

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return an attribute or item of ``obj``, or an undefined value where the sandbox refuses it."""
        if type(obj) in _TRUSTED_HOLDERS and not attribute.startswith("_"):
            value = getattr(obj, attribute, None)
            if type(value) in _PLAIN_DATA:
                return value
        return super().getattr(obj, attribute)


_TRUSTED_HOLDERS = (LoopContext, Namespace)
_PLAIN_DATA = (str, int, bool, float, list, dict, tuple)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - templates may pass it by position
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 - the same
) -> str:
    # jinja2's own filter escapes <, > and & for HTML; a prompt is not HTML.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


@lru_cache(maxsize=8)
def environment(clock: datetime) -> ImmutableSandboxedEnvironment:
    """Return the sandbox whose ``strftime_now`` reads ``clock``."""
    sandbox = ChatSandbox(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols])
    for name, function in sandbox.filters.items():
        # Each call of these asks whether its environment is asynchronous, which this one never is.
        if getattr(function, "jinja_async_variant", False):
            sandbox.filters[name] = function.__wrapped__
    sandbox.filters["tojson"] = _tojson
    sandbox.globals["raise_exception"] = _raise_exception
    sandbox.globals["strftime_now"] = clock.strftime
    return sandbox


@lru_cache(maxsize=32)
def compiled(source: str, clock: datetime) -> jinja2.Template:
    """Return the compiled template; the same source and clock are compiled once.

    Raises:
        jinja2.TemplateSyntaxError: the source is not a template.
    """
    template = environment(clock).from_string(source)
    # Each prompt copies them: of a ChainMap over globals that never change, that took a quarter of the rendering.
    template.globals = dict(template.globals)
    return template
