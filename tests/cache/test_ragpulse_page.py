"""docs/ragpulse.md is what its script writes, and says how many published points are met."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/ragpulse.md"


def test_the_page_is_up_to_date(shared: Path) -> None:
    spec = importlib.util.spec_from_file_location("ragpulse_page", ROOT / "benchmarks/ragpulse.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    assert PAGE.read_text() == script.page(shared / "data"), "run `make docs-ragpulse`"


def test_202_of_204_points_are_equal() -> None:
    rows = re.findall(
        r"^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| [\d.]+ \| (.*) \|$", PAGE.read_text(), re.MULTILINE
    )
    assert len(rows) == 204
    assert [blocks for blocks, theirs, ours, _ in rows if theirs != ours] == ["1", "8"]
    assert [blocks for blocks, _, _, equal in rows if equal != "yes"] == ["1", "8"]
