"""The page of a verdict: which limits hold, what causes a failure, and the checklists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.gate_results import where
from kvtools.report.html.shell import ROWS_SHOWN, decoded, filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.report.check import Check, Verdict

_FORMS = {"share": "percent", "points": "points", "tokens": "count", "requests": "count", None: "count"}
_STATUS = {"fail": 0, "pass": 1, "n/a": 2}


def render_check_html(verdict: Verdict, *, lang: str = "en", command: str | None = None) -> str:
    """Return a verdict as one HTML page in ``lang``; ``command`` made it.

    Raises:
        UsageError: a language that the page is not written in.
    """
    gating = _listed([(n, check) for n, check in enumerate(verdict.checks) if check.gates])
    for_information = _listed([(n, check) for n, check in enumerate(verdict.checks) if not check.gates])
    return filled(
        "check.html.j2",
        decoded(verdict),
        [],
        lang,
        r=verdict,
        gating=gating,
        failed=sum(check.status == "fail" for _, check in gating),
        checklists=for_information,
        causes=list(enumerate(verdict.causes))[:ROWS_SHOWN],
        causes_left=max(len(verdict.causes) - ROWS_SHOWN, 0),
        where=where,
        form=lambda check: _FORMS[check.unit],
        command=command,
    )


def _listed(checks: Sequence[tuple[int, Check]]) -> list[tuple[int, Check]]:
    """Return checks with their places: the failed first, those that say nothing last."""
    return sorted(checks, key=lambda one: _STATUS[one[1].status])[:ROWS_SHOWN]
