from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvtools.errors import InputError
from kvtools.report.rejects import reject_log

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [(f"log:{line}", reason, f"détail {line}") for line, reason in enumerate(["a", "b", "a", "a", "b"], 1)]


def test_rejects_are_counted_and_the_first_few_kept_for_the_terminal() -> None:
    with reject_log(None) as rejects:
        rejects.add(ROWS[:2])
        rejects.add(ROWS[2:])
    assert rejects.by_reason == {"a": 3, "b": 2}
    assert rejects.total == 5
    assert rejects.first == ["log:1: détail 1", "log:2: détail 2", "log:3: détail 3"]


def test_all_are_listed_in_the_file(tmp_path: Path) -> None:
    with reject_log(tmp_path / "out") as rejects:
        rejects.add(ROWS)
        assert not (tmp_path / "out").exists()
    written = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert written == [{"source": s, "reason": r, "detail": d} for s, r, d in ROWS]


def test_a_run_without_rejects_writes_an_empty_list(tmp_path: Path) -> None:
    with reject_log(tmp_path / "out"):
        pass
    assert (tmp_path / "out").read_bytes() == b""


def test_a_run_that_begins_again_lists_nothing_twice(tmp_path: Path) -> None:
    with reject_log(tmp_path / "out") as rejects:
        rejects.add(ROWS)
        rejects.restart()
        assert (rejects.total, rejects.first) == (0, [])
        rejects.add(ROWS[:1])
    assert len((tmp_path / "out").read_text().splitlines()) == 1


def test_an_error_writes_nothing(tmp_path: Path) -> None:

    def fail() -> None:
        with reject_log(tmp_path / "out") as rejects:
            rejects.add(ROWS)
            raise InputError("gone")

    with pytest.raises(InputError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing/out"), reject_log(tmp_path / "missing" / "out"):
        pass
