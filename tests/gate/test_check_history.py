"""``check --history``: a hit rate that falls and stays low fails the gate once, with what changed in the prompts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from known_log import Command, log_lines, write_log

from kvtools.errors import InputError
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.flow.check import CheckOptions, baseline
from kvtools.flow.history import check_history
from kvtools.gate.verdict import Verdict

BYTES = CheckOptions(analysis=AnalyzeOptions(tokenizer="bytes"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Figures of 80 requests: ``good`` hits 79 * 64 of 80 * 80 tokens, ``bad`` with a value in front none."""
    folder = tmp_path_factory.mktemp("stored")
    for name, front in (("good", False), ("bad", True)):
        log = write_log(folder / f"{name}.jsonl", log_lines(front=front, requests=80))
        (folder / f"{name}.json").write_text(baseline(log, BYTES).to_json())
    (folder / "report.json").write_text(analyze(folder / "good.jsonl", BYTES.analysis).to_json())
    return folder


def nights(stored: Path, folder: Path, *names: str) -> Path:
    folder.mkdir()
    for number, name in enumerate(names, 1):
        shutil.copy(stored / f"{name}.json", folder / f"night-{number}.json")
    return folder


def status(verdict: Verdict) -> dict[str | None, str]:
    return {one.scope: one.status for one in verdict.checks}


def test_the_first_bad_night_fails_and_the_next_do_not(stored: Path, tmp_path: Path) -> None:
    codes = []
    for count in range(3, 8):
        names = ["good"] * min(count, 4) + ["bad"] * max(count - 4, 0)
        codes.append(check_history([nights(stored, tmp_path / str(count), *names)]).exit_code)
    # Good up to the fourth night; the fifth falls; the sixth and seventh are as low as the fifth.
    assert codes == [0, 0, 1, 0, 0]


def test_the_drop_is_told_with_its_figures_and_its_cause(
    command: Command, stored: Path, tmp_path: Path, here: Path
) -> None:
    folder = nights(stored, tmp_path / "nights", *["good"] * 4, "bad")
    done = command("check", "--history", folder, "--report", "json=out.json", "--report", "sarif=out.sarif")
    assert (done.returncode, done.stderr) == (1, "")
    # 79 * 64 / 6,400; every request of the log, and of each route, has a value of its own in front.
    first = done.stdout.splitlines()[0]
    assert first.startswith(
        "FAIL  whole log: hit rate 0.0 %, fell by 79.0 points from a median of 79.0 % (cliff; changed there: "
    )
    assert " in prompt" in first
    verdict = Verdict.from_json((here / "out.json").read_text())
    assert status(verdict) == {"whole log": "fail", "route desk": "fail", "route shop": "fail"}
    (whole, desk, shop) = verdict.checks
    assert whole.baseline == 0.79
    assert whole.measured == pytest.approx(0.79)
    # Desk has the first request, which hits nothing: 39 of its 40 hit 64 of 80 tokens; shop's all do.
    assert (desk.baseline, shop.baseline) == (0.78, 0.8)
    assert {cause.place.path for cause in verdict.causes} == {str(folder / "night-5.json")}
    assert {cause.level for cause in verdict.causes} == {"error"}
    (run,) = json.loads((here / "out.sarif").read_text())["runs"]
    assert {one["ruleId"] for one in run["results"]} == {"history", "hit-rate-fell"}


def test_a_lasting_drop_is_a_note_with_its_night(stored: Path, tmp_path: Path) -> None:
    folder = nights(stored, tmp_path / "nights", *["good"] * 2, *["bad"] * 3)
    verdict = check_history([folder])
    assert verdict.passed
    assert {cause.level for cause in verdict.causes} == {"note"}
    assert "(cliff; changed there: " in verdict.checks[0].message
    assert verdict.checks[0].message.endswith(f"at {folder / 'night-3.json'}")
    # Right behind the drop one sample is no median: that is no verdict, and no failure either.
    early = check_history([nights(stored, tmp_path / "early", "good", "good", "bad", "bad")])
    assert early.passed
    assert set(status(early).values()) == {"n/a"}


def test_the_order_of_the_paths_changes_nothing_and_reports_are_read_too(
    stored: Path, tmp_path: Path
) -> None:
    folder = nights(stored, tmp_path / "nights", "good", "report", "good")
    files = sorted(folder.iterdir())
    written = {check_history(paths).to_json() for paths in (files, files[::-1], [*files, folder])}
    assert written == {check_history([folder]).to_json()}
    assert Verdict.from_json(written.pop()).passed


def test_too_little_or_unlike_is_no_pass(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="too little to judge: it takes 2 samples of a key before the newest"
    ):
        check_history([nights(stored, tmp_path / "two", "good", "bad")])
    folder = nights(stored, tmp_path / "unlike", "good", "good", "good")
    other = CheckOptions(analysis=AnalyzeOptions(tokenizer="bytes", block_size=8))
    (folder / "night-4.json").write_text(baseline(stored / "good.jsonl", other).to_json())
    with pytest.raises(InputError, match=r"night-4\.json: cannot be compared: block size"):
        check_history([folder])
    (folder / "night-4.json").write_text('{"a": 1}')
    with pytest.raises(InputError, match=r"night-4\.json: "):
        check_history([folder])
    few = write_log(tmp_path / "few.jsonl", log_lines(requests=29))
    (folder / "night-4.json").write_text(analyze(few, BYTES.analysis).to_json())
    with pytest.raises(InputError, match=r"night-4\.json: too little to judge: requests 29 \(limit 30\)"):
        check_history([folder])
    (tmp_path / "empty").mkdir()
    for path, told in (
        (tmp_path / "empty", "holds no report and no baseline"),
        (tmp_path / "no", "no such file"),
    ):
        with pytest.raises(InputError, match=told):
            check_history([path])


def test_a_route_that_is_gone_is_not_judged(stored: Path, tmp_path: Path) -> None:
    lines = log_lines(requests=80)
    for line in lines:
        line["tenant"] = "desk"
    one = write_log(tmp_path / "one.jsonl", lines)
    folder = nights(stored, tmp_path / "nights", "good", "good", "good")
    (folder / "night-4.json").write_text(baseline(one, BYTES).to_json())
    verdict = check_history([folder])
    assert status(verdict) == {"whole log": "pass", "route desk": "pass", "route shop": "n/a"}
    assert "no sample, or too few requests, in" in verdict.checks[2].message
