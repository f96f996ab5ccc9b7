"""The verdict of ``kvtools check`` on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.explain_text import printable
from kvtools.report.layout import left
from kvtools.report.numbers import counted
from kvtools.report.phrases import size_of
from kvtools.report.words import phrase, say, spoken, told, told_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.report.check import Cause, Check, Place, Verdict

CAUSES_SHOWN = 5
_WORDS = {"pass": phrase("ok"), "fail": phrase("FAIL"), "n/a": phrase("n/a")}
_NO_CAUSE = ("min-requests", "min-coverage", "max-cold-share", "history")


def render_check(verdict: Verdict, lang: str = "en") -> str:
    """Return the verdict as text in ``lang``: failures with causes, what passed, the checklists, what it is about."""
    with spoken(lang):
        return "\n".join(_lines(verdict)) + "\n"


def _lines(verdict: Verdict) -> list[str]:
    gating = [check for check in verdict.checks if check.gates]
    failed = [check for check in gating if check.status == "fail"]
    lines: list[str] = []
    for check in failed:
        lines.append(_line(check))
        if check is _explained(failed):
            lines += _causes(verdict.causes)
    lines += [_line(check) for check in gating if check.status != "fail"]
    lines += ["", *_checklists([check for check in verdict.checks if not check.gates])]
    return [*lines, _basis(verdict)]


def _explained(failed: list[Check]) -> Check | None:
    """Return the failure under which the causes stand: the first that prompts can cause."""
    return next((check for check in failed if check.name not in _NO_CAUSE), None)


def _line(check: Check) -> str:
    return left(say(_WORDS[check.status]), 6) + told_line(printable(check.message))


def _causes(causes: tuple[Cause, ...]) -> Iterator[str]:
    for cause in causes[:CAUSES_SHOWN]:
        message, place = told(printable(cause.message)), _where(cause.place)
        yield "      " + say("cause: {message}, {place}", message=message, place=place)
    if len(causes) > CAUSES_SHOWN:
        more = counted(len(causes) - CAUSES_SHOWN, "cause")
        yield "      " + say("and {causes} more (--format json lists all)", causes=more)


def _where(place: Place) -> str:
    return printable(place.path if place.line is None else f"{place.path}:{place.line}")


def _checklists(checks: list[Check]) -> list[str]:
    """Return the lines that something can be done about; what a log cannot tell is only counted."""
    if not checks:
        return []
    unknown = sum(check.status == "n/a" for check in checks)
    sentence = phrase("Checklists (for information: {lines} not applicable, --format json says why)")
    return [
        say(sentence, lines=counted(unknown, "line")),
        *(f"  {_line(check).replace('FAIL', 'fail', 1)}" for check in checks if check.status != "n/a"),
    ]


def _basis(verdict: Verdict) -> str:
    settings = verdict.settings
    made_with = say(
        "{tokenizer}, {template} template",
        tokenizer=told(printable(settings.tokenizer)),
        template=printable(settings.chat_template),
    )
    model = say("{model}, block {size}", model=told(settings.cache_model), size=settings.block_size)
    return f"{made_with} · {model} · {size_of(settings.capacity_blocks)}"
