"""The report of ``kvtools lint-queries``, its exit code and its text. Names: docs/metrics.md."""

from __future__ import annotations

import msgspec

from kvtools.errors import EXIT_DONE, EXIT_GATE_FAILED
from kvtools.report.explain_text import printable
from kvtools.report.numbers import counted

QUERY_LINT_SCHEMA_VERSION = 1


class QueryFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault; ``severity`` is ``error`` or ``warning``, ``sentence`` says what to write instead."""

    rule: str
    severity: str
    sentence: str


class LintedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of prefix-cache metrics, or one that could not be read; ``line`` from 1."""

    path: str
    line: int
    name: str | None
    findings: list[QueryFinding]


class QueryCounts(msgspec.Struct, frozen=True, kw_only=True):
    """``queries`` in all; ``judged`` ones have metrics of the prefix cache or of KV usage."""

    queries: int
    judged: int
    unreadable: int
    errors: int
    warnings: int


class QueryLintReport(msgspec.Struct, frozen=True, kw_only=True):
    """All judged and unreadable queries, by path and line."""

    schema_version: int
    kvtools_version: str
    counts: QueryCounts
    queries: list[LintedQuery]

    @property
    def exit_code(self) -> int:
        """1 where an error or a warning was found, else 0: a query that could not be read fails nothing."""
        return EXIT_GATE_FAILED if self.counts.errors or self.counts.warnings else EXIT_DONE

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def render_query_lint(report: QueryLintReport) -> str:
    """Return the report as text: the verdict, then a line per finding that editors can jump to."""
    counts = report.counts
    judged = f"{counts.judged:,} {'query' if counts.judged == 1 else 'queries'} of prefix-cache metrics"
    if report.exit_code:
        found = [
            counted(number, what)
            for number, what in ((counts.errors, "error"), (counts.warnings, "warning"))
            if number
        ]
        lines = [f"FAIL  {', '.join(found)} in {judged}."]
    else:
        lines = [f"ok    {judged}: none shows another figure than a hit rate or a usage."]
    others = counts.queries - counts.judged - counts.unreadable
    if others:
        lines.append(f"  {others:,} of other metrics, not judged")
    for one in report.queries:
        name = f" {printable(one.name)}:" if one.name else ""
        lines += [
            f"{printable(one.path)}:{one.line}:{name} {found.severity}: {found.rule}: {printable(found.sentence)}"
            for found in one.findings
        ]
    return "\n".join(lines) + "\n"
