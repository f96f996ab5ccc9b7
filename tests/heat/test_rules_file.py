"""Rules as YAML: what is written is read back, and a bad or hostile file ends in one sentence with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kvtools.errors import InputError
from kvtools.heat.rules import (
    HEADER,
    NAMES,
    OVER_8192_TOKENS,
    Arriving,
    Condition,
    HeatRules,
    Rule,
    RuleSet,
)
from kvtools.heat.rules_file import read_rules, rules_yaml

FIX = "; see docs/hot-cold-rules.md for the form."
HEAD = "kvtools_rules: 1\ndefault: hot\nrules:\n"

names = st.text(st.characters(codec="utf-8", exclude_characters="\x85\ufeff"), min_size=1, max_size=20)
conditions = st.one_of(
    st.builds(
        Condition,
        st.sampled_from([name for name in Arriving.__struct_fields__ if name not in NAMES]),
        st.sampled_from(["<=", ">"]),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    st.builds(
        Condition,
        st.sampled_from(NAMES),
        st.sampled_from(["in", "not_in"]),
        st.lists(names, min_size=1, max_size=4).map(tuple),
    ),
)
rules = st.builds(
    Rule,
    st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True),
    st.lists(conditions, max_size=3).map(tuple),
    st.sampled_from(["hot", "cold"]),
    st.booleans(),
)


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "rules.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@given(st.builds(RuleSet, st.lists(rules, max_size=4).map(tuple), st.sampled_from(["hot", "cold"])))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, rule_set: RuleSet) -> None:
    path = written(tmp_path_factory.mktemp("rules"), rules_yaml(rule_set, ["a note\nof two lines"]))
    assert read_rules(path) == rule_set


def test_the_form_that_the_documentation_shows(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "kvtools_rules: 1\n"
        "default: hot\n"
        "rules:\n"
        "- {name: over-8192-tokens, when: [{feature: prompt_tokens, op: '>', value: 8192}], label: cold, "
        "disk_cache: true}\n"
        "- name: header\n"
        "  when: [{feature: request_type, op: in, value: [hot]}]\n"
        "  label: hot\n"
        "- name: header\n"
        "  when: [{feature: request_type, op: in, value: [cold]}]\n"
        "  label: cold\n",
    )
    assert HeatRules.load(path).rules == RuleSet((OVER_8192_TOKENS, *HEADER), "hot")


def test_the_documentation_shows_what_is_true(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/hot-cold-rules.md").read_text()
    (form,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (service,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    path = written(tmp_path, form)
    namespace: dict[str, object] = {}
    for line in service.replace("heat/rules.yaml", str(path)).splitlines():
        code, _, said = line.partition("  # ")
        if said:
            assert eval(code, namespace) == eval(said), line  # noqa: S307 - our own page
        else:
            exec(code, namespace)  # noqa: S102 - our own page


def condition(text: str) -> str:
    return HEAD + f"- name: a\n  label: hot\n  when:\n  - {text}\n"


BAD = {
    "empty": ("", "1: no rule file: the key kvtools_rules is missing"),
    "a list": ("- a\n", "1: no rule file: the key kvtools_rules is missing"),
    "not YAML": ("a: b: c\n", "1: not plain YAML (mapping values are not allowed here)"),
    "two documents": ("--- 1\n--- 2\n", "2: not plain YAML (but found another document)"),
    "no default": ("kvtools_rules: 1\n", "1: Object missing required field `default`"),
    "default warm": ("kvtools_rules: 1\ndefault: warm\n", "2: Invalid enum value 'warm'"),
    "misspelt key": (HEAD.replace("rules:\n", "rule: []\n"), "1: no rule file: the key kvtools_rules is missing"),
    "unknown key": (HEAD + "- {name: a, when: [], label: hot, if: x}\n", "4: Object contains unknown field `if`"),
    "rules a map": (HEAD + "  a: 1\n", "4: Expected `array`, got `object`"),
    "rule name": (
        HEAD + "- {name: A b, when: [], label: hot}\n",
        "4: a rule's name has 1 to 64 of a-z, 0-9 and hyphens, a hyphen never first: not 'A b'",
    ),
    "feature": (
        condition("{feature: tokens, op: '>', value: 1}"),
        f"7: there is no feature 'tokens'; take one of {', '.join(Arriving.__struct_fields__)}",
    ),
    "comparison": (condition("{feature: route, op: '>', value: 1}"), "7: route is not compared by >; take one of in, not_in"),
    "nan": (condition("{feature: turn, op: '>', value: .nan}"), "7: turn > takes a finite number"),
    "text": (condition("{feature: turn, op: '>', value: '3'}"), "7: Expected `float | array`, got `str`"),
    "unquoted": (condition("{feature: route, op: in, value: [a, 12]}"), "7: Expected `str`, got `int`"),
    "deep place": (
        condition("feature: route\n    op: in\n    value:\n    - a\n    - no"),
        "11: Expected `str`, got `bool`",
    ),
    "twice": ("kvtools_rules: 1\ndefault: hot\ndefault: cold\n", "3: not plain YAML ('default' is given twice)"),
    "merge key": ("<<: {kvtools_rules: 1}\n", "1: not plain YAML (a key is not a plain name)"),
    "alias": ("a: &x [1]\nb: *x\n", "2: not plain YAML (anchors and aliases are not read)"),
    "a bomb": (
        "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        "2: not plain YAML (anchors and aliases are not read)",
    ),
    "a date": ("kvtools_rules: 1\ndefault: 2026-07-15\n", "2: Expected `str`, got `date`"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_with_its_line(tmp_path: Path, name: str) -> None:
    text, sentence = BAD[name]
    if name == "misspelt key":
        text = text.replace("kvtools_rules", "kvtools_rule")
    path = written(tmp_path, text)
    with pytest.raises(InputError) as told:
        read_rules(path)
    assert str(told.value) == f"{path}:{sentence}{FIX}"


def test_a_file_that_wants_to_run_something_does_not(tmp_path: Path) -> None:
    victim = tmp_path / "ran"
    path = written(tmp_path, f"!!python/object/apply:os.mkdir ['{victim}']\n")
    with pytest.raises(InputError, match=r"rules.yaml:1: not plain YAML \(could not determine a constructor"):
        read_rules(path)
    assert not victim.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"\x00", "not plain YAML"),
        (b"[" * 100_000, "nested too deeply to be a rule file"),
        (b"a: 2026-99-99\n", "not plain YAML"),
        (b"#" * (1 << 20) + b"\n", "larger than 1 MiB"),
        (b"a: 1\nb: \xff\n", "rules.yaml:2: not UTF-8"),
        (b"kvtools_rules: 2\n", "rules.yaml:1: rules of version 2, and this kvtools reads version 1"),
        (b"kvtools_rules: true\n", "rules of version True"),
    ],
    ids=["nul", "deep", "no date", "large", "bytes", "newer", "version true"],
)
def test_a_hostile_file_is_one_sentence(tmp_path: Path, text: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=r"^[^\n]*\.$") as told:
        read_rules(written(tmp_path, text))
    assert sentence in str(told.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.yaml: cannot be read \(No such file or directory\)"):
        HeatRules.load(tmp_path / "none.yaml")


def test_notes_are_comments_whatever_they_hold() -> None:
    text = rules_yaml(RuleSet((), "cold"), ["one\ndefault: hot", ""])
    assert text.startswith("# one\n# default: hot\n# \n")
    assert yaml.safe_load(text) == {"kvtools_rules": 1, "default": "cold", "rules": []}
