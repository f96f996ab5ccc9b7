"""Queries of prefix-cache metrics that show another figure than a hit rate, and those that look alike and are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from monitor.prometheus_tools import needs_prometheus, tool

from kvtools.errors import InputError
from kvtools.flow import lint_queries
from kvtools.monitor.promql import NotRead, parse
from kvtools.monitor.query_faults import faults, roles

HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
EXTERNAL = "vllm:external_prefix_cache_hits_total"
BY_SOURCE = "vllm:prompt_tokens_cached_by_source_total"
RATIO = f"rate({HITS}[5m]) / rate({QUERIES}[5m])"
SUMS = f"sum(rate({HITS}[5m])) / sum(rate({QUERIES}[5m]))"


def rules(query: str) -> list[str]:
    return [one.rule for one in faults(parse(query))]


def test_case_101_the_swapped_query_is_told_from_the_right_one(shared: Path) -> None:
    (folder,) = (shared / "cases").glob("101-*")
    expected = json.loads((folder / "expected.json").read_text())
    report = lint_queries(folder / "queries.txt")
    found = {one.name: [fault.rule for fault in one.findings] for one in report.queries}
    assert found == {"Q1": [expected["Q1"]], "Q2": []}
    assert report.exit_code == 1


RIGHT = {
    "ratio": RATIO,
    "sums": SUMS,
    "sums-by": f"sum by (pod) (rate({HITS}[5m])) / sum by (pod) (rate({QUERIES}[5m]))",
    "percent": f"100 * ({SUMS})",
    "misses": f"1 - {SUMS}",
    "external-beyond": f"(sum(rate({HITS}[5m])) + sum(rate({EXTERNAL}[5m]))) / sum(rate({QUERIES}[5m]))",
    "external-of-its-own": f"rate({EXTERNAL}[5m]) / rate(vllm:external_prefix_cache_queries_total[5m])",
    "recorded": "kvtools:prefix_cache_hits:rate5m / kvtools:prefix_cache_queries:rate5m",
    "difference": f"({HITS} - {HITS} offset 5m) / ({QUERIES} - {QUERIES} offset 5m)",
    "spread": f"max by (pod) ({RATIO}) - min by (pod) ({RATIO})",
    "average-of-one": f"avg({SUMS})",
    "mean-usage": "sum(vllm:kv_cache_usage_perc) / count(vllm:kv_cache_usage_perc)",
    "summed-means": "sum(avg by (pod) (vllm:kv_cache_usage_perc)) / 4",
    "both-names": f"rate({HITS}[5m]) or rate(vllm:gpu_prefix_cache_hits_total[5m])",
    "matching": f"sum by (pod) (rate({HITS}[5m])) / on (pod) group_left () sum by (pod) (rate({QUERIES}[5m]))",
    "grafana": f'sum(rate({HITS}{{pod=~"$pod"}}[$__rate_interval])) / sum(rate({QUERIES}{{pod=~"$pod"}}[$__rate_interval]))',
    "tier": f'rate({BY_SOURCE}{{source="device"}}[5m]) / rate({QUERIES}[5m])',
    "tier-beside": f'(rate({HITS}[5m]) + rate({BY_SOURCE}{{source="host"}}[5m])) / rate({QUERIES}[5m])',
    "other-ratio": "rate(vllm:num_preemptions_total[5m]) / rate(vllm:request_success_total[5m])",
    "a-string": f'label_replace({SUMS}, "of", "queries / hits", "", "")',
    "a-comment": f"{SUMS} # {QUERIES} / {HITS}",
}  # fmt: skip


@pytest.mark.parametrize("query", RIGHT.values(), ids=RIGHT)
def test_a_right_query_has_no_fault(query: str) -> None:
    assert rules(query) == []


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        pytest.param(f"rate({QUERIES}[5m]) / rate({HITS}[5m])", "inverted_ratio", id="swapped"),
        pytest.param(f"100 * sum(rate({QUERIES}[5m])) / sum(rate({HITS}[5m]))", "inverted_ratio", id="swapped-sums"),
        pytest.param(f"1 - ({QUERIES} / {HITS})", "inverted_ratio", id="swapped-in-parentheses"),
        pytest.param(f"{HITS} / {QUERIES}", "lifetime_average", id="since-start"),
        pytest.param(f"sum({HITS}) / sum({QUERIES})", "lifetime_average", id="sums-since-start"),
        pytest.param(f"avg({RATIO})", "mean_of_ratios", id="mean"),
        pytest.param(f"sum({RATIO}) / 3", "mean_of_ratios", id="sum"),
        pytest.param(
            f"avg(sum by (pod) (rate({HITS}[5m])) / sum by (pod) (rate({QUERIES}[5m])))", "mean_of_ratios", id="mean-of-pods"
        ),
        pytest.param(f"avg by (job) ({RATIO})", "mean_of_ratios", id="mean-by"),
        pytest.param(f"rate({HITS}[5m]) / rate({QUERIES}[1h])", "sides_differ", id="windows"),
        pytest.param(f'rate({HITS}{{pod="a"}}[5m]) / rate({QUERIES}[5m])', "sides_differ", id="series"),
        pytest.param(
            f"(sum(rate({HITS}[5m])) + sum(rate({BY_SOURCE}[5m]))) / sum(rate({QUERIES}[5m]))", "counted_twice", id="twice"
        ),
        pytest.param("sum(vllm:kv_cache_usage_perc)", "summed_usage", id="usage"),
        pytest.param("sum by (job) (vllm:kv_cache_usage_perc) > 0.8", "summed_usage", id="usage-by"),
        pytest.param("max(vllm:gpu_cache_usage_perc)", "old_name", id="old-gauge"),
        pytest.param("rate(vllm:gpu_prefix_cache_hits_total[5m])", "old_name", id="old-counter"),
    ],
)  # fmt: skip
def test_each_fault_is_named(query: str, rule: str) -> None:
    assert rules(query) == [rule]


def test_names_in_braces_are_names() -> None:
    assert rules(f'rate({{__name__="{QUERIES}"}}[5m]) / rate({{"{HITS}"}}[5m])') == ["inverted_ratio"]
    assert roles(parse('sum(rate(vllm:prefix_cache_hits_total{engine="0", pod=~"a|b}"}[5m]))')) == {"hits"}


@pytest.mark.parametrize(
    "query", ["rate(", "sum(a) b", "a{", "(a", "a / ", "§", "a )", "sum by (pod a)", "(" * 5000], ids=str.__len__
)  # fmt: skip
def test_what_is_no_query_is_told(query: str) -> None:
    with pytest.raises(NotRead):
        parse(query)


GRAMMAR = [
    *RIGHT.values(),
    "-a ^ 2 ^ -b",
    "a{b!='c',d!~`e`,}[1h:5m] offset -5m",
    "count_values without () ('x', a) == bool 1",
    "quantile by (a) (0.9, rate(b[1h30m])) unless on () c and ignoring (d, e) f",
    "topk(3, a) by (b)",
    "a @ 1609746000 or b @ end()",
    "max_over_time(rate(a[5m])[30m:1m]) atan2 0x1F * 1.5e-3",
    "SUM(a) BY (b) AND c",
]


@needs_prometheus
def test_what_prometheus_reads_is_read(tmp_path: Path) -> None:
    queries = [one for one in GRAMMAR if "$" not in one]
    document = {"groups": [{"name": "g", "rules": [{"record": f"r:{n}", "expr": one.replace("[1h:5m]", "")} for n, one in enumerate(queries)]}]}  # fmt: skip
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(document))  # JSON is YAML too
    tool("promtool", "check", "rules", path)
    for query in GRAMMAR:
        parse(query)


def test_places_in_rules_dashboards_and_text(tmp_path: Path) -> None:
    wrong = f"rate({QUERIES}[5m]) / rate({HITS}[5m])"
    (tmp_path / "a.yaml").write_text(
        f"groups:\n- name: g\n  rules:\n  - record: ratio\n    expr: {SUMS}\n  - alert: Low\n    expr: >\n      {wrong}\n      < 0.5\n"
    )
    panels = [
        {"title": "Hits", "targets": [{"expr": f'{HITS}{{a="b"}}'}]},
        {
            "title": "Row",
            "panels": [{"title": "Rate", "targets": [{"refId": "A", "expr": wrong}, {"expr": ""}]}],
        },
    ]
    (tmp_path / "b.json").write_text(json.dumps({"title": "D", "panels": panels}, indent=1))
    (tmp_path / "c.txt").write_text(f"# {wrong}\n\nup\nrate: {wrong}\nsum by (pod) ({HITS})\nrate(\n")
    report = lint_queries(tmp_path)
    found = [
        (Path(one.path).name, one.line, one.name, [fault.rule for fault in one.findings])
        for one in report.queries
    ]
    lines = (tmp_path / "b.json").read_text().split("\n")
    places = [number for number, line in enumerate(lines, 1) if '"expr": "' in line]
    assert found == [
        ("a.yaml", 5, "ratio", []),
        ("a.yaml", 7, "Low", ["inverted_ratio"]),
        ("b.json", places[0], "Hits", []),
        ("b.json", places[1], "Rate", ["inverted_ratio"]),
        ("c.txt", 4, "rate", ["inverted_ratio"]),
        ("c.txt", 5, None, []),
        ("c.txt", 6, None, ["unreadable"]),
    ]  # fmt: skip
    counts = report.counts
    assert (counts.queries, counts.judged, counts.unreadable, counts.errors, counts.warnings) == (
        8,
        6,
        1,
        3,
        0,
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("a.json", '{"expr":\n', r"a\.json:2: not JSON", id="json"),
        pytest.param("a.yaml", "a:\n- b\n c: d\n", r"a\.yaml:\d: not YAML", id="yaml"),
        pytest.param("a.yaml", "groups: []\n", "no queries: 1 file", id="no-queries"),
        pytest.param("a.txt", None, "no such file|cannot be read", id="missing"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(
    tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        lint_queries(tmp_path / name)
