"""The verdict as JUnit XML, which Jenkins, GitLab, Azure and others show as tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from kvtools.report.explain_text import printable
from kvtools.report.gate_results import name_of, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.report.check import Cause, Check, Verdict

GATE = "kvtools check"
CHECKLISTS = "kvtools checklists"


def render_junit(verdict: Verdict) -> str:
    """Return two suites: the checks that gate, and the checklists, in which nothing fails.

    A failure carries the sentence, where the limit was set, and the causes. What could not be judged is skipped, and
    so is a line of a checklist that does not hold: it informs, and must not turn a pipeline red.
    """
    gate, checklists = TestSuite(GATE), TestSuite(CHECKLISTS)
    for check in verdict.checks:
        (gate if check.gates else checklists).add_testcase(_case(check, verdict.causes))
    xml: Any = JUnitXml(GATE)  # the library's types are incomplete
    for suite in (gate, checklists):
        if len(suite):
            xml.add_testsuite(suite)
    xml.update_statistics()
    return f"{xml.tostring().decode()}\n"


def _case(check: Check, causes: Sequence[Cause]) -> TestCase:
    case = TestCase(name_of(check), classname=f"kvtools.{printable(check.name)}", time=0.0)
    message = printable(check.message)
    if check.status == "n/a":
        case.result = [Skipped(message)]
    elif check.status == "pass":
        case.system_out = message
    elif check.gates:
        failure = Failure(message, type_=printable(check.name))
        failure.text = "\n".join(_details(check, causes))
        case.result = [failure]
    else:
        case.result = [Skipped(f"for information: {message}")]
    return case


def _details(check: Check, causes: Sequence[Cause]) -> list[str]:
    lines = [printable(check.message), f"limit: {printable(check.limit_from)}"]
    return [*lines, *(f"cause: {printable(cause.message)}, {where(cause.place)}" for cause in causes)]
