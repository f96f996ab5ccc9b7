"""``lint_queries``: what is wrong with the queries of dashboards and rules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from kvtools import __version__
from kvtools.errors import InputError
from kvtools.monitor.promql import NotRead, parse
from kvtools.monitor.query_faults import faults, roles
from kvtools.monitor.query_files import queries_of
from kvtools.readers.sources import unreadable
from kvtools.report.query_lint import (
    QUERY_LINT_SCHEMA_VERSION,
    LintedQuery,
    QueryCounts,
    QueryFinding,
    QueryLintReport,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.flow.intake import PathLike
    from kvtools.monitor.query_files import Query

_SUFFIXES = (".json", ".yaml", ".yml", ".promql", ".txt")
UNREADABLE = "unreadable"


def lint_queries(paths: Sequence[PathLike] | PathLike) -> QueryLintReport:
    """Return what is wrong with the queries in ``paths``; ``report.exit_code`` is the gate's.

    A file is a dashboard as Grafana exports it (.json), a rule file of Prometheus (.yaml, .yml), or text with a query a
    line, a name before it or not. Of a folder, files with these suffixes, .promql and .txt are read.

    Raises:
        InputError: a path is missing or unreadable, or holds no query.
    """
    named = [Path(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    files = sorted({file for path in named for file in _files(path)})
    found = [(str(file), query) for file in files for query in queries_of(str(file), _text(file))]
    if not found:
        raise InputError(
            f"no queries: {len(files):,} files looked at, none a dashboard (.json) or rule file (.yaml) with an expr, "
            "or text with a query a line; name another."
        )
    judged = [(path, query, _judged(query)) for path, query in found]
    severities = Counter(one.severity for _, _, said in judged for one in said or ())
    return QueryLintReport(
        schema_version=QUERY_LINT_SCHEMA_VERSION,
        kvtools_version=__version__,
        counts=QueryCounts(
            queries=len(found),
            judged=sum(said is not None for _, _, said in judged) - severities["note"],
            unreadable=severities["note"],
            errors=severities["error"],
            warnings=severities["warning"],
        ),
        queries=[
            LintedQuery(path=path, line=query.line, name=query.name, findings=said)
            for path, query, said in judged
            if said is not None
        ],
    )


def _judged(query: Query) -> list[QueryFinding] | None:
    """Return the findings of a query, ``None`` where no metric of it is judged."""
    try:
        tree = parse(query.text)
    except NotRead as error:
        sentence = f"the query could not be read: {error}; it was not judged."
        return [QueryFinding(rule=UNREADABLE, severity="note", sentence=sentence)]
    if not roles(tree):
        return None
    return [QueryFinding(rule=one.rule, severity=one.severity, sentence=one.sentence) for one in faults(tree)]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [one for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file()]
    return [path]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError as error:
        raise unreadable(str(path), error) from None
