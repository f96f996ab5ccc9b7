"""What ``kvtools normalize`` tells beside the rewriting: patterns of the user's that failed, tools of one name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

STABLE = "You are the assistant of a mill. Name the rule that a batch breaks, and never guess. " * 4
BYTES = ("--tokenizer", "bytes", "--chat-template", "plain")
SLOW = r"(?:b|bb|b+)+$(?<=a)"
"""Tries every way to cut a run of b before it gives up: that one ends the text is never true."""


def patterns(folder: Path, **expressions: str) -> Path:
    path = folder / "patterns.toml"
    entries = [
        f"[[pattern]]\nname = {name!r}\nkind = 'batch'\nregex = '''{expression}'''\n"
        for name, expression in expressions.items()
    ]
    path.write_text("\n".join(entries))
    return path


def log_of_batches(folder: Path) -> Path:
    """20 requests: a time and a batch of 400 and more b, both different in each."""
    path = folder / "log.jsonl"
    rows = [
        {"prompt": f"It is 2026-07-15T08:{n:02d}:00Z now.\n{STABLE}\nThe batch: {'b' * (400 + n)}"}
        for n in range(20)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("mode", ["hoist", "canonicalize,hoist", "mask"])
def test_a_pattern_without_an_end_is_stopped_and_told_in_a_sentence(
    kvtools: Run, tmp_path: Path, mode: str
) -> None:
    """The rest of the catalogue works on: the time is found all the same."""
    given = patterns(tmp_path, slow=SLOW, swift=r"rule")
    out = tmp_path / "out.jsonl"
    ended = kvtools(
        "normalize", log_of_batches(tmp_path), "-o", out, "--mode", mode, "--patterns", given, *BYTES
    )
    assert ended.code == 0, ended.err
    told = [line for line in ended.err.splitlines() if "slow" in line]
    assert [line.endswith("pattern slow took too long and was left out.") for line in told] == [True]
    assert "swift" not in ended.err
    first = json.loads(out.read_bytes().splitlines()[0])["prompt"]
    assert first.startswith(("It is [TIME] now.", "It is [time] now."))


@pytest.mark.parametrize("mode", ["hoist", "mask"])
def test_a_pattern_that_matches_nothing_is_told(kvtools: Run, tmp_path: Path, mode: str) -> None:
    given = patterns(tmp_path, silent=r"never seen")
    arguments = ("--dry-run", "--mode", mode, "--patterns", given, *BYTES)
    ended = kvtools("normalize", log_of_batches(tmp_path), *arguments)
    assert ended.code == 0
    assert ended.err.count("pattern silent matched none of the varying text that was looked at.") == 1
    assert "took too long" not in ended.err


def tool(name: str, description: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {}}}


def log_of_tools(folder: Path) -> Path:
    """Requests with a tool's name twice: out of order, in order; one with every name once, one without tools."""
    path = folder / "tools.jsonl"
    lists = [
        [tool("list", "L"), tool("connect", "B"), tool("connect", "A")],
        [tool("connect", "A"), tool("connect", "B"), tool("list", "L")],
        [tool("connect", "A"), tool("list", "L")],
        None,
    ]
    rows = [{"messages": [{"role": "user", "content": "hi"}], "tools": tools} for tools in lists]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_tools_of_one_name_are_counted_and_refuse_nothing(kvtools: Run, tmp_path: Path) -> None:
    """Both requests with a name twice are named, the one that is put in order and the one that is."""
    log, out, refused = log_of_tools(tmp_path), tmp_path / "out.jsonl", tmp_path / "refused.jsonl"
    arguments = ("--mode", "canonicalize", "--refused", refused, "--format", "json", *BYTES)
    ended = kvtools("normalize", log, "-o", out, *arguments)
    assert ended.code == 0
    assert json.loads(ended.out)["requests"] == {
        "changed": 1,
        "unchanged": 3,
        "refused": 0,
        "not_read": 0,
        "reasons": {"duplicate_tool_name": 2},
    }
    assert [json.loads(line) for line in refused.read_text().splitlines()] == [
        {"source": f"{log}:1", "reason": "duplicate_tool_name"},
        {"source": f"{log}:2", "reason": "duplicate_tool_name"},
    ]
    first, second, *_ = out.read_bytes().splitlines()
    assert first == second


def test_where_tools_are_left_alone_their_names_are_too(kvtools: Run, tmp_path: Path) -> None:
    arguments = ("--dry-run", "--format", "json", *BYTES)
    for more in (("--mode", "hoist"), ("--mode", "canonicalize", "--forms", "-tool_order")):
        ended = kvtools("normalize", log_of_tools(tmp_path), *more, *arguments)
        assert json.loads(ended.out)["requests"]["reasons"] == {}
