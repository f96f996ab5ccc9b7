"""``analyze`` with classes: the page, the file of labels, and what is loaded for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kvtools.flow import AnalyzeOptions, analyze
from kvtools.samples.mixed_traffic import mixed_requests, mixed_traffic

if TYPE_CHECKING:
    from conftest import Run


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.csv"
    path.write_bytes(b"".join(mixed_traffic(4_000)))
    return path


def test_the_file_of_classes_has_each_request_in_input_order(mixed: Path, tmp_path: Path) -> None:
    report = analyze(mixed, AnalyzeOptions(classes_out=tmp_path / "c.jsonl"))
    analyze(mixed, AnalyzeOptions(classes_out=tmp_path / "c.parquet"))
    rows = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert rows == pq.read_table(tmp_path / "c.parquet").to_pylist()
    truth = mixed_requests(4_000)
    assert [row["id"] for row in rows] == [f"mix-{n:07d}" for n in range(1, 4_001)]
    right = sum((row["class"] == "cold") == one.cold for row, one in zip(rows, truth, strict=True))
    assert right >= 0.95 * len(truth)
    assert [row["class"] for row in rows] == [row["class_final"] for row in rows]  # no prompt is over 8,192
    cold = next(one for one in report.classes if one.name == "cold")
    mine = [one for one, row in zip(truth, rows, strict=True) if row["class"] == "cold"]
    assert cold.requests == len(mine)
    assert cold.token_share == sum(one.prompt_tokens for one in mine) / sum(
        one.prompt_tokens for one in truth
    )
    assert cold.hit_rate is None
    assert report.heat.cold_share == len(mine) / len(truth)


def test_article_b_moves_long_prompts(mixed: Path, tmp_path: Path) -> None:
    options = AnalyzeOptions(classes_out=tmp_path / "c.jsonl", class_rules=("article-b",))
    report = analyze(mixed, options)
    rows = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    for row, one in zip(rows, mixed_requests(4_000), strict=True):
        assert row["class_final"] == ("cold" if one.prompt_tokens > 1_000 else row["class"])
    assert [rule.name for rule in report.heat.rules][:2] == ["over-8192-tokens", "article-b"]


def test_without_classes_nothing_of_them_is_loaded(mixed: Path) -> None:
    program = (
        "import sys; from kvtools.flow import AnalyzeOptions, analyze\n"
        "assert 'sklearn' not in sys.modules\n"
        f"report = analyze({str(mixed)!r}, AnalyzeOptions(classes=False))\n"
        "assert report.classes == [] and report.heat is None\n"
        "assert 'sklearn' not in sys.modules\n"
        f"assert analyze({str(mixed)!r}).heat.n_classes == 2\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_options_that_do_not_fit(kvtools: Run, mixed: Path) -> None:
    for given, said in (
        (["--classes-out", "x.csv"], ".jsonl or .parquet"),
        (["--no-classes", "--classes-out", "x.jsonl"], "--no-classes"),
        (["--no-classes", "--class-rules", "article-b"], "--no-classes"),
        (["--classes-out", mixed], "would overwrite the input"),
    ):
        ended = kvtools("analyze", mixed, *given)
        assert ended.code == 2
        assert said in ended.err


def test_the_page_says_classes_and_rules(kvtools: Run, mixed: Path) -> None:
    page = kvtools("analyze", mixed).out
    assert "Classes        hot " in page
    assert "cold on arrival: recent_interval_s > 0." in page
    assert "Classes" not in kvtools("analyze", mixed, "--no-classes").out


def test_two_requests_are_one_class(kvtools: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt":"x"}\n{"prompt":"y"}\n')
    ended = kvtools("analyze", log, "--tokenizer", "bytes")
    assert (ended.code, ended.err) == (0, "")
    assert "Classes        one class: no meaningful split (too few requests; 100 are needed)" in ended.out


def test_the_sample_is_written_with_its_options(kvtools: Run, tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    assert kvtools("sample", "mixed-traffic", "-o", path, "--cold-share", "0.3", "--seed", "4").code == 0
    assert path.read_bytes() == b"".join(mixed_traffic(seed=4, cold_share=0.3))
    assert kvtools("sample", "mixed-traffic", "-o", path, "--cold-share", "1").code == 2
    assert kvtools("sample", "canonical", "-o", path, "--cold-share", "0.1").code == 2


def test_a_request_for_several_answers_counts_its_first_lookup(tmp_path: Path) -> None:
    # 100 requests for 4 answers, all of one prompt of 100 bytes: the first misses, each other hits 96 of 100 tokens.
    log = tmp_path / "log.jsonl"
    rows = [{"id": f"r{n}", "ts": n, "n": 4, "prompt": "x" * 100} for n in range(100)]
    log.write_text("\n".join(map(json.dumps, rows)))
    report = analyze(log, AnalyzeOptions(tokenizer="bytes", findings=False))
    assert [one.hit_rate for one in report.classes] == [99 * 96 / (100 * 100)]


def test_headers_move_the_requests_that_the_model_would_have_elsewhere(tmp_path: Path) -> None:
    """The first 40 requests say hot, the next 40 cold, ten say something else; the rest says nothing."""
    truth = mixed_requests(4_000)
    lines = ["request_id,timestamp,route,prompt_tokens,output_tokens,X-Request-Type"]
    says = ["hot"] * 40 + ["cold"] * 40 + ["batch"] * 10 + [""] * 3_910
    for number, (one, said) in enumerate(zip(truth, says, strict=True)):
        at = 1_784_073_600 + one.arrival_ms / 1000
        lines.append(f"r{number},{at:.3f},{one.route},{one.prompt_tokens},{one.output_tokens},{said}")
    log = tmp_path / "log.csv"
    log.write_text("\n".join([*lines, ""]))
    out = tmp_path / "c.jsonl"
    report = analyze(log, AnalyzeOptions(classes_out=out))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["class_final"] for row in rows[:80]] == ["hot"] * 40 + ["cold"] * 40
    assert [row["class_final"] for row in rows[80:]] == [row["class"] for row in rows[80:]]
    hot, cold = [rule for rule in report.heat.rules if rule.name == "header"]
    assert (hot.when, hot.requests) == ("request_type in hot", 40)
    assert hot.moved == sum(row["class"] == "cold" for row in rows[:40])
    assert (cold.when, cold.requests) == ("request_type in cold", 40)
    assert cold.moved == sum(row["class"] == "hot" for row in rows[40:80])
    # The classes of the sample are found without a mistake, so that the planted ones say how many are moved.
    assert hot.moved == sum(one.cold for one in truth[:40])
    assert cold.moved == sum(not one.cold for one in truth[40:80])
    assert cold.moved > 0


def test_a_burst_that_is_foretold_stands_on_the_page(kvtools: Run, tmp_path: Path) -> None:
    """One short prompt a minute for 30 hours, and at 20 past seven hours out of ten a minute of prompts over 8,192."""
    kept = [hour for hour in range(30) if hour % 10 not in (2, 5, 6)]
    arrivals = [(60.0 * minute, 300) for minute in range(30 * 60 + 1)]
    arrivals += [(3600.0 * hour + 1200 + 3 * place, 9000) for hour in kept for place in range(20)]
    lines = [f"r{n},{1_784_073_600 + at:.3f},{tokens},5" for n, (at, tokens) in enumerate(sorted(arrivals))]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["request_id,timestamp,prompt_tokens,output_tokens", *lines, ""]))
    ended = kvtools("analyze", log, "--format", "json")
    report = json.loads(ended.out)
    found = report["heat"]["forecast"]
    # 30 hours have 4 windows of 15 s each in minute 20, and those of 21 hours burst, of 7,200 windows in all.
    assert found["probability"] == pytest.approx((84 + 4 * 84 / 7200) / (120 + 4))
    assert (found["period"], found["window_s"]) == ("hour", 15)
    assert found["next_from_us"] == (1_784_073_600 + 30 * 3600 + 1200) * 1_000_000
    told = " ".join(kvtools("analyze", log).out.split())
    assert (
        "next cold burst: Thu 16 Jul 2026 06:20:00 UTC to Thu 16 Jul 2026 06:21:00 UTC, 67.8 % in each 15 s"
        in told
    )
    assert f"; {found['reason']} (Brier" in told


def test_figures_of_groups_turns_and_reuse(tmp_path: Path) -> None:
    """One byte a token, blocks of 16: a conversation of 100 turns, one a second, each 16 bytes longer than the last."""
    log = tmp_path / "log.jsonl"
    rows = [
        {"id": f"r{n}", "ts": n, "session_id": "s", "prompt": "x" * (16 * (n + 1)) + "y"} for n in range(100)
    ]
    log.write_text("\n".join(map(json.dumps, rows)))
    (only,) = analyze(log, AnalyzeOptions(tokenizer="bytes", findings=False)).classes
    assert (only.turn.p50, only.turn.max) == (50.5, 100)
    assert (only.group.interval_s, only.group.interval_cv, only.group.burst_share) == (1.0, 0.0, 0.0)
    assert only.group.per_minute == pytest.approx(60 * 100 / 99)
    # Turn n finds its first n - 1 blocks again, all of which the turn before used last: that many blocks.
    assert (only.reuse_blocks.requests, only.reuse_blocks.p50, only.reuse_blocks.max) == (99, 50, 99)
