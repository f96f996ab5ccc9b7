"""Case 044 through ``normalize``: both values stand in the last line, and moving them saves no token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared_case import Case

from kvtools.flow import NormalizeOptions, normalize

if TYPE_CHECKING:
    from pathlib import Path


def test_044_no_rewrite_pays(shared: Path, tmp_path: Path) -> None:
    """By bytes a move would lift the rate from 192/384 to 256/483 and compute 227 tokens in place of 192."""
    case = Case.load(shared / "cases", "044")
    assert case.expected["rewrite"] is False
    (log,) = (shared / "cases").glob("044-*/input.jsonl")
    out = tmp_path / "out.jsonl"
    report = normalize(log, NormalizeOptions(target=out, tokenizer="bytes", chat_template="plain"))
    assert (report.requests.changed, report.requests.unchanged, report.fields) == (0, 3, [])
    assert out.read_bytes() == log.read_bytes()
