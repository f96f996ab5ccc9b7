"""What one piece of a template reads: variables, and calls that give another value each time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from jinja2 import nodes

from kvtools.linting.names import CHANGES, Changes, Judgement, judge
from kvtools.linting.pieces import Piece, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CallKind: TypeAlias = Literal["clock", "random", "fresh-id"]

_CALLS_BY_KIND: dict[CallKind, str] = {
    "clock": "strftime_now now utcnow today current_time current_date current_datetime get_current_time time_ns "
    "localtime gmtime get_date get_time timestamp_now",
    "random": "random shuffle shuffled sample choice choices randint randrange rand uniform lipsum",
    "fresh-id": "uuid uuid1 uuid3 uuid4 uuid5 uuid6 uuid7 ulid nanoid token_hex token_urlsafe urandom new_id "
    "generate_id gen_id cuid ksuid objectid",
}
_CALLS = {name: kind for kind, names in _CALLS_BY_KIND.items() for name in names.split()}
_CLOCK_OF = frozenset({("time", "time")})
"""``time.time()`` reads the clock, while a method ``time`` of something else need not."""
_GLOBALS = (
    "range dict namespace joiner cycler lipsum loop caller raise_exception self super varargs kwargs _ gettext "
    "ngettext true false none True False None"
)
_BUILT_IN = frozenset(_GLOBALS.split())


@dataclass(frozen=True, slots=True)
class Use:
    """A variable that is printed or decides what is printed: dotted ``name``, ``line``, and what it likely is."""

    name: str
    line: int
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Call:
    """A call or filter whose result is another one each time."""

    name: str
    line: int
    kind: CallKind


@dataclass(slots=True)
class Reading:
    """What one piece reads. ``changes`` is the worst of it."""

    uses: list[Use] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    @property
    def changes(self) -> Changes:
        """How often what the piece prints changes."""
        if self.calls:
            return "request"
        return max((use.judgement.changes for use in self.uses), key=CHANGES.index, default="never")


class Reader:
    """Reads the pieces in their order, and remembers what ``set`` and ``macro`` make of other names.

    ``given`` overrules the judgement by names.
    """

    def __init__(self, given: Mapping[str, Changes]) -> None:
        self._given = given
        self._made: dict[str, Reading] = {}
        self.assigned: list[str] = []

    def read(self, piece: Piece) -> Reading:
        """Return what the piece reads; a piece that prints nothing is remembered by the names it sets."""
        if piece.kind == "text":
            return Reading()
        tree = parse(piece.source)
        # What a loop or a block sets is its own; what a piece sets for others may be made of its own old value.
        local = set() if piece.kind == "silent" else {name.name for name in _stored(tree)}
        local |= {name.name for name in tree.find_all(nodes.Name) if name.ctx == "param"}
        reading = self._reading(tree, piece.line - 1, local)
        for include in tree.find_all(nodes.Include):
            line = include.lineno + piece.line - 1
            reading.uses.append(Use("include", line, judge("include", self._given)))
        for node in tree.body:
            for name in _names_made(node):
                self.assigned.append(name)
                self._made[name] = reading
        return reading

    def _reading(self, node: nodes.Node, shift: int, local: set[str]) -> Reading:
        found = Reading()
        for one, decides in _expressions(node):
            self._take(one, shift, local, found, decides=decides)
        return found

    def _take(self, node: nodes.Node, shift: int, local: set[str], found: Reading, *, decides: bool) -> None:
        called = call_of(node)
        if called is not None:
            found.calls.append(replace(called, line=called.line + shift))
            return
        name = dotted(node)
        root = name.split(".", 1)[0] if name else ""
        if not root or root in _BUILT_IN:
            return
        if root in self._made:
            # Each name once: values made of values made of values would double with every step.
            made = self._made[root]
            found.calls += [call for call in made.calls if call not in found.calls]
            uses = made.uses
        else:
            uses = [] if root in local else [Use(name, 0, judge(name, self._given))]
        known = {(use.name, use.judgement) for use in found.uses} if root in self._made else set()
        for use in uses:
            judged = _choice(use.judgement) if decides else use.judgement
            if (use.name, judged) not in known:
                found.uses.append(Use(use.name, node.lineno + shift, judged))


def _choice(judgement: Judgement) -> Judgement:
    """Judge what only decides which text is printed: requests that it decides alike share it, as a class does."""
    beyond = CHANGES.index(judgement.changes) > CHANGES.index("class")
    return replace(judgement, changes="class") if beyond else judgement


def _names_made(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.Macro):
        yield node.name
    elif isinstance(node, nodes.Assign | nodes.AssignBlock):
        yield from (name.name for name in _stored(node))
        if isinstance(node.target, nodes.NSRef):
            yield node.target.name
    elif isinstance(node, nodes.Import):
        yield node.target
    elif isinstance(node, nodes.FromImport):
        yield from (name if isinstance(name, str) else name[1] for name in node.names)


def _stored(node: nodes.Node) -> Iterator[nodes.Name]:
    return (name for name in node.find_all(nodes.Name) if name.ctx == "store")


def _expressions(node: nodes.Node, *, decides: bool = False) -> Iterator[tuple[nodes.Node, bool]]:
    """Yield each outermost variable (``user.id`` as one) and each call that gives another value each time.

    With each whether it stands in a condition, which prints nothing itself. Methods of a variable count as the
    variable: ``text.strip()``; what a ``for`` runs over counts too.
    """
    condition = node.test if isinstance(node, nodes.If | nodes.CondExpr) else None
    for child in node.iter_child_nodes():
        yield from _outermost(child, decides=decides or child is condition)


def _outermost(node: nodes.Node, *, decides: bool) -> Iterator[tuple[nodes.Node, bool]]:
    if call_of(node) is not None:
        yield node, decides
        if isinstance(node, nodes.Filter):
            yield from _expressions(node, decides=decides)
    elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        for part in (node.node.node, *node.args, *(kwarg.value for kwarg in node.kwargs)):
            yield from _outermost(part, decides=decides)
    elif dotted(node):
        yield node, decides
    else:
        yield from _expressions(node, decides=decides)


def call_of(node: nodes.Node) -> Call | None:
    """Return what ``node`` calls, if it is a call or filter that gives another value each time; else ``None``."""
    if isinstance(node, nodes.Filter):
        kind = _CALLS.get(node.name)
        return None if kind is None else Call(f"|{node.name}", node.lineno, kind)
    if not isinstance(node, nodes.Call):
        return None
    name = dotted(node.node)
    parts = tuple(name.split("."))
    kind = "clock" if parts[-2:] in _CLOCK_OF else _CALLS.get(parts[-1])
    return None if kind is None else Call(f"{name}()", node.lineno, kind)


def dotted(node: nodes.Node | None) -> str:
    """Return ``user.id`` for ``user.id`` and ``user['id']``, a slice as what is sliced; empty for anything else."""
    if isinstance(node, nodes.Name):
        return str(node.name) if node.ctx == "load" else ""
    if isinstance(node, nodes.Getattr):
        inner = dotted(node.node)
        return f"{inner}.{node.attr}" if inner else ""
    if isinstance(node, nodes.Getitem):
        inner = dotted(node.node)
        if inner and isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            return f"{inner}.{node.arg.value}"
        return inner if isinstance(node.arg, nodes.Const | nodes.Slice) else ""
    return ""
