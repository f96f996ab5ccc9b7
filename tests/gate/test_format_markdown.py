"""The comment on a pull request: its table, and text that does nothing."""

from __future__ import annotations

import re

from hypothesis import given
from verdicts import FAILED, PASSED, attacked, hostile

from kvtools.report.gate_formats import KINDS


def test_a_failure_names_figures_and_causes() -> None:
    lines = KINDS["md"](FAILED).split("\n")
    assert lines[0] == "**kvtools check failed:** 1 of 3 checks."
    assert (
        r"| **FAIL** | max drop | hit rate 28.3 %, baseline 61.0 % \(dropped 32.7 points, limit 2\) |"
        in lines
    )
    assert r"- error, templates/shop.j2:1: \{\{ now \}\} stands in front of 81 stable tokens" in lines
    # What is not known stays out of the folded checklists.
    assert sum("warm" in line for line in lines) == 0


def test_a_pass_says_so() -> None:
    assert KINDS["md"](PASSED).startswith("**kvtools check passed.**\n")


@given(hostile, hostile)
def test_hostile_text_does_nothing(text: str, path: str) -> None:
    written = KINDS["md"](attacked(text, path))
    assert written.encode().decode().split("\n")[0] == "**kvtools check failed:** 1 of 3 checks."
    assert all(char.isprintable() for char in written.replace("\n", ""))
    # Our own tags alone: everything else that opens a tag is an entity.
    assert re.findall("<[^>]*>?", written) == ["<details>", "<summary>", "</summary>", "</details>"]
    for line in written.split("\n"):
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 4, line
        assert not re.search(r"(?<!\\)(?:\\\\)*`", line)
        assert not re.search(r"(?<!\\)(?:\\\\)*\]\(", line)
    # A name, a number and an address are links unless something stands between the sign and what follows.
    assert not re.search(r"(?:@|&#64;|(?<!&)#|&#35;)(?!&#8203;)", written)
    assert "://" not in written
    assert "www." not in written
