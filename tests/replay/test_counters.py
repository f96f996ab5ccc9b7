from __future__ import annotations

from kvtools.replay.counters import CacheConfig, Counters, read_cache_config, read_counters

PAGE = """\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1.5e+03
vllm:prefix_cache_queries_total{engine="1",model_name="tiny"} 500.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 1024.0
vllm:prefix_cache_hits_total{engine="1",model_name="tiny"} 0.0
vllm:num_preemptions_total{engine="0",model_name="a \\"b\\", c"} 3.0
vllm:cache_config_info{block_size="32",enable_prefix_caching="True",num_gpu_blocks="1024"} 1.0
"""


def test_counters_are_summed_over_engines() -> None:
    assert read_counters(PAGE) == Counters(queried_tokens=2_000, hit_tokens=1_024, preemptions=3)


def test_older_names() -> None:
    page = "vllm:gpu_prefix_cache_queries 10\nvllm:gpu_prefix_cache_hits 4\n"
    assert read_counters(page) == Counters(10, 4, 0)


def test_a_page_without_them() -> None:
    assert read_counters("") is None
    assert read_counters("process_cpu_seconds_total 3\n") is None
    assert read_cache_config("") == CacheConfig()


def test_the_cache_config_is_in_the_labels() -> None:
    assert read_cache_config(PAGE) == CacheConfig(
        block_size=32, num_gpu_blocks=1024, enable_prefix_caching=True
    )
