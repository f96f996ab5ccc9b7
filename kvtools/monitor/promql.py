"""PromQL as a tree: as much of its grammar as tells which metrics stand over and under a division, and how.

Grammar: https://prometheus.io/docs/prometheus/latest/querying/basics/ and …/operators/ (precedence). Grafana's
variables (``$__rate_interval``, ``${pod}``) may stand where a label's value, a duration or a number does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

PRECEDENCE = {
    "or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, "<=": 3, ">=": 3, "<": 3, ">": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "atan2": 5, "^": 7,
}  # fmt: skip
_UNARY = 6
_RIGHT = "^"
AGGREGATIONS = (
    "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values",
    "limitk", "limit_ratio",
)  # fmt: skip
_MATCHING = ("on", "ignoring", "group_left", "group_right")

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
    | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    | (?P<range>\[[^\]]*\])
    | (?P<braces>\{(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|[^}"'`])*\})
    | (?P<variable>\$(?:\{[^}]*\}|\w+))
    | (?P<number>(?:\d+(?:ms|[smhdwy]))+|0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<name>[a-zA-Z_:][\w:]*)
    | (?P<sign>==|!=|<=|>=|[-+*/%^<>(),@])""",
    re.VERBOSE,
)


class NotRead(ValueError):  # noqa: N818 - names what happened
    """What stands there is no PromQL that is known here; the message says where."""


@dataclass(frozen=True, slots=True)
class Node:
    """A metric, a call, a binary operation, or a constant.

    ``name``: of the metric, the function, the operator. ``matchers`` and ``range`` (``5m``, empty without) of a metric;
    ``grouped``: an aggregation that keeps labels (``by``, ``without``).
    """

    kind: Literal["metric", "call", "binary", "constant"]
    name: str = ""
    parts: tuple[Node, ...] = ()
    matchers: tuple[str, ...] = ()
    range: str = ""
    grouped: bool = False

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()


def parse(text: str) -> Node:
    """Return the tree of a query.

    Raises:
        NotRead: it is none.
    """
    reading = _Reading(_tokens(text))
    try:
        found = reading.expression(0)
    except RecursionError:
        raise NotRead("nested too deep") from None
    if reading.kind:
        raise NotRead(f"{reading.text!r} was not expected there")
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise NotRead(f"{text[place : place + 12]!r} was not expected there")
        if match.lastgroup != "space":
            found.append((match.lastgroup or "", match[0]))
        place = match.end()
    return found


class _Reading:
    """A place among tokens; ``kind`` and ``text`` of the token there are empty at the end."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = [*tokens, ("", "")]
        self._place = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._place][0]

    @property
    def text(self) -> str:
        return self._tokens[self._place][1]

    def take(self, wanted: str | None = None) -> str:
        kind, text = self._tokens[self._place]
        if not kind or (wanted is not None and text != wanted):
            raise NotRead(f"{wanted or 'more'} was expected {f'before {text!r}' if text else 'at the end'}")
        self._place += 1
        return text

    def expression(self, least: int) -> Node:
        left = self._operand()
        while (operator := self._operator()) and PRECEDENCE[operator] >= least:
            self.take()
            if self.text == "bool":
                self.take()
            while self.text in _MATCHING:
                self.take()
                self._labels()
            right = self.expression(PRECEDENCE[operator] + (operator != _RIGHT))
            left = Node("binary", operator, (left, right))
        return left

    def _operator(self) -> str:
        word = self.text.lower() if self.kind == "name" else self.text
        return word if self.kind in {"name", "sign"} and word in PRECEDENCE else ""

    def _operand(self) -> Node:
        if self.text in {"-", "+"}:
            self.take()
            return self.expression(_UNARY)
        if self.text == "(":
            self.take()
            found = self.expression(0)
            self.take(")")
        elif self.kind in {"number", "text", "variable"}:
            self.take()
            found = Node("constant")
        elif self.kind == "name" and self._tokens[self._place + 1][1] in {"(", "by", "without"}:
            found = self._call()
        elif self.kind in {"name", "braces"}:
            found = self._metric()
        else:
            raise NotRead(f"{self.text!r} was not expected there" if self.text else "it ends too early")
        return self._modified(found)

    def _call(self) -> Node:
        name = self.take()
        known = name.lower() in AGGREGATIONS
        grouped = known and self._grouping()
        self.take("(")
        parts = []
        while self.text != ")":
            parts.append(self.expression(0))
            if self.text != ")":
                self.take(",")
        self.take(")")
        grouped = (known and self._grouping()) or grouped
        return Node("call", name.lower() if known else name, tuple(parts), grouped=grouped)

    def _grouping(self) -> bool:
        if self.text.lower() not in {"by", "without"}:
            return False
        kept = self.take().lower() == "by"
        named = self._labels()
        return named if kept else True

    def _labels(self) -> bool:
        """Pass a list of labels, where there is one, and return whether it names any."""
        if self.text != "(":
            return False
        self.take()
        named = False
        while self.text != ")":
            named = True
            self.take()
        self.take(")")
        return named

    def _metric(self) -> Node:
        name = self.take() if self.kind == "name" else ""
        matchers = []
        if self.kind == "braces":
            inside = self.take()[1:-1]
            matchers = re.findall(
                r"""[\w.:]+\s*(?:=~|!~|!=|=)\s*(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)""", inside
            )
            quoted = re.search(r"""(?:^|,)\s*(?:__name__\s*=\s*)?["']([^"']+)["']\s*(?:,|$)""", inside)
            name = name or (quoted[1] if quoted else "")
        said = sorted(re.sub(r"\s", "", one) for one in matchers if not one.startswith("__name__"))
        return Node("metric", name, matchers=tuple(said))

    def _modified(self, found: Node) -> Node:
        """Return an operand with its range, past ``offset`` and ``@``."""
        while self.kind == "range" or self.text in {"offset", "@"}:
            if self.kind == "range":
                length = self.take()[1:-1].partition(":")[0].strip()
                if found.kind == "metric" and not found.range:
                    found = Node("metric", found.name, (), found.matchers, length)
            elif self.take() == "@" and self._tokens[self._place + 1][1] == "(":
                self.take()
                self.take("(")
                self.take(")")
            else:
                if self.text == "-":
                    self.take()
                self.take()
        return found
