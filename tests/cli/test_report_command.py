"""``kvtools report``, ``kvtools compare`` and ``--report`` as users run them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "data"


def _run(*args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "kvtools", *map(str, args)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reports")
    said = _run(
        "analyze", "logs", DATA / "canonical.chat.jsonl", "--format", "json", "-o", place / "a.json",
        "--report", f"html={place / 'a.html'}", "--report", f"md={place / 'a.md'}", "--lang", "zh",
    ).stderr  # fmt: skip
    assert f"html report: {place / 'a.html'}" in said
    return place


def test_analyze_writes_further_reports(stored: Path) -> None:
    rate = json.loads((stored / "a.json").read_text())["cache"]["hit_rate"]
    assert f"{100 * rate:.1f} %" in (stored / "a.md").read_text()
    assert (stored / "a.html").read_text().startswith('<!DOCTYPE html>\n<html lang="zh-Hans">')


def test_a_stored_report_becomes_what_the_ending_says(stored: Path) -> None:
    _run("report", stored / "a.json", "-o", stored / "b.md")
    assert (stored / "b.md").read_text() == (stored / "a.md").read_text()
    _run("report", stored / "a.json", "-o", stored / "b.json")
    assert (stored / "b.json").read_bytes() == (stored / "a.json").read_bytes()
    assert _run("report", stored / "a.json").stdout.splitlines()[0].endswith("cold start).")


def test_a_report_compared_with_itself_changes_nothing(stored: Path) -> None:
    found = json.loads(_run("compare", stored / "a.json", stored / "a.json", "--format", "json").stdout)
    assert {row["change"] for row in found["figures"]} <= {0, None}
    assert found["differences"] == found["causes_new"] == found["causes_gone"] == []


def test_two_reports_become_a_page(stored: Path) -> None:
    _run("compare", stored / "a.json", stored / "a.json", "-o", stored / "both.html", "--lang", "zh")
    page = (stored / "both.html").read_text()
    assert page.startswith('<!DOCTYPE html>\n<html lang="zh-Hans">')
    assert 'data-json="comparison.figures.0.change" data-value="0.0">+0.0 pt<' in page


_CHECKED = ("--min-hit-rate", "0.99", "--min-requests", "1")


@pytest.mark.parametrize(
    ("words", "code", "figure"),
    [
        (("replay",), 0, "replays.0.hit_rate"),
        (("warmup", "-o", "warm.jsonl"), 0, "evaluation.warm.hit_rate"),
        (("check", *_CHECKED), 1, "checks.0.measured"),
    ],
    ids=["replay", "warmup", "check"],
)
def test_every_command_writes_its_page_and_reads_it_back(
    words: tuple[str, ...], code: int, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *given = words
    page, stored = tmp_path / "page.html", tmp_path / "report.json"
    log = DATA / "canonical.chat.jsonl"
    shown = _run(
        name, log, *given, "--tokenizer", "bytes", "--format", "html", "--report", f"html={page}", "--report", f"json={stored}",
        code=code,
    ).stdout  # fmt: skip
    assert shown.startswith("<!DOCTYPE html>")
    assert f'data-json="{figure}"' in page.read_text()
    # The page that is made of the JSON later differs only in the command, which the JSON does not hold.
    _run("report", stored, "-o", tmp_path / "later.html")
    row = re.compile(r'<tr><th scope="row">command</th><td><code>kvtools .*?</code></td></tr>')
    made, commands = row.subn("", page.read_text())
    assert commands == 1
    assert made == (tmp_path / "later.html").read_text()


def test_what_is_no_report_is_one_sentence(stored: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("[]")
    said = _run("report", broken, code=3).stderr
    assert said.startswith(f"kvtools: {broken}: not a kvtools report")
    assert "no such file" in _run("compare", stored / "a.json", tmp_path / "none.json", code=3).stderr.lower()


def test_a_kind_that_there_is_not() -> None:
    assert (
        "KIND=FILE"
        in _run("analyze", "logs", DATA / "canonical.chat.jsonl", "--report", "pdf=x", code=2).stderr
    )


def test_an_output_that_would_overwrite_another(stored: Path) -> None:
    same = stored / "same"
    _run("analyze", "logs", DATA / "canonical.chat.jsonl", "-o", same, "--report", f"md={same}", code=2)
