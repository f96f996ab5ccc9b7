"""What ``normalize --learn`` writes passes the linter, and its faults are found all the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import Template

from kvtools.flow import NormalizeOptions, lint_templates, normalize
from kvtools.linting import lint_template
from kvtools.report.lint import LintReport
from kvtools.tokens import BytesTokenizer


def faults(report: LintReport) -> list[tuple[str, str]]:
    return [(one.path, found.rule) for one in report.templates for found in one.findings]


def learn(log: Path, folder: Path) -> Path:
    normalize(log, NormalizeOptions(target=folder / "out.jsonl", learn=folder / "learned"))
    return folder / "learned"


@pytest.fixture(scope="module")
def shop(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The templates of the first 1,500 requests of the bundled log."""
    folder = tmp_path_factory.mktemp("shop")
    with (data / "shop-assistant.jsonl").open("rb") as lines:
        (folder / "log.jsonl").write_bytes(
            b"".join(line for _, line in zip(range(1500), lines, strict=False))
        )
    return learn(folder / "log.jsonl", folder)


def test_those_of_the_bundled_log_are_clean(shop: Path) -> None:
    report = lint_templates(str(shop))
    assert (report.exit_code, faults(report)) == (0, [])
    served = sorted(path.name for path in shop.glob("*.j2"))
    assert sorted(Path(one.path).name for one in report.templates) == served
    # What the manifest names beside them is skipped by name, never silently.
    others = {"manifest.json", "values.jsonl", *(f"logged/{name}" for name in served)}
    assert {Path(name).relative_to(shop).as_posix() for name in report.skipped_files} == others


def test_those_of_the_peers_log_are_clean_and_render_what_is_sent(shared: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    made = [sys.executable, str(shared / "peers/make_log.py"), "--n", "300", "--seed", "7", "--out", str(log)]
    subprocess.run(made, check=True, capture_output=True)
    folder = learn(log, tmp_path)
    report = lint_templates(str(folder))
    assert (report.exit_code, faults(report)) == (0, [])
    assert report.counts.templates == 5
    # Examples are lines; no other value of the log holds a line feed, so that no other needs a condition.
    manifest = json.loads((folder / "manifest.json").read_text())["templates"]
    fields = {
        (entry["file"], field["name"]): field["one_line"] for entry in manifest for field in entry["fields"]
    }
    assert {name for (_, name), one_line in fields.items() if not one_line} == {"examples"}
    served = {path.stem: path.read_text() for path in folder.glob("*.j2")}
    conditions = {name for name, source in served.items() if " if " in re.sub(r"^[^{]*|}}[^{]*", " ", source)}
    assert conditions == {Path(file).stem for (file, name) in fields if name == "examples"}
    sent = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    values = [json.loads(line) for line in (folder / "values.jsonl").read_text().splitlines()]
    assert {entry["template"] for entry in values} == set(served)
    for entry in values:
        text = Template(served[entry["template"]]).render(entry["values"])
        assert text == sent[entry["line"] - 1]["messages"][entry["message"]]["content"]


def test_the_logged_form_is_linted_where_it_is_named(shop: Path) -> None:
    # There the values stand where the log has them: in front of the stable text.
    by_folder, by_file = (
        lint_templates(str(shop / "logged")),
        lint_templates(str(next(shop.glob("logged/*")))),
    )
    assert (by_folder.exit_code, by_file.exit_code) == (1, 1)
    assert {rule for _, rule in faults(by_folder)} == {"placeholder-before-stable-text"}
    assert by_file.counts.templates == 1


def test_a_fault_put_into_a_learned_template_is_found(shop: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited"
    shutil.copytree(shop, edited)
    file = next(edited.glob("*.j2"))
    file.write_text("{{ order_id }}\n" + file.read_text())
    report = lint_templates(str(edited))
    assert report.exit_code == 1
    assert (str(file), "placeholder-before-stable-text") in faults(report)


def test_the_manifest_knows_better_than_a_name(tmp_path: Path) -> None:
    """``plan`` is a class by its name; a manifest that moved it says that it varies in the log."""
    text = "Be kind to all who ask.\n{{ plan }}\nBe short."
    folder = tmp_path / "learned"
    (folder / "logged").mkdir(parents=True)
    (folder / "shop.j2").write_text(text)
    assert faults(lint_templates(str(folder))) == []
    field = {
        "name": "plan", "kind": "id", "granularity": None, "shape": "field", "placeholder": "[plan]",
        "moved": True, "one_line": True,
    }  # fmt: skip
    entry = {
        "file": "shop.j2", "logged": "logged/shop.j2", "role": "system", "route": None, "requests": 2,
        "stable_tokens": 3, "hit_rate_if_moved": None, "fields": [field],
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps({"kvtools_templates": 1, "templates": [entry]}))
    assert faults(lint_templates(str(folder))) == [
        (str(folder / "shop.j2"), "placeholder-before-stable-text")
    ]
    # A manifest that is damaged is none: the name is all that is known.
    (folder / "manifest.json").write_text('{"kvtools_templates": 1, "templates": [1]}')
    assert faults(lint_templates(str(folder))) == []


@pytest.mark.parametrize(
    ("source", "stopped_by"),
    [
        # What a condition reads only chooses between texts: requests that choose alike share them.
        ('{{ "a" if question else "" }}Be kind.', None),
        ("{% if question %}a{% elif id %}b{% endif %}Be kind.", None),
        ('{% set long = question|length > 9 %}{{ "a" if long else "b" }}Be kind.', None),
        ('{{ "a" if question.strip().endswith(id) else "" }}Be kind.', None),
        # What it prints counts as ever, wherever the same name decides.
        ('{{ question if question else "" }}Be kind.', "question"),
        ("{% if question %}{{ question }}{% endif %}Be kind.", "question"),
        ('{{ "a" if question else "" }}{{ question }}Be kind.', "question"),
        ("{% set q = question %}{{ 'a' if q else '' }}{{ q }}Be kind.", "question"),
        # A loop prints once per turn.
        ("{% for m in history %}a{% endfor %}Be kind.", "history"),
        # A clock that decides is a clock.
        ('{{ "day" if now().hour > 6 else "night" }}Be kind.', "now()"),
    ],
)
def test_a_condition_chooses_and_prints_nothing(source: str, stopped_by: str | None) -> None:
    one = lint_template("t.j2", source, BytesTokenizer())
    assert one.stable is not None
    assert one.stable.stopped_by == stopped_by
