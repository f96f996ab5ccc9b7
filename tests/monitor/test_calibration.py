"""The limits that a log sets, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kvtools.flow import AnalyzeOptions, analyze
from kvtools.monitor.alerts import LeftOut, alerts
from kvtools.monitor.calibration import calibration_of
from kvtools.monitor.deployment import Deployment
from kvtools.report.compare import Compare
from kvtools.report.model import Report
from kvtools.report.shape import Window


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two requests of 40 tokens, the second with two of its blocks of 16 hit: 32 of 80."""
    log = tmp_path_factory.mktemp("log") / "log.jsonl"
    prompts = ("a" * 32 + "b" * 8, "a" * 32 + "c" * 8)
    log.write_text("\n".join(json.dumps({"id": str(n), "ts": n, "prompt": p}) for n, p in enumerate(prompts)))
    return analyze(log, AnalyzeOptions(tokenizer="bytes", chat_template="plain", findings=False))


def windows(*rates: float | None, requests: int = 100) -> list[Window]:
    return [
        Window(
            from_us=None, width_us=None, requests=requests, queried_tokens=1000, hit_tokens=0, hit_rate=rate
        )
        for rate in rates
    ]


def observed(rate: float, predicted: float) -> Compare:
    return Compare(
        predicted="simulator",
        observed="the server",
        equal_requests=0,
        different_requests=2,
        predicted_hit_tokens=0,
        observed_hit_tokens=0,
        predicted_hit_rate=predicted,
        observed_hit_rate=rate,
        reasons={},
        differences=[],
    )


def names(report: Report) -> set[str]:
    return {alert.name for alert in alerts(calibration_of(report), Deployment())[0]}


def test_few_windows_leave_four_fifths_of_the_rate(report: Report) -> None:
    found = calibration_of(report)
    assert (found.hit_rate, found.promised, found.hit_rate_low) == (0.4, 0.4, 0.32)


def test_the_band_is_three_robust_deviations_below_the_median(report: Report) -> None:
    # Median 0.5; deviations 0.1, 0.05, 0.02, 0, 0, 0.02, 0.05, 0.1, 0.5: their median is 0.05.
    spread = windows(0.4, 0.45, 0.48, 0.5, 0.5, 0.52, 0.55, 0.6, 0.0)
    found = calibration_of(msgspec.structs.replace(report, over_time=spread))
    assert found.hit_rate_low == pytest.approx(0.5 - 3 * 1.4826 * 0.05, abs=1e-4)


def test_a_log_without_spread_still_has_a_band_of_two_points(report: Report) -> None:
    assert calibration_of(msgspec.structs.replace(report, over_time=windows(*[0.5] * 9))).hit_rate_low == 0.48


def test_windows_with_few_requests_do_not_count(report: Report) -> None:
    few = msgspec.structs.replace(report, over_time=[*windows(*[0.5] * 7), *windows(*[0.1] * 9, requests=19)])
    assert calibration_of(few).hit_rate_low == 0.32
    empty = msgspec.structs.replace(report, over_time=windows(*[0.5] * 8, None, None))
    assert calibration_of(empty).hit_rate_low == 0.48


def test_the_band_lies_where_the_server_said_and_keeps_its_width(report: Report) -> None:
    found = calibration_of(
        msgspec.structs.replace(report, over_time=windows(*[0.5] * 9), observed=observed(0.35, 0.5))
    )
    assert (found.hit_rate, found.promised) == (0.35, 0.4)
    assert found.hit_rate_low == pytest.approx(0.33)


def test_a_band_that_reaches_zero_is_no_alert(report: Report) -> None:
    wide = msgspec.structs.replace(report, over_time=windows(*[0.0, 0.2] * 5))
    assert calibration_of(wide).hit_rate_low is None
    assert "KvtoolsHitRateLow" not in names(wide)
    assert "KvtoolsCacheHitsNothing" in names(wide)


def test_a_server_that_hit_nothing_leaves_the_alert_for_it(report: Report) -> None:
    # What the prompts promise counts, not what the engine made of them.
    zero = msgspec.structs.replace(report, observed=observed(0.0, 0.4))
    assert "KvtoolsCacheHitsNothing" in names(zero)
    assert "KvtoolsHitRateLow" not in names(zero)


def test_a_log_with_no_hits_to_expect_has_neither_alert(report: Report) -> None:
    assert report.cache is not None
    cache = msgspec.structs.replace(report.cache, hit_rate=0.04)
    _, left_out = alerts(calibration_of(msgspec.structs.replace(report, cache=cache)), Deployment())
    assert {one.name for one in left_out if isinstance(one, LeftOut)} >= {
        "KvtoolsHitRateLow",
        "KvtoolsCacheHitsNothing",
    }


def test_without_prompts_the_servers_word_counts(tmp_path: Path) -> None:
    # 60 of 100 prompt tokens cached, by a log of lengths.
    log = tmp_path / "lengths.csv"
    log.write_text("timestamp,prompt_tokens,output_tokens,cached_tokens\n1784073600,100,5,60\n")
    found = calibration_of(analyze(log))
    assert (found.hit_rate, found.promised, found.hit_rate_low) == (0.6, 0.6, 0.48)


@pytest.mark.parametrize(
    ("cold", "limit"), [(0.0, 0.15), (0.1, 0.15), (0.2, 0.25), (0.4, 0.5), (0.9, 0.95), (None, None)]
)
def test_the_limit_of_the_cold_share(report: Report, cold: float | None, limit: float | None) -> None:
    # The article's 15 %, or a quarter more than the log has, at most half way to 1: of 0.9 that is 0.95, not 1.125.
    assert report.heat is not None
    heat = msgspec.structs.replace(report.heat, cold_share=cold)
    assert calibration_of(msgspec.structs.replace(report, heat=heat)).cold_share_limit == limit
