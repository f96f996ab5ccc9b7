"""The story of a pull request, in a real git repository: a timestamp in front fails it, the fix lets it through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from repositories import RECORDED, WITH_CLOCK, WITHOUT_CLOCK, Repository, needs_command

GIVEN = ("--templates", "prompts", "--values", "prompts/values.jsonl", "--tokenizer", "bytes")
CHECK = (
    "kvtools", "check", *GIVEN, "--baseline", "prompts/baseline.json", "--max-drop", "0.02",
    "--report", "sarif=out.sarif", "--report", "github=out.github.txt",
)  # fmt: skip
AFTER_TEXT = "{# reviewed #}\n" + WITHOUT_CLOCK.rstrip("\n") + " {{ now }}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a template, recorded values and their baseline on main."""
    needs_command()
    made = Repository(tmp_path / "shop service")
    made.write("prompts/shop.j2", WITHOUT_CLOCK)
    made.write("prompts/values.jsonl", RECORDED)
    made.write(".gitignore", "out.*\n")
    made.ended("kvtools", "baseline", *GIVEN, "-o", "prompts/baseline.json")
    made.commit("Prompts, recorded values and their baseline")
    return made


def test_a_timestamp_in_front_fails_and_the_fix_passes(repository: Repository) -> None:
    repository.ended("git", "switch", "--quiet", "--create", "clock")
    repository.write("prompts/shop.j2", "{# tells the time #}\n" + WITH_CLOCK)
    repository.commit("Tell the assistant the time")
    page = repository.ended(*CHECK, code=1)
    assert page.startswith("FAIL  hit rate 0.0 %")
    assert "prompts/shop.j2:2" in page

    (run,) = json.loads((repository.path / "out.sarif").read_text())["runs"]
    found = [one for one in run["results"] if one["ruleId"] == "placeholder-before-stable-text"]
    (location,) = found[0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "prompts/shop.j2", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 2},
    }
    assert (found[0]["level"], "now" in found[0]["message"]["text"]) == ("error", True)
    # The line that SARIF names is the one that the branch added.
    added = repository.ended("git", "blame", "-L", "2,2", "--porcelain", "prompts/shop.j2")
    assert "summary Tell the assistant the time" in added
    annotations = (repository.path / "out.github.txt").read_text().splitlines()
    assert all(line.startswith("::error file=prompts/shop.j2,line=2,title=") for line in annotations)
    assert any("{{ now }}" in line for line in annotations)

    repository.write("prompts/shop.j2", AFTER_TEXT)
    repository.commit("Tell the time behind the stable text")
    page = repository.ended(*CHECK)
    assert page.startswith("ok    hit rate ")
    (run,) = json.loads((repository.path / "out.sarif").read_text())["runs"]
    assert not [one for one in run["results"] if one["level"] != "note"]
    assert "::error" not in (repository.path / "out.github.txt").read_text()


def test_the_same_branch_gives_the_same_bytes(repository: Repository) -> None:
    repository.write("prompts/shop.j2", WITH_CLOCK)
    written = []
    for _ in range(2):
        repository.ended(*CHECK, code=1)
        written.append([(repository.path / name).read_bytes() for name in ("out.sarif", "out.github.txt")])
    assert written[0] == written[1]
