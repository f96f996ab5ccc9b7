"""What is sent before the next burst of cold requests: a planted one is found, and no forecast sends nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worked import history

from kvtools.errors import UsageError
from kvtools.flow import WarmupOptions, warmup
from kvtools.report.documents import rendered
from kvtools.report.warmup import WarmupReport
from kvtools.report.warmup_text import render_warmup
from kvtools.warmup.ahead import asked_before
from kvtools.warmup.choose import Chosen

HOUR = 3_600
HOURS = 60
MONDAY = 1_784_505_600  # 20 Jul 2026 00:00 UTC
KEPT = np.random.default_rng(5).random(HOURS) < 0.7
"""The hours that have a burst."""


def _rows(kept: list[bool]) -> list[dict[str, Any]]:
    """A hot request every 2 min with one of 29 heads in turn, and in minute 20 a burst: 12 cold ones with one head."""
    rows = [(MONDAY + 120 * turn, "hot", 10 + turn % 29) for turn in range(len(kept) * 30 + 1)]
    for hour, there in enumerate(kept):
        if there:
            rows += [(MONDAY + hour * HOUR + 1_200 + 5 * n, "cold", 1) for n in range(12)]
    rows.sort()
    return [
        {
            "id": f"r{n}",
            "ts": at,
            "request_type": kind,
            "prompt_token_ids": [100 * head + k for k in range(48)] + [10_000 + n] * 5,
        }
        for n, (at, kind, head) in enumerate(rows)
    ]


def _log(path: Path, kept: list[bool]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in _rows(kept)))
    return path


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[WarmupReport, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("planted")
    log = _log(folder / "log.jsonl", KEPT.tolist())
    report = warmup(log, WarmupOptions(ahead_s=15, target=folder / "out.jsonl", write="token-ids"))
    return report, [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def test_the_line_of_a_planted_burst_is_sent_before_it(
    planted: tuple[WarmupReport, list[dict[str, Any]]],
) -> None:
    report, lines = planted
    ahead = report.ahead
    assert ahead is not None
    assert ahead.forecast.beats_baseline is True
    # Behind 60 hours the next minute 20 begins at 60:20:00; 15 s before it the line is sent.
    assert ahead.send_at_us == (MONDAY + HOURS * HOUR + 1_200 - 15) * 1_000_000
    (item,) = ahead.items
    (line,) = [line for line in lines if line["kvtools"].get("ahead")]
    assert line["custom_id"] == item.id
    assert line["body"]["prompt"][:48] == [100 + k for k in range(48)]
    # The part that the set is built from ends in some hour; a burst's window is looked at where it lies in it whole.
    rows = _rows(KEPT.tolist())
    built = [row["ts"] for row in rows[: report.warmup.built_on_requests]][-1]
    whole = [hour for hour in range(HOURS) if MONDAY + hour * HOUR + 1_260 <= built]
    later = [hour for hour in range(HOURS) if MONDAY + hour * HOUR + 1_200 > built]
    assert ahead.periods == len(whole)
    assert item.asked_periods == KEPT[whole].sum()
    assert ahead.later_periods == len(later)
    assert ahead.later_asked_share == pytest.approx(KEPT[later].mean())


def test_it_is_said_in_every_form_and_language(planted: tuple[WarmupReport, list[dict[str, Any]]]) -> None:
    report, _ = planted
    assert report.ahead is not None
    sentence = report.ahead.conclusion
    assert sentence.startswith("Send 1 line at 2026-07-22 12:19:45 UTC, 15 s before a cold burst is likely (")
    for kind in ("text", "md", "html", "json"):
        assert "12:19:45 UTC" in rendered(report, kind)
    chinese = render_warmup(report, lang="zh")
    assert "在 2026-07-22 12:19:45 UTC 发送 1 行" in chinese
    assert "小时的相同窗口" in chinese


def test_a_forecast_no_better_than_the_last_period_sends_nothing(tmp_path: Path) -> None:
    log = _log(tmp_path / "log.jsonl", [True] * 12)  # same as last hour is never wrong
    report = warmup(log, WarmupOptions(ahead_s=15, target=tmp_path / "out.jsonl", write="token-ids"))
    ahead = report.ahead
    assert ahead is not None
    assert ahead.forecast.beats_baseline is False
    assert (ahead.items, ahead.send_at_us, ahead.periods) == ([], None, 0)
    assert ahead.conclusion.startswith(
        "Ahead of a burst nothing is sent: by time of the hour, but not better than"
    )
    assert '"ahead"' not in (tmp_path / "out.jsonl").read_text()
    assert "突发之前不发送任何内容：按小时内时间" in render_warmup(report, lang="zh")


def test_a_short_log_and_one_without_a_clock_know_of_no_burst(tmp_path: Path) -> None:
    rows = _rows([True])
    short = tmp_path / "short.jsonl"
    short.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bare = tmp_path / "bare.jsonl"
    bare.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "ts"}) + "\n" for row in rows))
    reasons = {}
    for log in (short, bare):
        ahead = warmup(log, WarmupOptions(ahead_s=15)).ahead
        assert ahead is not None
        assert ahead.items == []
        reasons[log.stem] = ahead.conclusion
    assert reasons["short"].startswith("Ahead of a burst nothing is sent: cannot know: the log spans 1.0 h")
    assert reasons["bare"] == "Ahead of a burst nothing is sent: no forecast: the log has no clock."


def test_without_the_option_nothing_is_said_of_bursts(data: Path) -> None:
    report = warmup(data / "shop-assistant.jsonl", WarmupOptions(budget_queries=2))
    assert report.ahead is None
    assert "burst" not in render_warmup(report)


@pytest.mark.parametrize("seconds", [0.5, 901, float("nan")])
def test_windows_are_a_second_to_a_quarter_of_an_hour(seconds: float) -> None:
    with pytest.raises(UsageError, match="--ahead"):
        WarmupOptions(ahead_s=seconds)


def test_windows_of_earlier_periods_by_hand() -> None:
    # Requests at 5, 15, …: those at 25 and 45 are in the window 20-30 of a period of 20 (0-10, 20-30, 40-50, …).
    log = history(["a", "b", "ab", "b", "a", "b", "abc", "x"])
    arrival = np.array([5, 15, 25, 35, 45, 55, 65, 75], dtype=np.int64)
    prefixes = [Chosen(0, 1, 1, 1.0, 4), Chosen(1, 1, 1, 1.0, 3), Chosen(2, 2, 1, 1.0, 2)]
    found = asked_before(log, arrival, 5, prefixes, (80, 90), 20)
    # 60-70 (abc) is later; 40-50 ends behind the last built request (45), and so is in neither; 20-30 asks for ab.
    # 0-10 begins before the log does.
    assert (found.periods, found.later) == (1, 1)
    assert found.asked.tolist() == [1, 0, 1]
    assert found.asked_later.tolist() == [1, 0, 1]
    assert found.wanted.tolist() == [True, False, True]
    assert found.held == 1.0
