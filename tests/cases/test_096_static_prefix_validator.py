"""Case 096 of the shared cases: the fields of a prompt builder in order of position, found by calling it."""

from __future__ import annotations

import json
import runpy
from datetime import UTC, datetime
from pathlib import Path

from kvtools.linting import fields_in_order


def test_096_fields_in_order_of_position(shared: Path) -> None:
    case = shared / "cases/096-static-prefix-validator"
    build = runpy.run_path(str(case / "builder.py"))["build"]
    expected = json.loads((case / "expected.json").read_text())
    one = {
        "user": "Ada",
        "request_id": "r-1001",
        "now": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "flags": {"beta": 1, "dark": 0},
    }
    other = {
        "user": "Bob",
        "request_id": "q-2002",
        "now": datetime(2027, 2, 3, 14, 15, 16, tzinfo=UTC),
        "flags": {"alpha": 2, "wide": 1},
    }
    found = fields_in_order(build, one, other)
    assert found.order == expected["order"]
    places = {field.name: field for field in found.fields}
    assert places["request_id"].byte == 8
    # "Request r-1001 at " has 18 bytes.
    assert places["now"].byte == 18
    # Severity: the first two cost the whole prompt, the flags the tail only, the user nothing.
    assert [field.effect for field in found.fields] == ["whole prompt", "whole prompt", "tail only", "none"]
    assert [field.name for field in found.fields if field.order_matters] == ["flags"]
