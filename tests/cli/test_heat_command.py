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
