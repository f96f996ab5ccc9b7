"""Whether a template wants a message's content as one text or as a list of parts.

vLLM decides by reading the template (``--chat-template-content-format auto``, ``_detect_content_format`` in
``vllm/renderers/hf.py``): a template that loops over a message's content is given OpenAI's list of parts,
any other is given a text. The same question is asked here of the same syntax tree.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from jinja2 import nodes

from kvtools.chat.environment import DEFAULT_CLOCK, environment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvtools.chat.messages import ContentFormat


class _TooTangled(Exception):  # noqa: N818 - never leaves this module
    """A target that is no plain name; vLLM gives up on such a template and calls it ``string``."""


@lru_cache(maxsize=32)
def detect_content_format(source: str) -> ContentFormat:
    """Return ``openai`` if the template loops over a message's content, else ``string``.

    Raises:
        jinja2.TemplateSyntaxError: the source is not a template.
    """
    tree = environment(DEFAULT_CLOCK).parse(source)
    try:
        return "openai" if _loops_over_content(tree) else "string"
    except _TooTangled:
        return "string"


def _loops_over_content(tree: nodes.Template) -> bool:
    loops = list(tree.find_all(nodes.For))
    lists = _aliases_of_messages(tree)
    messages = [_name(loop.target) for loop in loops if any(_reads(loop.iter, name) for name in lists)]
    in_macro: dict[int, set[str]] = {}
    for macro in tree.find_all(nodes.Macro):
        given = _parameters_given_content(tree, macro, messages)
        for loop in macro.find_all(nodes.For):
            in_macro.setdefault(id(loop), set()).update(given)
    for loop in loops:
        if any(_reads(loop.iter, message, "content") for message in messages):
            _name(loop.target)
            return True
        if isinstance(loop.iter, nodes.Name):
            # Outside a macro a variable called content is taken for the message's; inside, only a
            # parameter that some call fills with it.
            names = in_macro.get(id(loop), {"content"})
            if loop.iter.name in names:
                _name(loop.target)
                return True
    return False


def _aliases_of_messages(tree: nodes.Template) -> list[str]:
    """Return ``messages`` and every name that is set to it, to a slice of it or to a filter over it."""
    names = ["messages"]
    queue = ["messages"]
    while queue:
        source = queue.pop(0)
        for assignment in tree.find_all(nodes.Assign):
            if _reads(assignment.node, source):
                target = _name(assignment.target)
                names.append(target)
                if target != source:
                    queue.append(target)
    return names


def _parameters_given_content(tree: nodes.Template, macro: nodes.Macro, messages: Iterable[str]) -> set[str]:
    parameters = [argument.name for argument in macro.args]
    given: set[str] = set()
    for call in tree.find_all(nodes.Call):
        if not (isinstance(call.node, nodes.Name) and call.node.name == macro.name):
            continue
        # A call with too many arguments fails when it runs; that is the template's affair.
        filled = [
            *zip(parameters, call.args, strict=False),
            *((kwarg.key, kwarg.value) for kwarg in call.kwargs if kwarg.key in parameters),
        ]
        given.update(
            name for name, value in filled if any(_reads(value, message, "content") for message in messages)
        )
    return given


def _reads(node: nodes.Node | None, name: str, key: str | None = None) -> bool:
    """Say whether ``node`` is ``name`` (or ``name.key``), possibly filtered, tested or sliced."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if key is None:
        return _reads_plain(node, name)
    if isinstance(node, nodes.Getitem):
        return _reads_plain(node.node, name) and isinstance(node.arg, nodes.Const) and node.arg.value == key
    return isinstance(node, nodes.Getattr) and _reads_plain(node.node, name) and node.attr == key


def _reads_plain(node: nodes.Node | None, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name


def _name(target: nodes.Node) -> str:
    if not isinstance(target, nodes.Name):
        raise _TooTangled
    return target.name
