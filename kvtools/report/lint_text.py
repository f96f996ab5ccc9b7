"""The report of ``kvtools lint-templates`` on a terminal: a line per finding that editors and CI can jump to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.explain_text import printable
from kvtools.report.numbers import counted

if TYPE_CHECKING:
    from kvtools.report.lint import LintReport, LintTemplate

SKIPPED_SHOWN = 3


def render_lint(report: LintReport) -> str:
    """Return the report as text: the verdict, each template with its findings, what to do next."""
    lines = [_verdict(report), *_basis(report)]
    for one in report.templates:
        lines += ["", *_template(one)]
    lines += _next(report)
    return "\n".join(lines) + "\n"


def _verdict(report: LintReport) -> str:
    counts = report.counts
    found = [
        counted(number, name)
        for number, name in ((counts.errors, "error"), (counts.warnings, "warning"), (counts.infos, "note"))
        if number
    ]
    checked = counted(counts.templates, "template")
    if not report.exit_code:
        notes = f"; {counted(counts.infos, 'note')}" if counts.infos else ""
        return f"ok    {checked}: nothing found that breaks reuse{notes}."
    return f"FAIL  {', '.join(found)} in {checked}."


def _basis(report: LintReport) -> list[str]:
    counts = report.counts
    lines = [f"  {report.settings.tokenizer} · text that is always printed; a block is reused only when full"]
    if counts.unreadable:
        lines.append(
            f"  read {counts.templates - counts.unreadable:,} of {counted(counts.templates, 'template')}"
        )
    if counts.skipped_files:
        names = ", ".join(printable(name) for name in report.skipped_files[:SKIPPED_SHOWN])
        more = ", …" if counts.skipped_files > SKIPPED_SHOWN else ""
        lines.append(
            f"  {counted(counts.skipped_files, 'file')} skipped, no template to serve: {names}{more}"
        )
    return lines


def _template(one: LintTemplate) -> list[str]:
    lines = [f"{printable(one.path)}: {_stable(one)}"]
    lines += [
        f"  {printable(one.path)}:{found.line}: {found.severity}: {found.rule}: {printable(found.sentence)}"
        for found in one.findings
    ]
    if one.proposal is not None:
        gain = f"{one.proposal.leading_stable_tokens:,} leading stable tokens instead of {one.leading_stable_tokens:,}"
        lines.append(f"  Better order ({gain}):")
        lines += [f"    | {printable(line)}".rstrip() for line in one.proposal.text.split("\n")]
        if one.proposal.place_words:
            lines.append(
                '  The text says "above", "below" or the like: see that it still points to the right place.'
            )
    if one.no_proposal is not None:
        lines.append(f"  No order is proposed: {printable(one.no_proposal)}.")
    return lines


def _stable(one: LintTemplate) -> str:
    if one.kind == "unreadable":
        return "not read"
    if one.leading_stable_tokens is None:
        return "not rendered, so its stable tokens are not known"
    leading = counted(one.leading_stable_tokens, "leading stable token")
    if one.kind == "chat":
        return f"chat template, {leading} in front of the first message"
    if one.stopped_by is None:
        return f"{leading}, no value behind them changes"
    behind = f"{one.stable_tokens_behind:,} stable behind it"
    return f"{leading} before {{{{ {printable(one.stopped_by)} }}}} (line {one.stopped_at_line}), {behind}"


def _next(report: LintReport) -> list[str]:
    if any(one.proposal is not None for one in report.templates):
        return [
            "",
            "Next: put a better order into the file, and run this again; kvtools never writes templates.",
        ]
    return []
