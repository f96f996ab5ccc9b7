"""Cases of group A of ../shared/cases through ``analyze``: what is named, and what its fix reaches by replay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvtools.flow import AnalyzeOptions, analyze

if TYPE_CHECKING:
    from pathlib import Path

    from kvtools.report.findings import Finding
    from kvtools.report.model import Report


def analyzed(shared: Path, tmp_path: Path, case: str) -> Report:
    """Analyze a case as one named conversation, by its own tokenizer and template."""
    rows = [json.loads(line) for line in (shared / "cases" / case / "input.jsonl").read_text().splitlines()]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({**row, "session_id": "one"}) + "\n" for row in rows))
    return analyze(log, AnalyzeOptions(tokenizer="bytes", chat_template="chatml"))


def finding(report: Report, kind: str) -> Finding:
    found = [f for f in report.findings or [] if f.kind == kind]
    assert len(found) == 1, [f.kind for f in report.findings or []]
    return found[0]


def test_002_a_clock_by_the_minute(shared: Path, tmp_path: Path) -> None:
    report = analyzed(shared, tmp_path, "002-minute-boundary")
    assert report.cache is not None
    assert report.cache.hit_tokens == 0 + 224 + 64
    time = finding(report, "time")
    assert (time.section, time.granularity, time.position_chars) == ("system message", "minute", 29)


@pytest.mark.parametrize(
    ("case", "kind", "logged", "fixed"),
    [
        ("005-tool-args-key-order", "json_key_order", 224, 416),
        ("010-sliding-history-window", "sliding_window", 0 + 160 + 160, 0 + 368 + 496),
        ("028-aged-tool-output-truncated", "truncated_tool_output", 0 + 240 + 352, 0 + 352 + 560),
        ("037-hangul-nfd-vs-nfc", "unicode_form", 0, 48),
    ],
)
def test_the_fix_is_replayed(
    case: str, kind: str, logged: int, fixed: int, shared: Path, tmp_path: Path
) -> None:
    report = analyzed(shared, tmp_path, case)
    assert report.cache is not None
    assert report.cache.hit_tokens == logged
    assert finding(report, kind).tokens_lost == fixed - logged


def test_008_identity_on_two_lines_is_one_finding(shared: Path, tmp_path: Path) -> None:
    fields = finding(analyzed(shared, tmp_path, "008-per-user-header"), "fields")
    assert [(field.name, field.kind) for field in fields.fields] == [
        ("session_id", "session_id"),
        ("name", "name"),
    ]
    assert fields.position_chars == len("conversation: ")


def test_009_a_path_in_the_middle(shared: Path, tmp_path: Path) -> None:
    report = analyzed(shared, tmp_path, "009-per-session-path")
    assert report.cache is not None
    assert report.cache.hit_tokens == 160
    assert finding(report, "path").severity == "high"


def test_014_a_template_that_rewrites_its_own_history(shared: Path, tmp_path: Path) -> None:
    report = analyzed(shared, tmp_path, "014-generation-prompt-mismatch")
    assert finding(report, "template_not_append_only").position_chars == 216


def test_029_examples_in_changing_order(shared: Path, tmp_path: Path) -> None:
    assert finding(analyzed(shared, tmp_path, "029-few-shot-shuffled"), "permuted_block").section == "prompt"
