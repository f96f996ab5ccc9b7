"""The verdict of ``kvtools check`` on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.explain_text import printable
from kvtools.report.numbers import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.report.check import Cause, Check, Place, Verdict

CAUSES_SHOWN = 5
_WORDS = {"pass": "ok", "fail": "FAIL", "n/a": "n/a"}
_NO_CAUSE = ("min-requests", "min-coverage", "max-cold-share")


def render_check(verdict: Verdict) -> str:
    """Return the verdict as text: failures with their causes, what passed, the checklists, what it is about."""
    gating = [check for check in verdict.checks if check.gates]
    failed = [check for check in gating if check.status == "fail"]
    lines: list[str] = []
    for check in failed:
        lines.append(_line(check))
        if check is _explained(failed):
            lines += _causes(verdict.causes)
    lines += [_line(check) for check in gating if check.status != "fail"]
    lines += ["", *_checklists([check for check in verdict.checks if not check.gates])]
    lines += [_basis(verdict)]
    return "\n".join(lines) + "\n"


def _explained(failed: list[Check]) -> Check | None:
    """Return the failure under which the causes stand: the first that prompts can cause."""
    return next((check for check in failed if check.name not in _NO_CAUSE), None)


def _line(check: Check) -> str:
    return f"{_WORDS[check.status]:<6}{printable(check.message)}"


def _causes(causes: tuple[Cause, ...]) -> Iterator[str]:
    for cause in causes[:CAUSES_SHOWN]:
        yield f"      cause: {printable(cause.message)}, {_where(cause.place)}"
    if len(causes) > CAUSES_SHOWN:
        yield f"      and {counted(len(causes) - CAUSES_SHOWN, 'cause')} more (--format json lists all)"


def _where(place: Place) -> str:
    return printable(place.path if place.line is None else f"{place.path}:{place.line}")


def _checklists(checks: list[Check]) -> list[str]:
    """Return the lines that something can be done about; what a log cannot tell is only counted."""
    if not checks:
        return []
    unknown = sum(check.status == "n/a" for check in checks)
    lines = [
        f"Checklists (for information: {counted(unknown, 'line')} not applicable, --format json says why)"
    ]
    return [
        *lines,
        *(f"  {_line(check).replace('FAIL', 'fail', 1)}" for check in checks if check.status != "n/a"),
    ]


def _basis(verdict: Verdict) -> str:
    settings = verdict.settings
    cache = (
        "unlimited cache" if settings.capacity_blocks is None else counted(settings.capacity_blocks, "block")
    )
    made_with = f"{printable(settings.tokenizer)}, {printable(settings.chat_template)} template"
    return f"{made_with} · {settings.cache_model}, block {settings.block_size} · {cache}"
