from __future__ import annotations

from pathlib import Path

import pytest

from kvtools.errors import UsageError
from kvtools.flow.check import CheckOptions, configured
from kvtools.flow.explain_limits import limit_lines
from kvtools.gate.budget import Limit
from kvtools.gate.config import find_configuration


def test_the_command_line_wins_and_the_source_of_each_limit_is_told(tmp_path: Path) -> None:
    (tmp_path / "kvtools.toml").write_text(
        '[check]\nmin-hit-rate = 0.6\nmax-drop = 0.02\nbaseline = "main.json"\n[check.routes."a.b"]\nmin-jaccard = 0.5\n'
    )
    options, found = configured({"min-hit-rate": 0.7, "min-requests": 10}, CheckOptions(), None, tmp_path)
    assert options.budget.log == {
        "max-drop": Limit(0.02, "kvtools.toml: [check] max-drop"),
        "min-hit-rate": Limit(0.7, "--min-hit-rate"),
        "min-requests": Limit(10, "--min-requests"),
    }
    assert options.budget.routes == {
        "a.b": {"min-jaccard": Limit(0.5, "kvtools.toml: [check.routes.a.b] min-jaccard")}
    }
    assert options.baseline == tmp_path / "main.json"
    lines = limit_lines(options, found.file).splitlines()
    assert lines[:5] == [
        "min-hit-rate 0.7  from --min-hit-rate",
        "max-drop 0.02  from kvtools.toml: [check] max-drop",
        "min-requests 10  from --min-requests",
        "min-coverage 0.5  from default",
        "route a.b: min-jaccard 0.5  from kvtools.toml: [check.routes.a.b] min-jaccard",
    ]


def test_own_file_wins_over_pyproject_and_neither_is_needed(tmp_path: Path) -> None:
    assert find_configuration(tmp_path).file is None
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname='x'\n[tool.kvtools.check]\nmin-hit-rate = 0.5\n"
    )
    found = find_configuration(tmp_path)
    assert found.budget.log["min-hit-rate"] == Limit(0.5, "pyproject.toml: [tool.kvtools.check] min-hit-rate")
    (tmp_path / "kvtools.toml").write_text("[check]\nmin-hit-rate = 0.4\n")
    assert find_configuration(tmp_path).budget.log["min-hit-rate"].value == 0.4
    (tmp_path / "kvtools.toml").unlink()
    (tmp_path / "pyproject.toml").write_text("[project]\nname='x'\n")
    assert find_configuration(tmp_path).file is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[check]\nmin-hit-rat = 1",
            "kvtools.toml: [check]: there is no key min-hit-rat; did you mean min-hit-rate?",
        ),
        ("[chek]\nmin-hit-rate = 1", "kvtools.toml: there is no key chek; did you mean check?"),
        (
            "[check]\nmin-hit-rate = '0.6'",
            "kvtools.toml: [check] min-hit-rate: min-hit-rate is text; write a number.",
        ),
        ("[check]\nmin-hit-rate = true", "min-hit-rate is true or false; write a number."),
        ("[check]\nmin-hit-rate = 60", "min-hit-rate is 60; write a share from 0 to 1"),
        ("[check]\nmin-hit-rate = nan", "write a share from 0 to 1"),
        ("[check]\nmax-tokens-lost = 1.5", "max-tokens-lost is 1.5; write a whole number of 0 or more"),
        ("[check]\nmax-tokens-lost = inf", "write a whole number"),
        ("[check]\nbaseline = 3", "[check] baseline: no path"),
        ("[check.routes.a]\nmax-cold-share = 0.1", "[check.routes.a]: there is no key max-cold-share"),
        ("[check]\nroutes = 3", "[check.routes]: no table"),
        ("[check.routes]\na = 3", "[check.routes.a]: no table"),
        ("check = 3", "check is no table"),
        ("[check", "kvtools.toml: not TOML"),
    ],
)
def test_a_wrong_configuration_is_one_sentence_with_file_and_key(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "kvtools.toml").write_text(text)
    with pytest.raises(UsageError) as raised:
        find_configuration(tmp_path)
    assert told in str(raised.value)


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        find_configuration(tmp_path, tmp_path / "none.toml")
    (tmp_path / "pyproject.toml").write_text("[project]\nname='x'\n")
    with pytest.raises(UsageError, match=r"has no \[tool.kvtools.check\]"):
        find_configuration(tmp_path, tmp_path / "pyproject.toml")
