"""``kvtools normalize`` and ``kvtools restore`` over the cases of group B: the log comes back byte for byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

BYTES = ("--tokenizer", "bytes", "--chat-template", "plain")

GROUP_B = ("030", "032", "033", "034", "035", "036", "037", "039", "041", "042", "044", "045", "046", "047")
"""Those whose requests are prompts or messages: 043 has tools alone, 048 documents of its own shape."""

FIELDS = {
    "039": "order_id",
    "041": "ticket_id",
    "044": "time,value",
    "045": "name",
    "046": "request_id",
    "047": "value",
}
"""What varies in a case, by the name that it has there."""

FORMS = ("032", "033", "034", "036", "037")
"""Cases in which a rule has something to change: order of tools, white space, form of Unicode."""


@pytest.mark.parametrize("modes", ["hoist", "canonicalize", "canonicalize,hoist"])
@pytest.mark.parametrize("number", GROUP_B)
def test_a_case_comes_back(kvtools: Run, shared: Path, tmp_path: Path, number: str, modes: str) -> None:
    """All rules are asked for, and the fields of a case are named where it has any: what can change, changes."""
    (log,) = (shared / "cases").glob(f"{number}-*/input.jsonl")
    out, back = tmp_path / "out.jsonl", tmp_path / "back.jsonl"
    forms = ("--forms", "all") if "canonicalize" in modes else ()
    fields = ("--fields", FIELDS[number]) if "hoist" in modes and number in FIELDS else ()
    ended = kvtools("normalize", log, "-o", out, "--mode", modes, *forms, *fields, *BYTES)
    assert ended.code == 0, ended.err
    assert kvtools("restore", out, "-o", back).code == 0
    assert back.read_bytes() == log.read_bytes()
    changes = ("hoist" in modes and number in FIELDS) or ("canonicalize" in modes and number in FORMS)
    assert out.read_bytes() != log.read_bytes() or not changes


def test_043_comes_back_where_its_tools_stand_in_a_chat(kvtools: Run, shared: Path, tmp_path: Path) -> None:
    """Both requests have the same tools: after it the same bytes, and the name that two tools share is counted."""
    (case,) = (shared / "cases").glob("043-*/input.jsonl")
    log, out, back = (tmp_path / name for name in ("log.jsonl", "out.jsonl", "back.jsonl"))
    messages = [{"role": "user", "content": "hi"}]
    rows = [
        {"messages": messages, "tools": json.loads(line)["tools"]} for line in case.read_bytes().splitlines()
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = kvtools("normalize", log, "-o", out, "--mode", "canonicalize", "--format", "json", *BYTES)
    assert json.loads(ended.out)["requests"]["reasons"] == {"duplicate_tool_name": 2}
    first, second = out.read_bytes().splitlines()
    assert first == second
    assert kvtools("restore", out, "-o", back).code == 0
    assert back.read_bytes() == log.read_bytes()


@pytest.mark.parametrize("number", ["043", "048"])
def test_what_has_no_prompts_is_no_log(kvtools: Run, shared: Path, tmp_path: Path, number: str) -> None:
    (log,) = (shared / "cases").glob(f"{number}-*/input.jsonl")
    ended = kvtools("normalize", log, "-o", tmp_path / "out.jsonl", *BYTES)
    assert ended.code == 3
    assert str(log) in ended.err
    assert list(tmp_path.iterdir()) == []
