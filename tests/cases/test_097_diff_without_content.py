"""Case 097 of the shared cases: two requests compared by block ids and a section map, without any text."""

from __future__ import annotations

import json
from pathlib import Path

from shared_case import Case

from kvtools.flow import diff_requests, explain
from kvtools.report.diff_text import render_request_diff
from kvtools.report.explain_text import render_explanation


def _trace(case: Case, path: Path) -> Path:
    """Write the case as a trace: its ids, and one of its own for the tokens that fill no block."""
    lines = [
        {
            "id": request["id"],
            "input_length": request["prompt_tokens"],
            "block_size": request["block_size"],
            "hash_ids": [*request["block_hashes"], f"rest of {request['id']}"],
            "sections": request["sections"],
        }
        for request in case.requests
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_097_the_first_divergent_block_and_its_section(shared: Path, tmp_path: Path) -> None:
    case = Case.load(shared / "cases", "097")
    log = _trace(case, tmp_path / "trace.jsonl")
    report = diff_requests(("r1", "r2"), log)
    assert report.shared_blocks == case.expected["shared_blocks"] == 2
    assert report.shared_tokens == 32
    assert report.parting is not None
    assert report.parting.this.section == report.parting.that.section == case.expected["section"] == "system"
    text = render_request_diff(report)
    assert text.startswith("r1 and r2 part in block 2 (tokens 32-47 of 84).\nIn system.\n")


def test_097_explained_and_still_a_rate(shared: Path, tmp_path: Path) -> None:
    log = _trace(Case.load(shared / "cases", "097"), tmp_path / "trace.jsonl")
    report = explain("r2", log)
    assert (report.hit_tokens, report.queried_tokens) == (32, 84)
    assert report.parting is not None
    assert (report.parting.block, report.parting.this.section) == (2, "system")
    assert "in block 2 (tokens 32-47 of 84)" in render_explanation(report)
