"""Machine code that is kept on disk is renewed when a module changes that it was made from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PARTS = """from kvtools.jit import kernel

ADDED = {added}

@kernel
def twice(number):
    return {factor} * number
"""

WHOLE = """from kvtools.jit import kernel
from {parts} import ADDED, twice

@kernel
def between(number):
    return twice(number)

@kernel
def whole(number):
    return between(number) + ADDED

print(whole(10))
"""


def _run(folder: Path) -> str:
    program = [sys.executable, "-B", "-c", "import whole"]
    return subprocess.run(program, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(("factor", "added", "then"), [(2, 1, "21"), (3, 1, "31"), (2, 5, "25")])
def test_a_change_of_a_part_counts(tmp_path: Path, factor: int, added: int, then: str) -> None:
    (tmp_path / "parts.py").write_text(PARTS.format(factor=2, added=1))
    (tmp_path / "whole.py").write_text(WHOLE.format(parts="parts"))
    assert _run(tmp_path) == "21"
    (tmp_path / "parts.py").write_text(PARTS.format(factor=factor, added=added))
    assert _run(tmp_path) == then


def test_what_did_not_change_is_kept(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(PARTS.format(factor=2, added=1))
    (tmp_path / "whole.py").write_text(WHOLE.format(parts="parts"))
    _run(tmp_path)
    kept = sorted((file.name, file.stat().st_mtime_ns) for file in tmp_path.rglob("*.nb?"))
    assert len([name for name, _ in kept if name.endswith(".nbc")]) >= 1
    assert _run(tmp_path) == "21"
    assert sorted((file.name, file.stat().st_mtime_ns) for file in tmp_path.rglob("*.nb?")) == kept
