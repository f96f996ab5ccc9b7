"""JUnit XML: what junitparser reads back is what the verdict says, whatever stands in its text."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from junitparser import Failure, JUnitXml, Skipped
from verdicts import FAILED, PASSED, attacked, hostile

from kvtools.report.check import Verdict
from kvtools.report.explain_text import printable
from kvtools.report.gate_formats import KINDS


def read(one: Verdict) -> JUnitXml:
    return JUnitXml.fromstring(KINDS["junit"](one).encode())


def test_checks_that_gate_fail_and_those_that_inform_do_not() -> None:
    gate, checklists = read(FAILED)
    assert (gate.tests, gate.failures, gate.skipped, gate.errors) == (3, 1, 1, 0)
    assert (checklists.tests, checklists.failures, checklists.skipped) == (2, 0, 2)
    dropped, stable, unknown = gate
    assert (dropped.name, dropped.classname) == ("max drop", "kvtools.max-drop")
    (failure,) = dropped.result
    assert isinstance(failure, Failure)
    assert failure.message == "hit rate 28.3 %, baseline 61.0 % (dropped 32.7 points, limit 2)"
    assert failure.text.split("\n") == [
        "hit rate 28.3 %, baseline 61.0 % (dropped 32.7 points, limit 2)",
        "limit: --max-drop",
        "cause: order id stands behind, templates/shop.j2:3",
        "cause: {{ now }} stands in front of 81 stable tokens, templates/shop.j2:1",
    ]
    assert (stable.name, stable.is_passed) == ("min stable prefix (shop)", True)
    assert isinstance(unknown.result[0], Skipped)
    informs, _ = checklists
    assert informs.result[0].message == "for information: hit rate 28.3 % (at least 60 % is healthy)"


def test_a_passed_gate_has_no_failure() -> None:
    whole = read(PASSED)
    assert (whole.tests, whole.failures, whole.skipped) == (1, 0, 0)


@given(hostile, hostile)
def test_hostile_text_comes_back_visible(text: str, path: str) -> None:
    written = KINDS["junit"](attacked(text, path))
    elements = {element.tag for element in ET.fromstring(written).iter()}  # noqa: S314 - our own
    assert elements == {"testsuites", "testsuite", "testcase", "failure", "skipped", "system-out"}
    gate, _ = JUnitXml.fromstring(written.encode())
    failed = next(case for case in gate if case.is_failure)
    # An attribute's blanks come back as they are: printable() leaves no other white space.
    assert (failed.result[0].message or "") == printable(text)
    assert f"cause: {printable(text)}, {printable(path)}:3" in failed.result[0].text
