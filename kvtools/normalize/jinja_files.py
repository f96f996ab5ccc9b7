"""Templates as jinja2 source, and back: no template is ever run here, only read.

What is written holds for a plain ``jinja2.Environment()`` with its default settings: it makes every line end of a
source a line feed and drops one at the end, so that carriage returns and a last line feed are written as expressions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvtools.errors import InputError
from kvtools.fields.template import RESERVED_NAMES
from kvtools.normalize.hoist import BLOCK_GAP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from jinja2 import nodes

    from kvtools.fields.template import SectionTemplate
    from kvtools.normalize.hoist import Moves

_SPECIAL = "\r\ufeff\ud800-\udfff"
"""What a source or a file cannot hold as it is: carriage returns, byte order marks, lone surrogates."""

# What opens a tag; a brace that would open one with what follows it: another placeholder or expression.
_NOT_PLAIN = re.compile(rf"\{{+[%#]|\{{{{2,}}|\{{(?=[{_SPECIAL}]|\Z)|[{_SPECIAL}]+")
_LAST_LINE_FEED = re.compile(r"\{?\n\Z")

_WHAT = {
    "For": "a loop",
    "If": "a condition",
    "CondExpr": "a condition",
    "Getattr": "an attribute",
    "Getitem": "an item of a value",
    "Filter": "a filter",
    "FilterBlock": "a filter",
    "Call": "a call",
    "CallBlock": "a call",
    "Include": "an include",
    "Import": "an import",
    "FromImport": "an import",
    "Extends": "an extends",
    "Block": "a block",
    "Macro": "a macro",
    "Assign": "a set",
    "AssignBlock": "a set",
}


def logged_source(template: SectionTemplate) -> str:
    """Return jinja2 source that renders to the logged text, byte for byte, from values by name."""
    parts = [_literal(template.literals[0])]
    for gap, literal in zip(template.gaps, template.literals[1:], strict=True):
        parts += (f"{{{{ {gap.name} }}}}", _literal(literal))
    return _ended("".join(parts))


def served_source(moves: Moves, one_line: Collection[str] = ()) -> str:
    """Return jinja2 source that renders to the rewritten text: ``Moved.text`` for the same values.

    A value that holds a line feed stands in the block on lines of its own, and one that ends in a line feed leaves a
    whole line: conditions say so. For the names in ``one_line``, whose values never do, they are left out.
    """
    template = moves.template
    source: list[str] = []
    block: dict[str, str] = {}
    text = template.literals[0]
    for number, gap in enumerate(template.gaps):
        name, mark, literal = gap.name, moves.marks[number], template.literals[number + 1]
        if number not in moves.gaps:
            source += (_literal(text), f"{{{{ {name} }}}}")
            text = literal
        elif name in one_line:
            block[mark] = _literal(f"{mark}: ") + f"{{{{ {name} }}}}"
            text += mark + literal
        else:
            between = f'{{{{ "\\n" if "\\n" in {name} else " " }}}}'
            block[mark] = _literal(f"{mark}:") + between + f"{{{{ {name} }}}}"
            source += (_literal(text + mark), f'{{{{ "\\n" if {name}[-1:] == "\\n" else "" }}}}')
            text = literal
    source += (_literal(text), BLOCK_GAP, "\n".join(block.values()))
    return _ended("".join(source))


def parsed(source: str, path: Path | str, first_line: int = 1) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the literals of a template and the names of the placeholders between them.

    The source is read as plain jinja2 reads it; nothing of it is run. ``first_line`` is the line of ``path`` at which
    it begins.

    Raises:
        InputError: it is no jinja2, or holds more than text and ``{{ name }}``; or two placeholders stand side by side.
    """
    literals, names = [""], list[str]()
    for line, name, text in _pieces(source, path, first_line):
        if not name:
            literals[-1] += text
            continue
        if names and not literals[-1]:
            raise InputError(
                f"{path}:{line}: {names[-1]} and {name} stand side by side, so their values cannot be told apart; "
                "put text between the two."
            )
        names.append(name)
        literals.append("")
    return tuple(literals), tuple(names)


def _pieces(source: str, path: Path | str, first_line: int) -> Iterator[tuple[int, str, str]]:
    """Yield ``(line, name, text)`` of each piece: a placeholder has a name, stable text has none."""
    from jinja2 import Environment, TemplateSyntaxError, nodes  # noqa: PLC0415 - only where templates are read

    shift = first_line - 1
    try:
        tree = Environment(autoescape=False).parse(source)  # noqa: S701 - parsed, never rendered; a prompt is no HTML
    except TemplateSyntaxError as error:
        raise InputError(
            f"{path}:{error.lineno + shift}: not a jinja2 template ({error.message}); repair it."
        ) from None
    except (RecursionError, ValueError, OverflowError):
        raise InputError(
            f"{path}:{first_line}: not a template that can be matched (an expression is too deep or too long); "
            "keep text and {{ name }}."
        ) from None
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            raise _unmatchable(output, path, shift)
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                yield node.lineno + shift, "", node.data
            elif isinstance(node, nodes.Const) and isinstance(node.value, str):
                yield node.lineno + shift, "", node.value
            elif isinstance(node, nodes.Name) and node.name not in RESERVED_NAMES:
                yield node.lineno + shift, node.name, ""
            else:
                raise _unmatchable(node, path, shift)


def _unmatchable(node: nodes.Node, path: Path | str, shift: int) -> InputError:
    what = _WHAT.get(type(node).__name__, "an expression")
    return InputError(
        f"{path}:{node.lineno + shift}: {what} can be rendered but not matched against a prompt; "
        "keep text and {{ name }}."
    )


def _literal(text: str) -> str:
    """Return source for stable text. A brace at its end counts as opening: what follows may begin with one."""
    return _NOT_PLAIN.sub(lambda match: _expression(match.group()), text)


def _expression(text: str) -> str:
    return '{{ "' + text.encode("unicode_escape").decode() + '" }}'


def _ended(source: str) -> str:
    """Return the source with a last line feed as an expression: jinja2 drops one at the end of a source."""
    return _LAST_LINE_FEED.sub(lambda match: _expression(match.group()), source)
