from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kvtools.flow import AnalyzeOptions, analyze
from kvtools.readers.base import Chunk
from kvtools.readers.duplicates import Deduplicator
from kvtools.table import rejects_table, request_table, text_column

if TYPE_CHECKING:
    from pathlib import Path


def chunk(*rows: dict[str, Any]) -> Chunk:
    names = {name for row in rows for name in row}
    return Chunk(
        request_table({name: [row.get(name) for row in rows] for name in names}, len(rows)),
        rejects_table([]),
        len(rows),
    )


def kept(once: Deduplicator, *rows: dict[str, Any]) -> tuple[list[str | None], int]:
    fresh, dropped = once.first_time(chunk(*rows))
    assert fresh.records == len(rows)
    return text_column(fresh.requests, "request_id"), dropped


def test_equal_id_and_equal_prompt_is_one_call() -> None:
    call = {"request_id": "a", "prompt": "x"}
    assert kept(Deduplicator(), call, call, call) == (["a"], 2)


def test_equal_content_with_other_ids_is_traffic() -> None:
    assert kept(Deduplicator(), {"request_id": "a", "prompt": "x"}, {"request_id": "b", "prompt": "x"}) == (
        ["a", "b"],
        0,
    )


def test_an_id_that_is_used_again_for_another_prompt_is_kept() -> None:
    for column, one, other in (
        ("prompt", "x", "y"),
        ("messages", "[1]", "[2]"),
        ("token_ids", [1], [2]),
        ("block_keys", [1], [2]),
    ):
        rows = [{"request_id": "a", column: value} for value in (one, other, one)]
        assert kept(Deduplicator(), *rows) == (["a", "a"], 1)


def test_without_an_id_nothing_is_dropped() -> None:
    assert kept(Deduplicator(), {"prompt": "x"}, {"prompt": "x"}) == ([None, None], 0)


def test_calls_are_remembered_over_chunks() -> None:
    once = Deduplicator()
    assert kept(once, {"request_id": "a", "prompt": "x"}, {"request_id": "b", "prompt": "x"}) == (
        ["a", "b"],
        0,
    )
    assert kept(once, {"request_id": "c", "prompt": "x"}, {"request_id": "a", "prompt": "x"}) == (["c"], 1)
    assert kept(once) == ([], 0)


def test_case_076_the_same_call_logged_twice(shared: Path) -> None:
    case = shared / "cases" / "076-duplicate-trace-rows"
    expected = json.loads((case / "expected.json").read_text())
    report = analyze(case / "input.jsonl", AnalyzeOptions(tokenizer="bytes"))
    assert (report.requests, report.coverage.duplicates) == (expected["kept"], expected["dropped"]) == (3, 1)
    assert report.coverage.read == 4
