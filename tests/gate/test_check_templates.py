"""Templates with recorded values: a change is judged on the same requests, and its line is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from known_log import write_log

from kvtools.errors import GateFailed, InputError, UsageError
from kvtools.flow.analyze import AnalyzeOptions
from kvtools.flow.check import CheckOptions, baseline, check, self_test
from kvtools.flow.normalize import normalize
from kvtools.flow.normalize_stage import NormalizeOptions
from kvtools.gate.budget import Budget, limit_of
from kvtools.gate.verdict import Place, Verdict

STABLE = "b" * 64
BYTES = AnalyzeOptions(tokenizer="bytes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A template of 64 stable bytes, two values behind; and values of 40 requests in ``values.jsonl`` beside it."""
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "shop-a.j2").write_text(STABLE + "{{ time }} {{ text }}")
    lines = [{"template": "shop-a", "values": {"time": f"{n:02d}h", "text": "c" * 12}} for n in range(40)]
    (tmp_path / "values.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return templates


def options(folder: Path, file: Path | None = None, **limits: float) -> CheckOptions:
    budget = Budget(
        {
            key.replace("_", "-"): limit_of(key.replace("_", "-"), value, "test")
            for key, value in limits.items()
        }
    )
    return CheckOptions(
        analysis=BYTES, budget=budget, baseline=file, templates=folder, values=folder.parent / "values.jsonl"
    )  # fmt: skip


def written(folder: Path) -> Path:
    file = folder.parent / "baseline.json"
    file.write_text(baseline((), options(folder)).to_json())
    return file


def test_a_value_in_front_fails_with_its_line(folder: Path) -> None:
    before = written(folder)
    # 64 + 3 + 1 + 12 = 80 tokens each; 39 of 40 requests find four blocks: 2,496 of 3,200. "0", "1", … "3" begin the
    # times, so that what a template's requests share ends with its text.
    good = check((), options(folder, before, max_drop=0.0, min_stable_prefix=64))
    assert good.passed
    assert [(one.name, one.scope, one.measured) for one in good.checks[:2]] == [
        ("max-drop", None, 0.0), ("min-stable-prefix", "shop-a", 64),
    ]  # fmt: skip
    assert good.checks[0].baseline == 2496 / 3200
    assert good.causes == ()

    (folder / "shop-a.j2").write_text("\n{{ time }}" + STABLE + " {{ text }}")
    bad = check((), options(folder, before, max_drop=0.02, min_stable_prefix=64))
    # Every prompt begins with the line feed alone; ten times begin with the same digit at most: no block of 16 is equal.
    assert [(one.name, one.status, one.measured) for one in bad.checks[:2]] == [
        ("max-drop", "fail", 0.78), ("min-stable-prefix", "fail", 1),
    ]  # fmt: skip
    (cause,) = bad.causes
    assert (cause.rule, cause.level) == ("placeholder-before-stable-text", "error")
    assert cause.place == Place(path=str(folder / "shop-a.j2"), line=2)
    # "b" * 64 and the blank.
    assert "{{ time }} (40 values in 40 requests) stands in front of 65 stable tokens" in cause.message
    assert bad.inputs == tuple(sorted(bad.inputs, key=lambda one: one.path, reverse=True))
    assert [Path(one.path).name for one in bad.inputs] == ["values.jsonl", "shop-a.j2"]
    assert Verdict.from_json(bad.to_json()) == bad


def test_a_fingerprint_outlives_lines_above_it(folder: Path) -> None:
    prints = []
    for front in ("", "\n\n"):
        (folder / "shop-a.j2").write_text(front + "{{ time }}" + STABLE + " {{ text }}")
        prints.append(check((), options(folder, min_hit_rate=0.5)).causes[0].fingerprint)
    assert prints[0] == prints[1]


def test_a_value_that_never_changes_is_no_cause(folder: Path) -> None:
    (folder / "shop-a.j2").write_text("{{ text }}" + STABLE + "{{ time }}")
    assert check((), options(folder, min_hit_rate=0.5)).causes == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: (folder / "shop-a.j2").unlink(), "values.jsonl:1: template shop-a is not in"),
        (lambda folder: (folder / "shop-a.j2").write_text("{{ now }}"), "'now' is undefined in the values recorded at"),
        (lambda folder: (folder / "shop-a.j2").write_text("\n{{ time"), "shop-a.j2:2: not a jinja2 template"),
        (lambda folder: (folder / "shop-a.j2").write_text("{{ 1 / 0 }}"), "refuses the values"),
        (lambda folder: (folder / "shop-a.j2").write_text("{{ time.__class__.__mro__ }}"), "SecurityError"),
        (lambda folder: (folder.parent / "values.jsonl").write_text("{}\n"), "values.jsonl:1: not recorded values"),
        (lambda folder: (folder.parent / "values.jsonl").write_text('{"template":"../x","values":{}}\n'), "no name of a"),
    ],
    ids=["gone", "not-recorded", "syntax", "error", "sandbox", "values", "outside"],
)  # fmt: skip
def test_what_cannot_be_rendered_is_an_input_error(folder: Path, change: object, told: str) -> None:
    change(folder)  # type: ignore[operator]
    with pytest.raises(InputError) as raised:
        check((), options(folder, min_hit_rate=0.5))
    assert told in str(raised.value)


