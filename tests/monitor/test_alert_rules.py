"""Each alert on series made for it, by Prometheus' own promtool: it fires on the bad ones, and nothing on the good."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_tools import hold, needs_prometheus

from kvtools.monitor.alerts import alerts
from kvtools.monitor.calibration import Calibration
from kvtools.monitor.deployment import Deployment, scenario
from kvtools.monitor.rules import rules_yaml

pytestmark = needs_prometheus

LOG = Calibration(
    hit_rate=0.6,
    hit_rate_low=0.5,
    hit_rate_source="by hand",
    promised=0.6,
    cold_share=0.1,
    cold_share_limit=0.15,
    hot_p99_ms=None,
    conversations=False,
)
SHARED = Deployment(max_num_seqs=128, scenarios=(scenario("search"),))
APART = Deployment(
    by=("model_name",),
    hot='job="hot"',
    cold='job="cold"',
    scenarios=(scenario('live-chat=job="hot"'), scenario("summaries")),
)
PODS = {name: f'job="vllm",model_name="m",instance="{name}",engine="0"' for name in ("a", "b")}
CLASSES = {name: f'job="{name}",model_name="m",instance="{name}",engine="0"' for name in ("hot", "cold")}


def world(engines: dict[str, str], **changed: str) -> dict[str, str]:
    """Forty minutes of engines in good health; ``changed`` names series (of all engines, or ``name__engine``)."""
    steady = {
        "vllm:prefix_cache_queries_total": "0+1000x40",
        "vllm:prefix_cache_hits_total": "0+600x40",  # 0.6
        "vllm:prompt_tokens_total": "0+1000x40",
        "vllm:kv_cache_usage_perc": "0.85x40",
        "vllm:num_requests_running": "115x40",  # of 128: 0.898
        "vllm:num_requests_waiting": "0x40",
        "vllm:num_preemptions_total": "0x40",
        'vllm:request_success_total,finished_reason="stop"': "0+10000x40",
        'vllm:e2e_request_latency_seconds_bucket,le="0.3"': "0+9950x40",  # 0.5 % slower
        'vllm:e2e_request_latency_seconds_bucket,le="0.5"': "0+10000x40",
        'vllm:e2e_request_latency_seconds_bucket,le="+Inf"': "0+10000x40",
        "vllm:e2e_request_latency_seconds_count": "0+10000x40",
    }
    found = {'kvtools_class_request_share{class="cold",instance="n"}': "0.15x40"}
    for labels in engines.values():
        for name, values in steady.items():
            metric, _, label = name.partition(",")
            found[f"{metric}{{{labels}{',' + label if label else ''}}}"] = values
    for name, values in changed.items():
        word, _, engine = name.partition("__")
        matching = [one for one in found if word in one and (not engine or f'instance="{engine}"' in one)]
        assert matching, name
        found |= dict.fromkeys(matching, values)
    return found


def assert_fire(
    folder: Path, watched: Deployment, series: dict[str, str], *names: str, at: str = "40m"
) -> None:
    made, left_out = alerts(LOG, watched)
    firing = [(f'{{alertname="{name}"}}', 1.0) for name in sorted(names)]
    query = 'sort(max by (alertname) (ALERTS{alertstate="firing"}))'
    hold(folder, rules_yaml(watched, made, left_out), series, {query: (at, firing)})


@pytest.mark.parametrize(("watched", "engines"), [(SHARED, PODS), (APART, CLASSES)], ids=["shared", "apart"])
def test_nothing_fires_on_engines_in_good_health(
    tmp_path: Path, watched: Deployment, engines: dict[str, str]
) -> None:
    series = world(engines)
    if watched is APART:  # 1,500 of 10,000 + 1,500 finished requests are cold: 13 %
        series = world(engines, request_success__cold="0+1500x40")
    assert_fire(tmp_path, watched, series)


BAD = {
    "hit_rate_low": ({"prefix_cache_hits": "0+400x40"}, ["KvtoolsHitRateLow"]),
    # Alertmanager silences the lower rate; to Prometheus it is one too.
    "hits_nothing": ({"prefix_cache_hits": "500x40"}, ["KvtoolsCacheHitsNothing", "KvtoolsHitRateLow"]),
    "not_counted": (
        {"prefix_cache_hits": "0x40", "prefix_cache_queries": "0x40"},
        ["KvtoolsCacheNotCounted"],
    ),
    "inverted": ({"prefix_cache_hits": "0+1250x40"}, ["KvtoolsHitRateAboveOne"]),
    "usage_of_one_engine": ({"kv_cache_usage__b": "0.86x40"}, ["KvtoolsKvUsageHigh"]),
    "queue_of_one_engine": ({"num_requests_running__a": "116x40"}, ["KvtoolsQueueSaturated"]),  # 0.906
    "interruptions": ({"num_preemptions": "0+101x40"}, ["KvtoolsInterruptions"]),  # 1.01 %
    "cold_share": ({"class_request_share": "0.16x40"}, ["KvtoolsColdShareHigh"]),
    "slow": ({'bucket{job="vllm",model_name="m",instance="a",engine="0",le="0.3"': "0+9800x40"}, ["KvtoolsP99High"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_each_alert_fires_alone_on_its_own_fault(tmp_path: Path, name: str) -> None:
    changed, expected = BAD[name]
    assert_fire(tmp_path, SHARED, world(PODS, **changed), *expected)


def test_an_unknown_name_of_the_counters_is_told(tmp_path: Path) -> None:
    series = {name.replace("prefix_cache", "some_new_cache"): values for name, values in world(PODS).items()}
    assert_fire(tmp_path, SHARED, series, "KvtoolsCacheNotCounted")


def test_the_old_names_serve_as_well(tmp_path: Path) -> None:
    renamed = {"vllm:prefix_cache": "vllm:gpu_prefix_cache", "vllm:kv_cache_usage": "vllm:gpu_cache_usage"}
    series = world(PODS, kv_cache_usage="0.86x40", prefix_cache_hits="0+400x40")
    for new, old in renamed.items():
        series = {name.replace(new, old): values for name, values in series.items()}
    assert_fire(tmp_path, SHARED, series, "KvtoolsHitRateLow", "KvtoolsKvUsageHigh")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # 0.2 % of hot requests and of cold ones: only the hot have a line that low.
        ({"num_preemptions__hot": "0+20x40", "num_preemptions__cold": "0+3x40"}, ["KvtoolsHotInterruptions"]),
        ({"num_preemptions__cold": "0+16x40"}, ["KvtoolsColdInterruptions"]),  # of 1,500: 1.07 %
        ({"request_success__cold": "0+2000x40"}, ["KvtoolsColdShareHigh"]),  # of 12,000: 16.7 %
    ],
    ids=["hot", "cold", "share"],
)
def test_classes_on_servers_of_their_own(
    tmp_path: Path, changed: dict[str, str], expected: list[str]
) -> None:
    series = world(CLASSES, **({"request_success__cold": "0+1500x40"} | changed))
    assert_fire(tmp_path, APART, series, *expected)


def test_a_percentile_is_judged_at_an_edge_and_never_guessed_between_two(tmp_path: Path) -> None:
    # All within 10 ms: histogram_quantile would say 297 ms, since vLLM's first edge is 300 ms.
    steady = {"request_success__cold": "0+1500x40", 'le="0.3"': "0+10000x40"}
    assert_fire(tmp_path, APART, world(CLASSES, **steady))
    # A server with an edge at 200 ms is judged there: 2 % are slower.
    own_edge = {f'vllm:e2e_request_latency_seconds_bucket{{{CLASSES["hot"]},le="0.2"}}': "0+9800x40"}
    assert_fire(tmp_path, APART, world(CLASSES, **steady) | own_edge, "KvtoolsP99High")


def test_no_traffic_is_no_alert(tmp_path: Path) -> None:
    # Every ratio is 0/0.
    still = {name: ("0x40" if "share" in name or "_perc" in name else "70x40") for name in world(PODS)}
    assert_fire(tmp_path, SHARED, still)


def test_a_collapse_is_told_after_ten_minutes_though_the_lifetime_average_is_high(tmp_path: Path) -> None:
    # 20 minutes at 0.8, then nothing: the rate of 5 minutes is 0 from minute 25 on, fires at 35. Lifetime: 0.5.
    series = world(PODS, prefix_cache_hits="0+800x20 16000x20")
    assert_fire(tmp_path, SHARED, series, "KvtoolsHitRateLow", at="34m")
    assert_fire(tmp_path, SHARED, series, "KvtoolsHitRateLow", "KvtoolsCacheHitsNothing", at="36m")
