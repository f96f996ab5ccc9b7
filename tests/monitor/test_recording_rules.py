"""The recording rules on known series, by Prometheus' own promtool: values worked out by hand, and public bug reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_tools import hold, needs_prometheus

from kvtools.monitor.deployment import Deployment
from kvtools.monitor.rules import rules_yaml

pytestmark = needs_prometheus

RATIO = "kvtools:prefix_cache_hit_ratio:rate5m"
TOTAL = "kvtools:prefix_cache_total_hit_ratio:rate5m"
BY_ENGINE = "kvtools:engine_prefix_cache_hit_ratio:rate5m"


def labels(instance: str = "a", engine: str = "0") -> str:
    return f'{{job="vllm",model_name="m",instance="{instance}",engine="{engine}"}}'


SERVICE = '{job="vllm",model_name="m"}'


def counters(queries: str, hits: str, prefix: str = "vllm:prefix_cache", **place: str) -> dict[str, str]:
    return {
        f"{prefix}_queries_total{labels(**place)}": queries,
        f"{prefix}_hits_total{labels(**place)}": hits,
    }


def assert_recorded(folder: Path, series: dict[str, str], **expected: float) -> None:
    """``expected``: ratio, total, and what else is a name after ``kvtools:``, at minute 10."""
    names = {"ratio": RATIO, "total": TOTAL}
    values = {names.get(word, f"kvtools:{word}"): {SERVICE: value} for word, value in expected.items()}
    assert_series(folder, series, values)


def assert_series(folder: Path, series: dict[str, str], values: dict[str, dict[str, float]]) -> None:
    """``values``: by recorded name and labels, all that there is at minute 10."""
    queries: dict[str, tuple[str, list[tuple[str, float]]]] = {}
    for name, by_labels in values.items():
        queries[f"count({name})"] = ("10m", [("{}", len(by_labels))])
        for place, value in by_labels.items():
            # promtool compares to the last bit, which sums of floats do not keep.
            queries[f"abs({name}{place} - {value!r}) < bool 1e-9"] = ("10m", [(place, 1)])
    hold(folder, rules_yaml(Deployment(), [], []), series, queries)


@pytest.fixture
def expected_of(shared: Path) -> Any:
    def load(number: str) -> Any:
        (folder,) = (shared / "cases").glob(f"{number}-*")
        return json.loads((folder / "expected.json").read_text())

    return load


def test_hits_stand_over_queries(tmp_path: Path, expected_of: Any) -> None:
    # Case 101: hits 80, queries 100 a minute; the inverted query would say 1.25.
    assert_recorded(tmp_path, counters("0+100x10", "0+80x10"), ratio=expected_of("101")["Q2"])


def test_the_rate_of_a_window_is_the_steady_one(tmp_path: Path, expected_of: Any) -> None:
    # Case 102: 36 tokens a request, 32 of them hit from the second on; one request a minute, 4 by minute 3.
    running = 3 * 32 / (4 * 36)
    assert round(running, 3) == expected_of("102")["running"][3]
    series = counters("36+36x10", "0+32x10")
    assert_recorded(tmp_path, series, ratio=32 / 36)
    assert round(32 / 36, 3) == expected_of("102")["steady"]


def test_a_collapse_is_not_hidden_by_the_lifetime_average(
    tmp_path: Path, shared: Path, expected_of: Any
) -> None:
    # Case 104, a snapshot a minute instead of every 10 s; 5 minutes behind the freeze the window holds no hit.
    (folder,) = (shared / "cases").glob("104-*")
    rows = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    queries, hits = ([row[name] for row in rows] for name in ("queries", "hits"))
    assert hits[-1] / queries[-1] == expected_of("104")["lifetime"]
    step = queries[-1] - queries[-2]
    queries += [queries[-1] + step * number for number in range(1, 12 - len(queries))]
    hits += [hits[-1]] * (11 - len(hits))
    series = counters(" ".join(map(str, queries)), " ".join(map(str, hits)))
    assert_recorded(tmp_path, series, ratio=expected_of("104")["window"])


def test_pods_are_summed_before_dividing(tmp_path: Path, shared: Path, expected_of: Any) -> None:
    # Case 106: a mean of ratios would say 0.45; usage is a mean, never a sum.
    (folder,) = (shared / "cases").glob("106-*")
    rows = [json.loads(line) for line in (folder / "input.jsonl").read_text().splitlines()]
    series: dict[str, str] = {}
    for row in rows:
        series |= counters(f"0+{row['queries']}x10", f"0+{row['hits']}x10", instance=row["pod"])
        series[f"vllm:kv_cache_usage_perc{labels(row['pod'])}"] = f"{row['usage']}x10"
    expected = expected_of("106")
    assert_recorded(
        tmp_path,
        series,
        ratio=expected["rate"],
        **{"kv_cache_usage:avg": expected["usage"], "kv_cache_usage:max": expected["usage"]},
    )
    spread = {labels(row["pod"]): row["hits"] / row["queries"] for row in rows}
    assert_series(tmp_path, series, {BY_ENGINE: spread})


def test_external_hits_add_to_local_ones_and_never_overlap(tmp_path: Path, expected_of: Any) -> None:
    # Case 109: 16 of 32 tokens local, 8 beyond them; a second engine has no connector and changes no sum of its own.
    external = {f"vllm:external_prefix_cache_hits_total{labels()}": "0+8x10"}
    assert_recorded(
        tmp_path, counters("0+32x10", "0+16x10") | external, ratio=0.5, total=expected_of("109")["rate"]
    )
    both = counters("0+32x10", "0+16x10") | counters("0+32x10", "0x10", instance="b") | external
    assert_recorded(tmp_path, both, ratio=16 / 64, total=24 / 64)


def test_without_a_connector_the_total_is_the_local_rate(tmp_path: Path) -> None:
    assert_recorded(tmp_path, counters("0+100x10", "0+40x10"), ratio=0.4, total=0.4)


def test_a_page_with_old_and_new_names_counts_once(tmp_path: Path) -> None:
    both = counters("0+100x10", "0+40x10") | counters("0+100x10", "0+40x10", "vllm:gpu_prefix_cache")
    mixed = both | counters("0+300x10", "0+0x10", "vllm:gpu_prefix_cache", instance="b")
    assert_recorded(tmp_path, mixed, ratio=40 / 400, **{"prefix_cache_queries:rate5m": 400 / 60})


def test_a_restart_between_scrapes_is_no_negative_rate(tmp_path: Path) -> None:
    # 100 and 50 a minute, restarted after minute 7; minute 9 was not scraped.
    assert_recorded(
        tmp_path,
        counters("0+100x7 0 _ 200", "0+50x7 0 _ 100"),
        ratio=0.5,
    )


def test_a_service_without_queries_has_no_ratio_but_nan(tmp_path: Path) -> None:
    query = f"{RATIO} >= 0 or {RATIO} < 0"
    hold(tmp_path, rules_yaml(Deployment(), [], []), counters("7x10", "3x10"), {query: ("10m", [])})


def test_two_engines_of_a_pod_and_two_models_are_kept_apart(tmp_path: Path) -> None:
    series = counters("0+100x10", "0+10x10") | counters("0+100x10", "0+90x10", engine="1")
    other = {name.replace('"m"', '"n"'): values for name, values in counters("0+100x10", "0+70x10").items()}
    expected = {SERVICE: 0.5, '{job="vllm",model_name="n"}': 0.7}
    assert_series(tmp_path, series | other, {RATIO: expected})


def test_preemptions_queue_and_latency(tmp_path: Path) -> None:
    buckets = {"0.3": 50, "0.5": 90, "0.8": 100, "+Inf": 100}
    series = {
        f'vllm:e2e_request_latency_seconds_bucket{{job="vllm",model_name="m",le="{edge}"}}': f"0+{count}x10"
        for edge, count in buckets.items()
    }
    series |= {
        f"vllm:num_preemptions_total{labels()}": "0+3x10",
        f'vllm:request_success_total{labels()[:-1]},finished_reason="stop"}}': "0+90x10",
        f'vllm:request_success_total{labels()[:-1]},finished_reason="length"}}': "0+60x10",
        f"vllm:num_requests_running{labels()}": "3x10",
        f"vllm:num_requests_running{labels(engine='1')}": "4x10",
        f"vllm:num_requests_waiting{labels()}": "2x10",
    }
    assert_recorded(
        tmp_path,
        series,
        **{
            "preemptions_per_request:rate5m": 3 / 150,
            "requests_running:sum": 7,
            "requests_waiting:sum": 2,
            "e2e_latency_seconds:p50": 0.3,
            "e2e_latency_seconds:p90": 0.5,
            "e2e_latency_seconds:p99": 0.5 + 0.3 * 9 / 10,
        },
    )