def test_other_values_are_no_baseline(folder: Path) -> None:
    before = written(folder)
    values = folder.parent / "values.jsonl"
    values.write_text(values.read_text() + '{"template":"shop-a","values":{"time":"41h","text":"x"}}\n')
    with pytest.raises(InputError, match="the recorded values are not those of the baseline"):
        check((), options(folder, before, max_drop=0.5))


def test_sections_of_a_line_are_one_request(folder: Path) -> None:
    (folder / "user.j2").write_text("{# role: user #}Q {{ q }}")
    lines = []
    for n in range(30):
        lines += [
            {"line": n + 1, "message": 0, "template": "shop-a", "values": {"time": "1h", "text": "x"}},
            {"line": n + 1, "message": 1, "template": "user", "values": {"q": str(n)}},
        ]
    (folder.parent / "values.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    verdict = check((), options(folder, min_stable_prefix=1))
    counted = {one.name: one.measured for one in verdict.checks}
    assert counted["min-requests"] == 30
    assert [one.scope for one in verdict.checks if one.name == "min-stable-prefix"] == ["shop-a"]


def test_the_self_test_bites_or_says_so(folder: Path) -> None:
    assert "the gate fails, as it must: hit rate 0.0 %" in self_test((), options(folder, min_hit_rate=0.7))
    with pytest.raises(GateFailed, match="limits are too loose"):
        self_test((), options(folder, min_hit_rate=0.0))
    with pytest.raises(GateFailed, match="min-hit-rate fails already without the planted fault"):
        self_test((), options(folder, min_hit_rate=0.9))


def test_a_log_and_templates_are_two_things(folder: Path, log: Path) -> None:
    with pytest.raises(UsageError, match="not both"):
        check([log], options(folder, min_hit_rate=0.5))


def test_learned_templates_and_values_are_judged(tmp_path: Path) -> None:
    rules = "Answer from the records below, shortly and politely, and never make anything up. " * 4
    lines = [
        {
            "id": f"r{n}",
            "ts": n,
            "prompt": f"Customer {70_001 + 13 * n} asks. {rules}Where is parcel {n % 7}?",
        }
        for n in range(60)
    ]
    log, learned = write_log(tmp_path / "log.jsonl", lines), tmp_path / "learned"
    normalize(log, NormalizeOptions(tokenizer="bytes", target=tmp_path / "out.jsonl", learn=learned))
    values = learned / "values.jsonl"
    before = CheckOptions(analysis=BYTES, templates=learned, values=values)
    file = tmp_path / "base.json"
    file.write_text(baseline((), before).to_json())
    limits = Budget({"max-drop": limit_of("max-drop", 0, "test")})
    verdict = check((), replace(before, budget=limits, baseline=file))
    assert verdict.passed
    # The learned form has its values behind: what stands between two of them is shorter than a block.
    assert [one for one in verdict.causes if one.rule == "placeholder-before-stable-text"] == []
