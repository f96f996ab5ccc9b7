"""What the linter finds: the rules, how much each matters, and one sentence on what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "info"]
"""``error`` and ``warning`` fail the gate; ``info`` does not: it costs nothing here, or depends on what is unknown."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")

Rule: TypeAlias = Literal[
    "cannot-parse",
    "placeholder-before-stable-text",
    "unknown-before-stable-text",
    "clock",
    "random",
    "fresh-id",
    "unsorted-tojson",
    "unordered-loop",
    "history-not-append-only",
    "not-followed",
    "not-probed",
    "too-few-stable-tokens",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """``line`` of the template, counted from 1; ``sentence`` says what is wrong and what to do."""

    line: int
    rule: Rule
    severity: Severity
    sentence: str
