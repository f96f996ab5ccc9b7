from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvtools.errors import InputError
from kvtools.readers import READERS
from kvtools.readers.prometheus import READER, CacheConfig, CacheTotals, read_snapshot

if TYPE_CHECKING:
    from conftest import Reader

PAGE = """\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="a}b\\"c"} 1000.0
vllm:prefix_cache_queries_total{engine="1",model_name="a}b\\"c"} 9000.0
vllm:prefix_cache_queries_created{engine="0",model_name="a}b\\"c"} 1.7e+09
vllm:prefix_cache_hits_total{model_name="a}b\\"c",engine="0"} 900.0
vllm:prefix_cache_hits_total{engine="1",model_name="a}b\\"c"} 0.0 1700000000000
"""


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, READER.name, READER)


def page(**values: float) -> str:
    return "".join(f"vllm:{name} {value}\n" for name, value in values.items())


def test_totals_by_engine() -> None:
    snapshot = read_snapshot(PAGE)
    model = ("model_name", 'a}b"c')
    assert snapshot.local == (
        CacheTotals((("engine", "0"), model), 1000, 900),
        CacheTotals((("engine", "1"), model), 9000, 0),
    )
    assert (snapshot.external, snapshot.unit) == ((), "tokens")
    assert [totals.hit_rate for totals in snapshot.local] == [0.9, 0.0]
    assert snapshot.hit_rate == snapshot.local_hit_rate == 0.09  # not 0.45, the mean


@pytest.mark.parametrize(
    ("text", "queried", "hit"),
    [
        (page(prefix_cache_queries=10, prefix_cache_hits=4), 10, 4),
        (page(gpu_prefix_cache_queries=10, gpu_prefix_cache_hits=4), 10, 4),
        (page(gpu_prefix_cache_queries_total=10, gpu_prefix_cache_hits_total=4), 10, 4),
        # The old names beside the new ones count the same lookups.
        (page(gpu_prefix_cache_queries_total=10, gpu_prefix_cache_hits_total=4, prefix_cache_queries_total=10, prefix_cache_hits_total=4), 10, 4),
        (page(prefix_cache_queries_total=0, prefix_cache_hits_total=0), 0, 0),
        # A counter under both of its names is one counter.
        (page(prefix_cache_queries=10, prefix_cache_hits=4, prefix_cache_queries_total=10, prefix_cache_hits_total=4), 10, 4),
        ("vllm:prefix_cache_queries_total 1.5e+01\r\nvllm:prefix_cache_hits_total 4\r\n", 15, 4),
    ],
)  # fmt: skip
def test_names_by_version(text: str, queried: int, hit: int) -> None:
    snapshot = read_snapshot(text)
    assert (snapshot.queried, snapshot.local_hit) == (queried, hit)


def test_the_cache_config_is_in_the_labels() -> None:
    info = 'vllm:cache_config_info{block_size="32",enable_prefix_caching="True",num_gpu_blocks="1024"} 1.0\n'
    assert read_snapshot(PAGE + info).config == CacheConfig(32, 1024, enable_prefix_caching=True)
    assert read_snapshot(info.replace("True", "False")).config == CacheConfig(
        32, 1024, enable_prefix_caching=False
    )
    unset = 'vllm:cache_config_info{block_size="None",num_gpu_blocks="None"} 1.0\n'
    for text in ("", PAGE, unset):
        assert read_snapshot(text).config == CacheConfig()


def test_preemptions_are_summed_over_engines() -> None:
    text = 'vllm:num_preemptions_total{engine="0"} 3.0\nvllm:num_preemptions_total{engine="1"} 4.0\n'
    assert read_snapshot(PAGE + text).preemptions == 7
    assert read_snapshot(text).preemptions == 7
    assert read_snapshot(PAGE).preemptions is None  # not 0: the page does not say


