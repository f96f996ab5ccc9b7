"""``kvtools analyze metrics`` as users run it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvtools.monitor.exposition import time_in_name

if TYPE_CHECKING:
    from conftest import Run

PLAIN = ("--tokenizer", "bytes", "--chat-template", "plain")
SCRAPE = """\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{engine="0",model_name="m"}} {0}
vllm:prefix_cache_hits_total{{engine="0",model_name="m"}} {1}
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} {2}
"""


@pytest.fixture
def scrapes(tmp_path: Path) -> list[Path]:
    """120 tokens queried in a minute, 32 of them hit: what the log of the fixture ``log`` comes to."""
    paths = [tmp_path / f"scrape-{minute}.prom" for minute in (1, 2)]
    for place, (path, values) in enumerate(zip(paths, [(1000, 900, 0), (1120, 932, 0.5)], strict=True)):
        path.write_text(SCRAPE.format(*values))
        os.utime(path, (1_784_102_400 + 60 * place,) * 2)
    return paths


def test_the_rate_is_that_of_the_time_between_scrapes(kvtools: Run, scrapes: list[Path]) -> None:
    ended = kvtools("analyze", "metrics", *scrapes)
    lines = ended.out.splitlines()
    assert (ended.code, lines[0]) == (0, "26.7 % of prompt tokens hit the prefix cache over 60.0 s.")
    assert lines[1] == "  120 queried, 32 hit · 1 engine · 0 preemptions"
    assert lines[3] == "  (since the engines' start 83.2 %: an average that hides changes)"
    assert all(len(line) <= 100 for line in lines)
    assert "blocks held by running requests" in ended.out
    assert "1 scrape showed 0.0 % and hits followed: the cache was not empty." in ended.out
    assert "times are those of the files" in ended.out


def test_the_order_of_the_files_is_that_of_their_times(kvtools: Run, scrapes: list[Path]) -> None:
    forth, back = (kvtools("analyze", "metrics", *paths).out for paths in (scrapes, scrapes[::-1]))
    assert forth == back


def test_json_has_the_same_and_all_windows(kvtools: Run, scrapes: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    ended = kvtools("analyze", "metrics", *scrapes, "--format", "json", "-o", out)
    said = json.loads(out.read_text())
    assert (ended.code, ended.out) == (0, "")
    assert (said["queried"], said["hit"], said["unit"]) == (120, 32, "tokens")
    assert said["hit_rate"] == said["total_hit_rate"] == 32 / 120
    assert said["lifetime_hit_rate"] == 932 / 1120
    assert said["kv_usage"] == {"mean": 0.25, "max": 0.5, "scrapes": 2, "zero_then_hit": 1}
    assert (said["windows"][0]["from_s"], said["windows"][0]["to_s"]) == (1_784_102_400, 1_784_102_460)
    assert said["engines"][0]["labels"] == {"engine": "0", "model_name": "m"}
    assert (said["verdict"]["kind"], said["predicted"]) == ("measured", None)


def test_a_log_agrees_with_what_its_engine_counted(kvtools: Run, scrapes: list[Path], log: Path) -> None:
    ended = kvtools("analyze", "metrics", *scrapes, "--log", log, *PLAIN, "--format", "json")
    said = json.loads(ended.out)
    assert (ended.code, said["verdict"]["kind"]) == (0, "agrees")
    assert said["predicted"] == {
        "queried_tokens": 120, "hit_tokens": 32, "hit_rate": 32 / 120, "requests": 3, "capacity_blocks": None,
        "block_size": 16, "in_time": None,
    }  # fmt: skip


def test_a_stored_report_serves_as_its_log_does(
    kvtools: Run, scrapes: list[Path], log: Path, tmp_path: Path
) -> None:
    stored = tmp_path / "report.json"
    assert kvtools("analyze", log, *PLAIN, "--format", "json", "-o", stored).code == 0
    direct = kvtools("analyze", "metrics", *scrapes, "--log", log, *PLAIN)
    again = kvtools("analyze", "metrics", *scrapes, "--log", stored)
    assert (again.code, again.out) == (0, direct.out)
    refused = kvtools("analyze", "metrics", *scrapes, "--log", stored, "--block-size", "32")
    assert (refused.code, "has been read already" in refused.err) == (2, True)


def test_an_engine_that_hits_nothing_is_no_prompt_problem(
    kvtools: Run, scrapes: list[Path], log: Path
) -> None:
    scrapes[1].write_text(SCRAPE.format(1120, 900, 0))
    os.utime(scrapes[1], (1_784_102_460,) * 2)
    ended = kvtools("analyze", "metrics", *scrapes, "--log", log, *PLAIN)
    assert (
        "The log has reuse, the engine reports none: not a prompt problem, look at the engine." in ended.out
    )
    assert "the engine hit 0.0 %, the log predicts 26.7 %" in ended.out
    assert "normalize" not in ended.out


def test_only_the_part_of_a_log_within_the_scrapes_counts(
    kvtools: Run, scrapes: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "day.jsonl"
    start = 1_784_102_400
    lines: list[dict[str, Any]] = [
        {"id": str(n), "ts": start - 120 + 30 * n, "prompt": "a" * 32 + f"{n:08}"} for n in range(12)
    ]  # two minutes before, to three and a half after
    path.write_text("\n".join(map(json.dumps, lines)))
    said = json.loads(kvtools("analyze", "metrics", *scrapes, "--log", path, *PLAIN, "--format", "json").out)
    # Requests 4 and 5 lie in the minute of the scrapes: 40 tokens each, of which 32 hit.
    assert said["predicted"]["in_time"] is True
    assert (said["predicted"]["queried_tokens"], said["predicted"]["hit_tokens"]) == (80, 64)
    later = [line | {"ts": line["ts"] + 86_400} for line in lines]
    path.write_text("\n".join(map(json.dumps, later)))
    said = json.loads(kvtools("analyze", "metrics", *scrapes, "--log", path, *PLAIN, "--format", "json").out)
    assert (said["verdict"]["kind"], said["predicted"]["in_time"]) == ("other_time", False)


def test_servers_are_told_apart_by_the_names_of_their_files(kvtools: Run, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for pod, step in (("a", 100), ("b", 900)):
        for minute in (0, 1):
            text = SCRAPE.format(step * minute, (90 if pod == "a" else 0) * minute, 0.4)
            (folder / f"{pod}-2026-07-15T08-0{minute}-00Z.prom").write_text(text)
    said = json.loads(kvtools("analyze", "metrics", folder, "--format", "json").out)
    assert [(one["queried"], one["hit"]) for one in said["engines"]] == [(100, 90), (900, 0)]
    assert (said["hit_rate"], said["times_from"]) == (0.09, ["name"])
    assert (said["first_s"], said["last_s"]) == (1_784_102_400, 1_784_102_460)


@pytest.mark.parametrize(
    ("name", "seconds", "rest"),
    [
        ("m-2026-07-15T08:00:00Z.prom", 1_784_102_400, "m-.prom"),
        ("m_20260715-080000.txt", 1_784_102_400, "m_.txt"),
        ("20260715T100000+02:00", 1_784_102_400, ""),
        ("pod-1-1784102400.prom", 1_784_102_400, "pod-1-.prom"),
        ("1784102400500.prom", 1_784_102_400.5, ".prom"),
    ],
)
def test_times_in_names(name: str, seconds: float, rest: str) -> None:
    assert time_in_name(name) == (seconds, rest)


@pytest.mark.parametrize("name", ["metrics.prom", "pod-12345.txt", "m-20261345-080000", "2026-07-15.prom"])
def test_names_without_a_time(name: str) -> None:
    assert time_in_name(name) is None


def test_pages_in_one_file_and_times_on_samples(kvtools: Run, tmp_path: Path) -> None:
    many, timed = tmp_path / "many.txt", tmp_path / "timed.txt"
    many.write_text(
        "# time 2026-07-15T08:00:00Z\n"
        + SCRAPE.format(0, 0, 0)
        + "# time: 1784102460\n"
        + SCRAPE.format(10, 5, 0)
    )
    timed.write_text(
        "".join(
            f'vllm:prefix_cache_{name}_total{{engine="0"}} {value} {when}\n'
            for when, values in ((1_784_102_400_000, (0, 0)), (1_784_102_460.0, (10, 5)))
            for name, value in zip(("queries", "hits"), values, strict=True)
        )
    )
    for path in (many, timed):
        said = json.loads(kvtools("analyze", "metrics", path, "--format", "json").out)
        assert (said["queried"], said["hit"], said["last_s"]) == (10, 5, 1_784_102_460)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        pytest.param([], 2, "one of the two", id="nothing"),
        pytest.param(["scrape-1.prom", "--prometheus", "http://x"], 2, "one of the two", id="both"),
        pytest.param(["scrape-1.prom", "--range", "1h"], 2, "belong to --prometheus", id="range-of-files"),
        pytest.param(["scrape-1.prom"], 3, "one scrape: a hit rate is a difference of two", id="one-scrape"),
        pytest.param(["log.jsonl"], 3, "no prefix-cache counters", id="a-log"),
        pytest.param(["nowhere.prom"], 3, "no such file", id="missing"),
        pytest.param(["--prometheus", "ftp://x"], 2, "give a URL such as", id="no-web-url"),
        pytest.param(
            ["scrape-1.prom", "-o", "scrape-1.prom"], 2, "would overwrite the input", id="overwrite"
        ),
        pytest.param(
            ["scrape-1.prom", "scrape-2.prom", "--step", "0s"], 2, "not a length of time", id="step"
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    kvtools: Run, scrapes: list[Path], log: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int,
    message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(scrapes[0].parent)
    assert log.parent == scrapes[0].parent
    ended = kvtools("analyze", "metrics", *args)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_a_folder_named_metrics_is_reached_by_its_path(kvtools: Run, log: Path) -> None:
    folder = Path.cwd() / "metrics"
    folder.mkdir()
    log.rename(folder / "log.jsonl")
    assert kvtools("analyze", "./metrics", *PLAIN).code == 0
