"""What a template prints in an order that nothing fixes: items of a dict, members of a set, keys of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import nodes

from kvtools.linting.findings import Finding
from kvtools.linting.reading import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.linting.findings import Severity

_DICT_METHODS = frozenset({"items", "keys", "values"})
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
_SET_TYPES = frozenset({"set", "frozenset"})
_SORTS = frozenset({"sort", "dictsort"})
_COUNTS = frozenset({"length", "count", "sum", "max", "min"})


def order_findings(tree: nodes.Template, *, chat: bool) -> list[Finding]:
    """Return where the order of what is printed depends on how a dict or set was made.

    In a chat template the order is that of the request as sent, and the form is the model's own: a note, no fault.
    jinja2's own ``tojson`` sorts keys (policy ``json.dumps_kwargs``); the one that transformers and vLLM give to chat
    templates (``transformers/utils/chat_template_utils.py``) keeps them as they come unless ``sort_keys`` is true.
    """
    literals = {
        name.name
        for assign in tree.find_all(nodes.Assign)
        if isinstance(assign.node, nodes.Dict | nodes.List | nodes.Tuple)
        for name in assign.find_all(nodes.Name)
        if name.ctx == "store"
    }
    found = [_unsorted(*one, chat=chat) for one in _unordered(tree, literals)]
    return found + list(_json(tree)) if chat else found


def _unsorted(line: int, what: str, is_set: bool, *, chat: bool) -> Finding:  # noqa: FBT001 - one of three in a row
    if is_set:
        why = "a set has no order: sort it (|sort), so that equal data gives equal text"
    elif chat:
        why = (
            "the order is that in which the dict was filled: send equal data in equal order in every request"
        )
    else:
        why = "the order is that in which the dict was filled: sort it (|dictsort), so that equal data gives equal text"
    severity: Severity = "info" if chat and not is_set else "warning"
    return Finding(line, "unordered-loop", severity, f"{what} is printed as it comes, and {why}.")


def _json(tree: nodes.Template) -> Iterator[Finding]:
    for call in tree.find_all(nodes.Filter):
        if call.name != "tojson":
            continue
        given = [kwarg.value for kwarg in call.kwargs if kwarg.key == "sort_keys"] + call.args[3:4]
        sort = given[0] if given else None
        if sort is None or (isinstance(sort, nodes.Const) and not sort.value):
            yield Finding(
                call.lineno,
                "unsorted-tojson",
                "info",
                f"{dotted(call.node) or 'a value'}|tojson keeps the order of keys as sent (transformers' tojson, which "
                "vLLM uses, does not sort; jinja2's own does): send keys in the same order in every request.",
            )


def _unordered(tree: nodes.Template, literals: set[str]) -> Iterator[tuple[int, str, bool]]:
    for loop in tree.find_all(nodes.For):
        if next(loop.find_all(nodes.Output), None) is not None:
            yield from _inside(loop.iter, literals)
    for output in tree.find_all(nodes.Output):
        for value in output.nodes:
            yield from _inside(value, literals)


def _inside(node: nodes.Node | None, literals: set[str]) -> Iterator[tuple[int, str, bool]]:
    """Yield what is unordered in an expression, unless it is sorted or only counted there."""
    sorted_here = isinstance(node, nodes.Filter) and node.name in _SORTS | _COUNTS
    if node is None or sorted_here or isinstance(node, nodes.Compare | nodes.Test):
        return
    what = _dict_items(node, literals)
    members = _set(node)
    if what is not None:
        yield node.lineno, what, False
    elif members is not None:
        yield node.lineno, members, True
    else:
        for child in node.iter_child_nodes():
            yield from _inside(child, literals)


def _dict_items(node: nodes.Node, literals: set[str]) -> str | None:
    """Return how the items of a dict are named, if ``node`` is those of one that the template did not write itself."""
    if isinstance(node, nodes.Filter) and node.name == "items":
        name = dotted(node.node)
        return None if name in literals else f"{name or 'a dict'}|items"
    if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        name = dotted(node.node.node)
        if node.node.attr in _DICT_METHODS and not node.args and name not in literals:
            return f"{name or 'a dict'}.{node.node.attr}()"
    return None


def _set(node: nodes.Node) -> str | None:
    """Return how a set is named, if ``node`` is one."""
    if isinstance(node, nodes.Call):
        owner = node.node
        if isinstance(owner, nodes.Getattr) and owner.attr in _SET_METHODS:
            return f"{dotted(owner.node) or 'a set'}.{owner.attr}(…)"
        return f"{owner.name}(…)" if isinstance(owner, nodes.Name) and owner.name in _SET_TYPES else None
    name = dotted(node)
    last = name.rsplit(".", 1)[-1]
    return name if last in {"set", "sets"} or last.endswith("_set") else None
