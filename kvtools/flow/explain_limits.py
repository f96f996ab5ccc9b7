"""What ``kvtools check --explain`` prints: each limit, and where it was set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.gate.budget import LIMITS, NEEDED
from kvtools.report.explain_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kvtools.flow.check import CheckOptions
    from kvtools.gate.budget import Limit


def limit_lines(options: CheckOptions, file: Path | None) -> str:
    """Return a line per limit that is set, of the whole log, routes and classes; last where the rest may be set."""
    budget = options.budget
    whole = {name: limit for name in LIMITS if (limit := budget.limit(name)) is not None}
    lines = list(_lines("", whole))
    for kind, scopes in (("route", budget.routes), ("class", budget.classes)):
        for scope, limits in sorted(scopes.items()):
            lines += _lines(f"{kind} {printable(scope)}: ", limits)
    if not budget.judges():
        lines.append("no limit that can fail is set: give one, such as --min-hit-rate 0.6")
    unset = [name for name in LIMITS if name not in whole and name not in NEEDED]
    lines.append(f"not set: {', '.join(unset) or 'none'}")
    lines.append(f"configuration: {file if file is not None else 'none'}")
    return "\n".join(lines) + "\n"


def _lines(prefix: str, limits: Mapping[str, Limit]) -> Iterator[str]:
    for name, limit in limits.items():
        yield f"{prefix}{name} {limit.value:g}  from {printable(limit.source)}"
