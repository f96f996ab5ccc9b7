"""The report of ``plan audit`` on a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kvtools.report.explain_text import printable
from kvtools.report.numbers import counted, percent

if TYPE_CHECKING:
    from kvtools.report.plan_audit import Audit, AuditReport

WIDTH = 80
_INDENT = " " * 8
_LISTS = ("a-", "b-")


def render_audit(report: AuditReport) -> str:
    """Return the report as text: faults with evidence, cause and fix; then notes, and what is in order."""
    by = {
        name: [one for one in report.audit if one.severity == name]
        for name in ("high", "medium", "info", "ok")
    }
    lines = [_headline(by), *(f"  {line}" for line in _basis(report))]
    for one in (*by["high"], *by["medium"]):
        lines += ["", *_fault(one)]
    for title, severity in (("To know", "info"), ("In order", "ok")):
        if by[severity]:
            lines += ["", title]
        for one in by[severity]:
            lines += _wrapped(_said(one) + (f" → {one.advice}" if one.advice else ""), "  ")
    lines += _gaps(report)
    return "\n".join(lines) + "\n"


def _headline(by: dict[str, list[Audit]]) -> str:
    high, medium = len(by["high"]), len(by["medium"])
    if not high and not medium:
        return "No fault found in this configuration for this log."
    parts = [f"{count} {name}" for count, name in ((high, "high"), (medium, "medium")) if count]
    return f"{counted(high + medium, 'fault')} in this configuration for this log: {', '.join(parts)}."


def _basis(report: AuditReport) -> list[str]:
    chosen, flags = report.configuration, report.flags
    whose = "vLLM's own parser" if flags.source == "installed" else f"kvtools' table of {flags.made}"
    room = (
        "unlimited cache" if chosen.capacity_blocks is None else f"{counted(chosen.capacity_blocks, 'block')}"
    )
    gone = report.coverage
    return [
        f"{counted(report.requests, 'request')} · {percent(chosen.hit_rate)} of prompt tokens hit"
        + ("" if chosen.prefix_caching else " (prefix caching is off)"),
        f"{report.settings.tokenizer} · block {chosen.block_size} · {room}",
        "cold start · one request at a time",
        (
            f"read {gone.read:,} records: {gone.rejected:,} rejected, {gone.without_prompt:,} without prompt, "
            f"{gone.duplicates:,} duplicates"
        ),
        f"{flags.count} flags of vLLM {flags.vllm}, from {whose}",
    ]


def _name(one: Audit) -> str:
    return printable(one.flag) if one.flag else one.symptom


def _said(one: Audit) -> str:
    # A line of a checklist begins with its own title.
    return one.measured if one.rule[:2] in _LISTS else printable(f"{_name(one)}: {one.measured}")


def _gaps(report: AuditReport) -> list[str]:
    if not report.not_judged:
        return []
    lines = ["", "Not judged"]
    for gap in report.not_judged:
        if gap.rule[:2] not in _LISTS:
            lines += _wrapped(printable(f"{gap.flag or gap.rule}: {gap.why}"), "  ")
    of_lists = sum(gap.rule[:2] in _LISTS for gap in report.not_judged)
    if of_lists:
        lines += _wrapped(
            f"checklists: {counted(of_lists, 'line')} that this log does not tell (--format json)", "  "
        )
    return lines


def _fault(one: Audit) -> list[str]:
    lines = _wrapped(f"{one.severity.upper():<7} {_name(one)}: {one.symptom}" if one.flag else
                     f"{one.severity.upper():<7} {one.symptom}", "")  # fmt: skip
    lines += _wrapped(printable(one.measured), _INDENT)
    if one.cause:
        lines += _wrapped(f"cause: {printable(one.cause)}", _INDENT)
    return lines + _wrapped(f"fix: {printable(one.advice)}", _INDENT)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=_INDENT if len(indent) != 2 else "    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
