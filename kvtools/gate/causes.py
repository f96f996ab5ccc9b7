"""The causes of a verdict, each with its place: a line of a template where those are known, else of a log."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from kvtools.report.check import Cause, Place
from kvtools.report.findings_text import what
from kvtools.report.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jinja2 import nodes

    from kvtools.gate.rendering import GivenTemplate, ValuesRead
    from kvtools.report.check import Level
    from kvtools.report.findings import Finding
    from kvtools.report.model import Report
    from kvtools.tokens import Tokenizer

FIELD_IN_FRONT = "field-in-front"
PLACEHOLDER_IN_FRONT = "placeholder-before-stable-text"
CACHE_TOO_SMALL = "cache-too-small"


class _Piece(NamedTuple):
    """What a template prints next: a value (by the names in it) or text. ``bare``: nothing but the value itself."""

    line: int
    names: frozenset[str]
    text: str
    bare: bool


def template_causes(
    templates: Mapping[str, GivenTemplate], values: ValuesRead, tokenizer: Tokenizer, block_size: int
) -> list[Cause]:
    """Return the placeholders whose recorded values vary and that stand in front of at least a block of stable text.

    The first of a template is an error: nothing behind it is reused. The others are warnings.
    """
    return [
        cause
        for name in sorted(templates)
        for cause in _of_template(
            templates[name],
            [entry.values for _, entry in values.entries if entry.template == name],
            lambda text: int(tokenizer.encode([text]).lengths()[0]) if text else 0,
            block_size,
        )
    ]


def _of_template(
    template: GivenTemplate,
    recorded: Sequence[Mapping[str, object]],
    count: Callable[[str], int],
    block_size: int,
) -> Iterator[Cause]:
    pieces = list(_pieces(template))
    distinct = {name: _distinct(recorded, name) for piece in pieces for name in piece.names}
    level: Level = "error"
    for place, piece in _first_prints(pieces):
        varying = [name for name in sorted(piece.names) if distinct[name] > 1]
        # A value ends what can be reused, so that text counts that stands together between two of them.
        runs = [count(run) for run in _runs(pieces[place + 1 :], distinct)] if varying else []
        if max(runs, default=0) < block_size:
            continue
        message = (
            f"{{{{ {', '.join(varying)} }}}} ({max(distinct[name] for name in varying):,} values in "
            f"{counted(len(recorded), 'request')}) stands in front of {counted(sum(runs), 'stable token')}: "
            "move it behind them"
        )
        place_of = Place(path=str(template.path), line=piece.line)
        yield _made(PLACEHOLDER_IN_FRONT, message, place_of, level, ", ".join(varying))
        level = "warning"


def _runs(pieces: Sequence[_Piece], distinct: Mapping[str, int]) -> list[str]:
    """Return the text of the template between values that vary."""
    runs = [""]
    for piece in pieces:
        if any(distinct[name] > 1 for name in piece.names):
            runs.append("")
        runs[-1] += piece.text
    return runs


def _distinct(recorded: Sequence[Mapping[str, object]], name: str) -> int:
    return len({repr(values[name]) for values in recorded if name in values})


def _first_prints(pieces: Sequence[_Piece]) -> Iterator[tuple[int, _Piece]]:
    """Yield where each value is printed first: bare if it ever is, as a condition on it prints no value."""
    bare = frozenset(name for piece in pieces if piece.bare for name in piece.names)
    seen: set[str] = set()
    for place, piece in enumerate(pieces):
        fresh = piece.names - seen if piece.bare else piece.names - seen - bare
        if fresh:
            seen |= fresh
            yield place, piece._replace(names=fresh)


def _pieces(template: GivenTemplate) -> Iterator[_Piece]:
    from jinja2 import Environment  # noqa: PLC0415 - only where templates are read

    tree = Environment(autoescape=False).parse(template.source)  # noqa: S701 - parsed, never rendered
    yield from _of_nodes(tree.body, prints=False)


def _of_nodes(body: Iterable[nodes.Node], *, prints: bool) -> Iterator[_Piece]:
    from jinja2 import nodes  # noqa: PLC0415 - only where templates are read

    for node in body:
        if isinstance(node, nodes.TemplateData):
            yield _Piece(node.lineno, frozenset(), node.data, bare=False)
        elif isinstance(node, nodes.Const) and isinstance(node.value, str) and prints:
            yield _Piece(node.lineno, frozenset(), node.value, bare=False)
        elif isinstance(node, nodes.Expr):
            names = frozenset(
                name.name
                for name in (node, *node.find_all(nodes.Name))
                if isinstance(name, nodes.Name) and name.ctx == "load"
            )
            yield _Piece(node.lineno, names, "", bare=prints and not isinstance(node, nodes.CondExpr))
        else:
            yield from _of_nodes(node.iter_child_nodes(), prints=isinstance(node, nodes.Output))


def log_causes(report: Report, places: Mapping[str, Place]) -> list[Cause]:
    """Return the findings that pay, the dearest first, and a cache that is too small; ``places`` by a finding's id."""
    causes = [
        _of_finding(found, places[found.id])
        for found in report.findings or ()
        if found.severity != "info" and found.id in places
    ]
    if report.verdict is not None and report.verdict.kind == "cache_too_small" and report.inputs:
        place = Place(path=report.inputs[0].path, line=None)
        causes.insert(0, _made(CACHE_TOO_SMALL, report.verdict.sentence, place, "error", "cache"))
    return causes


def _of_finding(found: Finding, place: Place) -> Cause:
    rule = FIELD_IN_FRONT if found.fields else found.kind.replace("_", "-")
    where = (
        found.section
        if found.position_chars is None
        else f"{found.section}, character {found.position_chars:,}"
    )
    lost = "" if found.tokens_lost is None else f", {counted(found.tokens_lost, 'token')} lost"
    message = f"{what(found)} ({where}{lost}): {found.fix}"
    return _made(rule, message, place, "error" if found.severity == "high" else "warning", found.id)


def _made(rule: str, message: str, place: Place, level: Level, key: str) -> Cause:
    # Without the line: a cause stays the same when lines above it come or go.
    digest = blake2b(f"{rule}\0{place.path}\0{key}".encode(), digest_size=16).hexdigest()
    return Cause(rule=rule, message=message, place=place, level=level, fingerprint=digest)
