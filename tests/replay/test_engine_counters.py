from __future__ import annotations

import pytest

from kvtools.errors import EngineError
from kvtools.replay.counters import Counters, counters_of, read_page

PAGE = """\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1.5e+03
vllm:prefix_cache_queries_total{engine="1",model_name="tiny"} 500.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 1024.0
vllm:prefix_cache_hits_total{engine="1",model_name="tiny"} 0.0
vllm:num_preemptions_total{engine="0",model_name="a \\"b\\", c"} 3.0
"""
ONCE = "vllm:prefix_cache_queries{} 10\nvllm:prefix_cache_hits{} 4\n"
EXTERNAL = "vllm:external_prefix_cache_queries{} 6\nvllm:external_prefix_cache_hits{} 5\n"


@pytest.mark.parametrize(
    ("page", "counters"),
    [
        (PAGE, Counters(queried_tokens=2_000, hit_tokens=1_024, preemptions=3)),
        ("vllm:gpu_prefix_cache_queries 10\nvllm:gpu_prefix_cache_hits 4\n", Counters(10, 4, 0)),
        # A client that writes each counter under both of its names.
        (ONCE + ONCE.replace("{}", "_total"), Counters(10, 4, 0)),
        # cached_tokens of an answer holds what came from the external cache, too.
        (ONCE + EXTERNAL, Counters(10, 9, 0)),
        ("", None),
        ("process_cpu_seconds_total 3\n", None),
        (
            "# HELP vllm:prefix_cache_queries Prefix cache queries, in number of queried blocks.\n" + ONCE,
            None,
        ),
    ],
    ids=["two engines", "older names", "both names", "external", "empty", "another page", "blocks"],
)
def test_counters(page: str, counters: Counters | None) -> None:
    assert counters_of(read_page(page)) == counters


def test_more_hits_than_queries_is_a_fault_of_the_engine() -> None:
    with pytest.raises(EngineError, match="12 hits of 10 queries"):
        read_page(ONCE.replace("hits{} 4", "hits{} 12"))
