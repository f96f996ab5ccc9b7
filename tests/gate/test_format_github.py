"""GitHub annotations, read back as the runner reads them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from verdicts import FAILED, PASSED, attacked, check, hostile, verdict

from kvtools.report.explain_text import printable
from kvtools.report.gate_formats import KINDS
from kvtools.report.gate_pipelines import data_text, property_text


def runner(line: str) -> tuple[str, dict[str, str], str]:
    """Parse one line as the runner's ActionCommand.TryParseV2 does, which is written down in its source."""
    assert line.startswith("::")
    head, found, data = line[2:].partition("::")
    assert found
    command, _, given = head.partition(" ")
    pairs = [pair.partition("=") for pair in given.split(",") if pair]
    return command, {name: _back(value, "\r\n:,%") for name, _, value in pairs}, _back(data, "\r\n%")


def _back(text: str, escaped: str) -> str:
    for char in escaped:
        text = text.replace(f"%{ord(char):02X}", char)
    return text


def test_each_result_is_a_command_at_its_line() -> None:
    assert KINDS["github"](FAILED).splitlines() == [
        (
            "::error file=templates/shop.j2,line=3,title=kvtools%3A max drop"
            "::hit rate 28.3 %25, baseline 61.0 %25 (dropped 32.7 points, limit 2)"
        ),
        (
            "::error file=templates/shop.j2,line=1,title=kvtools%3A what breaks the prefix"
            "::{{ now }} stands in front of 81 stable tokens"
        ),
        (
            "::warning file=templates/shop.j2,line=3,title=kvtools%3A what breaks the prefix"
            "::order id stands behind"
        ),
    ]


def test_a_passed_gate_has_no_errors() -> None:
    assert KINDS["github"](PASSED).startswith("::notice file=logs/shop.jsonl,line=7,")


def test_standard_input_has_no_file() -> None:
    one = verdict(check("min-hit-rate", "fail", "hit rate 1"), inputs=("-",))
    assert KINDS["github"](one) == "::error title=kvtools%3A min hit rate::hit rate 1\n"


@given(st.text())
@example("100 %25\r\nof: a,b")
def test_the_runner_takes_back_what_was_escaped(text: str) -> None:
    assert "\n" not in data_text(text)
    assert runner(f"::error title={property_text(text)}::{data_text(text)}") in (
        ("error", {"title": text}, text),
        ("error", {"title": ""}, ""),
    )


@given(hostile, hostile)
def test_hostile_text_makes_no_further_command(text: str, path: str) -> None:
    lines = KINDS["github"](attacked(text, path)).split("\n")
    assert lines.pop() == ""
    assert [runner(line)[0] for line in lines] == ["error", "error", "notice"]
    for line in lines:
        _, given_, data = runner(line)
        assert data == printable(text)
        assert set(given_) <= {"file", "line", "title"}
