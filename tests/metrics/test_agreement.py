"""Why the counters and a log differ: one crafted difference at a time."""

from __future__ import annotations

from typing import Any

import pytest

from kvtools.monitor.agreement import Measured, Predicted, agreement
from kvtools.monitor.windows import Stop, Window
from kvtools.report.metrics_verdict import metrics_verdict


def measured(queried: int = 10_000, hit: int = 6_000, **given: Any) -> Measured:
    usual: dict[str, Any] = {
        "external_hit": 0, "preemptions": 0, "prompt_tokens": queried, "finished": 10, "engines": 1, "resets_s": (),
        "dips": (), "stopped": None, "stopped_engines": 0, "caching": True,
    }  # fmt: skip
    return Measured(queried=queried, hit=hit, **(usual | given))


def predicted(queried: int = 10_000, hit: int = 6_000, **given: Any) -> Predicted:
    usual: dict[str, Any] = {"requests": 10, "capacity_blocks": 1_000, "in_time": None}
    return Predicted(queried=queried, hit=hit, **(usual | given))


DIP = Window(10, 20, 1_000, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("counters", "log", "kind", "also"),
    [
        pytest.param(measured(), None, "measured", (), id="alone"),
        pytest.param(measured(), predicted(), "agrees", (), id="equal"),
        pytest.param(measured(hit=5_801), predicted(), "agrees", (), id="within-two-points"),
        pytest.param(measured(hit=5_799), predicted(), "unexplained", (), id="beyond-two-points"),
        pytest.param(measured(0, 0, finished=0), None, "no_traffic", (), id="idle"),
        pytest.param(measured(0, 0, prompt_tokens=500), predicted(), "not_counted", (), id="metric-off"),
        pytest.param(measured(hit=0), predicted(), "engine_side_zero", (), id="zero"),
        pytest.param(measured(hit=0), predicted(hit=499), "unexplained", (), id="a-zero-that-the-log-nearly-has"),
        pytest.param(measured(12_000, 7_000), predicted(), "other_traffic", (), id="more-traffic"),
        pytest.param(measured(5_000, 3_000), predicted(), "other_traffic", (), id="less-traffic"),
        pytest.param(measured(10_500, 6_300), predicted(), "agrees", (), id="within-five-percent"),
        pytest.param(measured(9_000), predicted(in_time=False), "other_time", (), id="other-time"),
        pytest.param(measured(), predicted(in_time=False), "agrees", (), id="an-old-log-sent-again"),
        pytest.param(measured(hit=3_000, resets_s=[5.0]), predicted(), "cache_flushed", (), id="restart"),
        pytest.param(measured(hit=3_000, dips=[DIP]), predicted(), "cache_flushed", (), id="dip"),
        pytest.param(measured(hit=3_000, preemptions=7), predicted(), "preempted", (), id="preempted"),
        pytest.param(measured(hit=3_000, engines=2), predicted(), "several_engines", (), id="several-engines"),
        pytest.param(
            measured(hit=3_000, preemptions=7),
            predicted(capacity_blocks=None),
            "preempted",
            ("cache_too_small",),
            id="replayed-without-a-limit",
        ),
        pytest.param(measured(hit=8_000), predicted(), "warm_start", (), id="higher"),
        pytest.param(measured(hit=6_000, external_hit=2_000), predicted(), "external_cache", (), id="external"),
        pytest.param(
            measured(stopped=Stop(5.0, 2_000)), predicted(), "hits_stopped", (), id="stopped-at-an-equal-rate"
        ),
        pytest.param(measured(stopped_engines=1, engines=2), None, "hits_stopped", (), id="one-engine-stopped"),
    ],
)  # fmt: skip
def test_each_difference_has_its_verdict(
    counters: Measured, log: Predicted | None, kind: str, also: tuple[str, ...]
) -> None:
    found = agreement(counters, log)
    assert (found.kind, found.also) == (kind, also)
    assert found.evidence
    assert metrics_verdict(found.kind, found.also, found.evidence).sentence.endswith(".")


def test_an_equal_rate_of_restarted_engines_agrees() -> None:
    assert agreement(measured(resets_s=[5.0], preemptions=3, engines=2), predicted()).kind == "agrees"


def test_a_setting_that_is_off_stands_in_the_evidence() -> None:
    (said,) = agreement(measured(0, 0, prompt_tokens=500, caching=False)).evidence
    assert said == "500 prompt tokens, but no prefix-cache query; the server says enable_prefix_caching=False"
