"""GitLab's code quality report: its fields, and fingerprints that tell results apart."""

from __future__ import annotations

import json

from hypothesis import given
from verdicts import FAILED, PASSED, attacked, cause, check, hostile, verdict

from kvtools.report.explain_text import printable
from kvtools.report.gate_formats import KINDS


def test_each_result_is_an_entry() -> None:
    first, second, third = json.loads(KINDS["gitlab"](FAILED))
    assert second == {
        "description": "{{ now }} stands in front of 81 stable tokens",
        "check_name": "field-in-front",
        "fingerprint": "f1",
        "severity": "major",
        "location": {"path": "templates/shop.j2", "lines": {"begin": 1}},
    }
    assert (first["check_name"], first["severity"], third["severity"]) == ("max-drop", "major", "minor")


def test_a_passed_gate_informs() -> None:
    (one,) = json.loads(KINDS["gitlab"](PASSED))
    assert (one["severity"], one["location"]) == ("info", {"path": "logs/shop.jsonl", "lines": {"begin": 7}})


def test_a_verdict_without_results_is_an_empty_list() -> None:
    assert json.loads(KINDS["gitlab"](verdict(check("min-hit-rate", "pass", "fine")))) == []


def test_paths_have_no_dots_and_fingerprints_no_twins() -> None:
    entries = json.loads(KINDS["gitlab"](verdict(cause("a", "./t/a.j2", 1), cause("a", "./t/a.j2", 1))))
    assert {one["location"]["path"] for one in entries} == {"t/a.j2"}
    assert len({one["fingerprint"] for one in entries}) == 2


@given(hostile, hostile)
def test_hostile_text_is_text(text: str, path: str) -> None:
    written = KINDS["gitlab"](attacked(text, path))
    written.encode()
    entries = json.loads(written)
    assert [one["description"] for one in entries] == [printable(text)] * 3
    assert len({one["fingerprint"] for one in entries}) == 3
