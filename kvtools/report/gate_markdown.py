"""The verdict as Markdown, for a comment on a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.explain_text import printable
from kvtools.report.gate_results import name_of, where
from kvtools.report.markdown import plain
from kvtools.report.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.report.check import Cause, Check, Verdict

CAUSES_SHOWN = 20
LONGEST_CHARS = 500
_WORDS = {"pass": "ok", "fail": "**FAIL**", "n/a": "n/a"}
_APART = "&#8203;"
_LINKED = (
    ("&#64;", f"&#64;{_APART}"),
    ("&#35;", f"&#35;{_APART}"),
    ("://", f":{_APART}//"),
    ("www.", f"www{_APART}."),
)
"""GitHub and GitLab link names, numbers and addresses after entities are resolved: a zero-width space stops them."""


def render_comment(verdict: Verdict) -> str:
    """Return the verdict, a table of the checks that gate, the causes, and the checklists folded away."""
    gating = [check for check in verdict.checks if check.gates]
    failed = sum(check.status == "fail" for check in gating)
    head = (
        "**kvtools check passed.**"
        if verdict.passed
        else f"**kvtools check failed:** {failed:,} of {counted(len(gating), 'check')}."
    )
    lines = [head, ""]
    if gating:
        lines += ["|   | check | figures |", "|---|---|---|", *map(_row, gating), ""]
    lines += _causes(verdict.causes)
    lines += _checklists([check for check in verdict.checks if not check.gates and check.status != "n/a"])
    return "\n".join(lines).rstrip("\n") + "\n"


def _row(check: Check) -> str:
    return f"| {_WORDS[check.status]} | {_text(name_of(check))} | {_text(check.message)} |"


def _causes(causes: Sequence[Cause]) -> list[str]:
    if not causes:
        return []
    rows = [
        f"- {cause.level}, {_text(where(cause.place))}: {_text(cause.message)}"
        for cause in causes[:CAUSES_SHOWN]
    ]
    more = len(causes) - CAUSES_SHOWN
    rest = [f"- {counted(more, 'cause')} more in the JSON report"] if more > 0 else []
    return ["What breaks the prefix:", "", *rows, *rest, ""]


def _checklists(checks: Sequence[Check]) -> list[str]:
    if not checks:
        return []
    rows = [f"| {check.status} | {_text(name_of(check))} | {_text(check.message)} |" for check in checks]
    head = ["<details><summary>Checklists (for information)</summary>", ""]
    return [*head, "|   | line | figures |", "|---|---|---|", *rows, "", "</details>"]


def _text(text: str) -> str:
    shown = plain(printable(text), LONGEST_CHARS)
    for linked, apart in _LINKED:
        shown = shown.replace(linked, apart)
    return shown
