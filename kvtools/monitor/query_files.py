"""Queries of Grafana dashboards, of Prometheus' rule files and of plain text, each with its place."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = re.compile(
    r"\s*([A-Za-z_][\w.-]*)(?:\s*:\s+|\s+)(?=[A-Za-z_({\d-])(?!(?:by|without|or|and|unless|offset|bool)\b)"
)
"""A name before a query, as in ``Q1 rate(…)``: PromQL has no two names beside one another but with these words."""

_KEY = "expr"
_NAMES = ("record", "alert", "title")


@dataclass(frozen=True, slots=True)
class Query:
    """A query, the line it stands on (from 1) and its name: of the rule, of the panel, or what stands before it."""

    text: str
    line: int
    name: str | None


def queries_of(name: str, text: str) -> list[Query]:
    """Return the queries of a file; ``name`` tells its kind where it ends in .json, .yaml or .yml.

    Raises:
        InputError: it is no JSON or YAML though its name says so.
    """
    if name.endswith(".json"):
        return list(_of_dashboard(name, text))
    if name.endswith((".yaml", ".yml")):
        return list(_of_rules(name, text))
    return list(_of_lines(text))


def _of_lines(text: str) -> Iterator[Query]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        named = _NAMED.match(line)
        query = line[named.end() :] if named else line
        yield Query(query.strip(), number, named[1] if named else None)


def _of_dashboard(name: str, text: str) -> Iterator[Query]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise InputError(f"{name}:{line}: not JSON; name a dashboard as Grafana exports it.") from None
    place = 0
    for expression, title in _under(document, None):
        # The text of a file has its queries in the order of its tree.
        found = next(
            (
                at
                for at in (
                    text.find(json.dumps(expression, ensure_ascii=way), place) for way in (False, True)
                )
                if at >= 0
            ),
            place,
        )
        place = found
        yield Query(expression, text.count("\n", 0, found) + 1, title)


def _under(node: Any, title: str | None) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, list):
        for one in node:
            yield from _under(one, title)
    if isinstance(node, dict):
        title = next((node[key] for key in _NAMES if isinstance(node.get(key), str) and node[key]), title)
        for key, one in node.items():
            if key == _KEY and isinstance(one, str):
                if one.strip():
                    yield one, title
            else:
                yield from _under(one, title)


def _of_rules(name: str, text: str) -> Iterator[Query]:
    try:
        documents = list(yaml.compose_all(text, yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        raise InputError(f"{name}:{line}: not YAML; name a rule file as Prometheus reads it.") from None
    for document in documents:
        yield from _below(document, None)


def _below(node: yaml.Node | None, title: str | None) -> Iterator[Query]:
    if isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from _below(one, title)
    if isinstance(node, yaml.MappingNode):
        said = {key.value: one.value for key, one in node.value if isinstance(one, yaml.ScalarNode)}
        title = next((said[key] for key in _NAMES if said.get(key)), title)
        for key, one in node.value:
            if key.value == _KEY and isinstance(one, yaml.ScalarNode):
                if one.value.strip():
                    yield Query(one.value, one.start_mark.line + 1, title)
            else:
                yield from _below(one, title)
