"""A template cut into what can be moved as a whole: text, placeholders, whole statements.

The pieces' sources joined are the template, but for blanks that its own ``{{-`` and ``-%}`` strip: these are
stripped already, and the outer marks are plain, so that a piece prints the same wherever it is put.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import do, i18n, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kvtools.chat.environment import GenerationTag

if TYPE_CHECKING:
    from collections.abc import Iterator

PieceKind: TypeAlias = Literal["text", "value", "block", "silent"]

_Token = tuple[int, str, str]
_OPENS = re.compile(
    r"(?:for|if|macro|call|filter|block|with|autoescape|trans|generation)\b|set\b(?=[^=]*$)", re.DOTALL
)
_SILENT = re.compile(r"(?:set|macro|import|from|do|endset|endmacro)\b")
_OPEN_MARK = re.compile(r"\{([{%#])[-+]")
_CLOSE_MARK = re.compile(r"[-+]?([}%#]\})\s*$")


class Unparsable(Exception):  # noqa: N818 - says what the template is
    """The source is no template: ``line`` where it breaks, and ``reason``."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Piece:
    """``source`` as written, from ``line`` on; ``text`` is what a piece of kind ``text`` prints.

    ``value`` is a placeholder, ``block`` a statement up to its end, ``silent`` prints nothing (a comment, a ``set``).
    """

    kind: PieceKind
    source: str
    line: int
    text: str = ""


@cache
def prompt_environment() -> Environment:
    """Return what prompt templates are parsed with: jinja2's defaults, and the tags of its own extensions."""
    return ImmutableSandboxedEnvironment(extensions=[GenerationTag, loopcontrols, do, i18n])


def parse(source: str) -> nodes.Template:
    """Return the syntax tree; nothing is computed, included or looked up.

    Raises:
        Unparsable: the source is not a template, or is nested too deeply to be read.
    """
    try:
        return prompt_environment().parse(source)
    except TemplateSyntaxError as error:
        raise Unparsable(error.lineno, " ".join((error.message or "syntax error").split())) from None
    except RecursionError:
        raise Unparsable(1, "it is nested too deeply") from None


def pieces_of(source: str) -> list[Piece]:
    """Return the pieces of a template that parses, in their order."""
    return list(_grouped(list(prompt_environment().lex(source))))


def _grouped(tokens: list[_Token]) -> Iterator[Piece]:
    at = 0
    while at < len(tokens):
        line, kind, value = tokens[at]
        if kind == "data":
            yield Piece("text", value, line, value)
            at += 1
            continue
        end = _closing(tokens, at)
        group = tokens[at:end]
        at = end
        source = _outer_marks("".join(text for _, _, text in group))
        if kind == "raw_begin":
            yield Piece("text", source, line, "".join(text for _, name, text in group if name == "data"))
        elif kind == "variable_begin":
            yield Piece("value", source, line)
        elif kind == "comment_begin" or _SILENT.match(_tag(group, 0)):
            yield Piece("silent", source, line)
        else:
            yield Piece("block", source, line)


def _outer_marks(source: str) -> str:
    return _CLOSE_MARK.sub(r"\1", _OPEN_MARK.sub(r"{\1", source, count=1))


def _tag(tokens: list[_Token], at: int) -> str:
    """Return what the tag that begins at ``at`` says, without its marks."""
    inside = []
    for place in range(at + 1, len(tokens)):
        if tokens[place][1].endswith("_end"):
            break
        inside.append(tokens[place][2])
    return "".join(inside).strip()


def _closing(tokens: list[_Token], start: int) -> int:
    """Return the place behind the tag at ``start``, or behind the end of the statement that it opens."""
    end_kind = tokens[start][1].replace("_begin", "_end")
    at = _behind(tokens, start, end_kind)
    if end_kind != "block_end" or not _OPENS.match(_tag(tokens, start)):
        return at
    depth = 1
    while depth and at < len(tokens):
        if tokens[at][1] == "block_begin":
            tag = _tag(tokens, at)
            depth += -1 if tag.startswith("end") else bool(_OPENS.match(tag))
        at += 1
    return _behind(tokens, at, "block_end") if at < len(tokens) else at


def _behind(tokens: list[_Token], start: int, kind: str) -> int:
    at = start
    while at < len(tokens) and tokens[at][1] != kind:
        at += 1
    return at + 1
