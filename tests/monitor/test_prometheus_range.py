"""``analyze metrics --prometheus`` against a real Prometheus whose samples are known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_tools import free_port, needs_prometheus, prometheus, tool

from kvtools.errors import InputError, UsageError
from kvtools.flow import MetricsOptions, analyze_metrics
from kvtools.monitor.prometheus_api import query
from kvtools.report.metrics import MetricsReport

pytestmark = needs_prometheus

MINUTES = 12
QUERIES: dict[tuple[str, str], list[Any]] = {
    # 100 queried a minute; restarted after minute 5, and not scraped at minute 8.
    ("a", "vllm:prefix_cache_queries"): [0, 100, 200, 300, 400, 500, 60, 160, None, 360, 460, 560, 660],
    ("a", "vllm:prefix_cache_hits"): [0, 40, 80, 120, 160, 200, 30, 70, None, 150, 190, 230, 270],
    # An older version; NaN at minute 3.
    ("b", "vllm:gpu_prefix_cache_queries"): [7, 27, 47, "NaN", 87, 107, 127, 147, 167, 187, 207, 227, 247],
    ("b", "vllm:gpu_prefix_cache_hits"): [7] * 13,
}
A = (500 + 60 + 600, 200 + 30 + 240)
B = (240, 0)


def openmetrics(start: int) -> Iterator[str]:
    service = 'engine="0",service="it\'s \\"s\\""'
    for (pod, name), values in QUERIES.items():
        yield f"# TYPE {name} counter"
        for minute, value in enumerate(values):
            if value is not None:
                yield f'{name}_total{{instance="{pod}",{service}}} {value} {start + 60 * minute}'
    yield "# TYPE vllm:kv_cache_usage_perc gauge"
    for minute in range(MINUTES + 1):
        yield f'vllm:kv_cache_usage_perc{{instance="a",{service}}} 0.25 {start + 60 * minute}'
    yield "# TYPE vllm:e2e_request_latency_seconds gauge"
    yield f"vllm:e2e_request_latency_seconds 1 {start}"
    yield "# EOF"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    given = folder / "metrics.txt"
    given.write_text("\n".join(openmetrics(int(time.time()) - 60 * (MINUTES + 1))) + "\n")
    tool("promtool", "tsdb", "create-blocks-from", "openmetrics", given, folder / "data")
    with prometheus(folder, {"global": {"scrape_interval": "15s"}}) as found:
        yield found


def asked(url: str, **given: object) -> MetricsReport:
    return analyze_metrics((), MetricsOptions(prometheus=url, **given))  # type: ignore[arg-type]


def test_all_samples_of_the_range_are_taken_as_they_were_scraped(url: str) -> None:
    report = asked(url, step_s=60.0)
    by_pod = {one.labels["instance"]: (one.queried, one.hit) for one in report.engines}
    assert by_pod == {"a": A, "b": B}
    assert (report.queried, report.hit) == (A[0] + B[0], A[1] + B[1])
    assert [one.resets for one in report.engines] == [1, 0]
    assert [one.missing_scrapes for one in report.engines] == [1, 1]
    assert report.unreadable_samples == 1
    # Minute 2: 100 and 20 queried, 40 and none hit; the restart at minute 6 has what was counted since.
    assert (report.windows[1].queried, report.windows[1].hit) == (120, 40)
    assert (report.windows[5].queried, report.windows[5].hit, report.windows[5].resets) == (80, 30, 1)
    assert report.kv_usage is not None
    assert (report.kv_usage.mean, report.kv_usage.max) == (0.25, 0.25)
    assert (report.source, report.unit) == (url, None)  # blocks that were made have no help texts


def test_labels_choose_one_service(url: str) -> None:
    report = asked(url, query_labels={"instance": "b", "service": 'it\'s "s"'})
    assert (report.queried, report.hit) == B


def test_a_shorter_range_begins_later(url: str) -> None:
    # The last three minutes of the range hold minutes 11 and 12 of the series: one difference each.
    report = asked(url, range_s=175.0)
    assert (report.queried, report.hit) == (100 + 20, 40)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"query_labels": {"instance": "c"}}, "no prefix-cache counters", id="no-such-service"),
        pytest.param({"range_s": 0.01}, "no prefix-cache counters", id="nothing-in-the-range"),
        pytest.param({"range_s": 1e14}, "Prometheus refuses the query", id="a-range-it-does-not-take"),
    ],
)
def test_what_a_prometheus_lacks_or_refuses_is_one_sentence(
    url: str, given: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        asked(url, **given)


def test_what_is_no_prometheus_is_one_sentence(tmp_path: Path, url: str) -> None:
    del tmp_path
    with pytest.raises(InputError, match=r"no Prometheus answers .*check the URL"):
        asked(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(InputError, match="not a Prometheus"):
        asked(f"{url}/graph/nowhere")
    with pytest.raises(UsageError, match="give a URL such as"):
        asked("prometheus:9090")


def test_a_password_in_the_url_stays_out_of_messages() -> None:
    with pytest.raises(InputError) as failure:
        asked(f"http://me:secret@127.0.0.1:{free_port()}")
    assert "secret" not in str(failure.value)


def test_a_label_that_is_none_is_a_wrong_use() -> None:
    with pytest.raises(UsageError, match="no label's name"):
        query(60, {'a="b",c': "d"})