def test_the_unit_is_what_the_page_says() -> None:
    help_line = "# HELP vllm:gpu_prefix_cache_queries_total GPU prefix cache queries, in terms of number of queried blocks.\n"
    counters = page(gpu_prefix_cache_queries_total=10, gpu_prefix_cache_hits_total=4)
    assert read_snapshot(help_line + counters).unit == "blocks"
    assert read_snapshot(counters).unit is None


def test_109_local_and_external_hits_add_up_and_never_overlap(shared: Path) -> None:
    (case,) = (shared / "cases").glob("109-*")
    request = json.loads((case / "input.jsonl").read_text())
    expected = json.loads((case / "expected.json").read_text())
    local, asked = request["local_cached"], request["prompt_tokens"]
    counters = {
        "prefix_cache_queries": asked,
        "prefix_cache_hits": local,
        "external_prefix_cache_queries": asked - local,
    }
    snapshot = read_snapshot(page(**counters, external_prefix_cache_hits=request["external_loaded"]))
    assert snapshot.local_hit + snapshot.external_hit == expected["total"] == 24
    assert snapshot.hit_rate == expected["rate"] == 0.75
    assert snapshot.local_hit_rate == 0.5
    overlapping = page(
        **counters | {"external_prefix_cache_queries": asked},
        external_prefix_cache_hits=request["external_lookup_hit"],
    )
    with pytest.raises(InputError, match="40 hits of 32 queries"):
        read_snapshot(overlapping)


def test_106_a_fleet_is_a_ratio_of_sums(shared: Path) -> None:
    (case,) = (shared / "cases").glob("106-*")
    pods = [json.loads(line) for line in (case / "input.jsonl").read_text().splitlines()]
    text = "".join(
        f'vllm:prefix_cache_{name}{{pod="{pod["pod"]}"}} {pod[name]}\n'
        for pod in pods
        for name in ("queries", "hits")
    )
    assert read_snapshot(text).hit_rate == json.loads((case / "expected.json").read_text())["rate"] == 0.09


def test_101_more_hits_than_queries_is_an_error_and_not_clipped() -> None:
    assert read_snapshot(page(prefix_cache_queries_total=100, prefix_cache_hits_total=80)).hit_rate == 0.8
    with pytest.raises(InputError, match="100 hits of 80 queries"):
        read_snapshot(page(prefix_cache_queries_total=80, prefix_cache_hits_total=100))


@pytest.mark.parametrize(
    "text",
    ["", "# HELP x y\n", "garbage {\n", page(prefix_cache_queries_total=5), page(prefix_cache_queries_total=0),
     "vllm:prefix_cache_queries NaN\nvllm:prefix_cache_hits +Inf\n", "vllm:prefix_cache_queries -1\nvllm:prefix_cache_hits x\n"],
)  # fmt: skip
def test_a_page_without_the_counters(text: str) -> None:
    snapshot = read_snapshot(text)
    assert (snapshot.local, snapshot.hit_rate) == ((), None)


def test_zero_queries_have_no_rate() -> None:
    snapshot = read_snapshot(page(prefix_cache_queries_total=0, prefix_cache_hits_total=0))
    assert (snapshot.hit_rate, snapshot.local[0].hit_rate) == (None, None)


def test_a_page_is_no_log(paths: Reader, tmp_path: Path) -> None:
    (tmp_path / "metrics.txt").write_text(PAGE)
    with pytest.raises(
        InputError, match=r"metrics\.txt: a metrics page of Prometheus holds totals, not requests"
    ):
        paths(tmp_path / "metrics.txt", input_format="prometheus")
    reading = paths(tmp_path, input_format="prometheus")  # among other files it is one reject
    assert (reading.rows, reading.reasons, reading.records) == ([], ["no_log"], 1)


def test_sniffing() -> None:
    assert READER.sniff(PAGE.encode())
    assert READER.sniff(b"\n# TYPE up gauge\nup 1\n")
    for head in (b"", b"{}", b"# a comment\n", b"INFO 08-01 12:00:00 [x.py:1] # HELP x y"):
        assert not READER.sniff(head)
