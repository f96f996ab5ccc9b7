"""The metrics of vLLM that exports stand on, under the names of all its versions, as pieces of PromQL.

Names by version, as in ``kvtools.readers.prometheus``: ``vllm:gpu_prefix_cache_*`` became ``vllm:prefix_cache_*``, and
``vllm:gpu_cache_usage_perc`` became ``vllm:kv_cache_usage_perc``; for a while both stood on one page. ``a or b`` keeps,
engine by engine, the first that is there. Prometheus clients append ``_total`` to counters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
EXTERNAL_HITS = ("vllm:external_prefix_cache_hits_total",)
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
PREEMPTIONS = ("vllm:num_preemptions_total",)
FINISHED = ("vllm:request_success_total",)
PROMPT_TOKENS = ("vllm:prompt_tokens_total",)
RUNNING = ("vllm:num_requests_running",)
WAITING = ("vllm:num_requests_waiting",)

HISTOGRAMS = {"e2e": "vllm:e2e_request_latency_seconds", "ttft": "vllm:time_to_first_token_seconds"}
"""Latency of a request from its arrival: to its last token, to its first one."""

BUCKETS_S = {
    "e2e": (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0),
    "ttft": (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0),
}
"""The lower edges of these histograms in vLLM 0.32 (``vllm/v1/metrics/buckets.py``); a server may set others."""

CLASS_SHARE = "kvtools_class_request_share"
"""Of ``kvtools export textfile``: the share of each class in the log's requests."""

REUSE_SHARE = "kvtools_hit_tokens_share"
"""Of ``kvtools export textfile``: the share of hits within a conversation and across conversations."""


def series(name: str, *matchers: str) -> str:
    """Return a series selector; empty ``matchers`` are left out."""
    given = ",".join(matcher for matcher in matchers if matcher)
    return f"{name}{{{given}}}" if given else name


def rate(names: Sequence[str], window: str, *matchers: str) -> str:
    """Return the increase per second of the first of ``names`` that an engine has."""
    return " or ".join(f"rate({series(name, *matchers)}[{window}])" for name in names)


def value(names: Sequence[str], *matchers: str) -> str:
    """Return the value of the first of ``names`` that an engine has: ``or`` compares labels, never names."""
    return " or ".join(series(name, *matchers) for name in names)


def over(operation: str, labels: Sequence[str], expression: str) -> str:
    """Return ``operation`` (sum, avg, max) over all engines that agree in ``labels``."""
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"{operation}{by} ({expression})"


def hit_ratio(labels: Sequence[str], window: str, *matchers: str) -> str:
    """Return hits over queries, in tokens, summed over engines before dividing: a ratio of sums, no mean of ratios."""
    hits, queries = (over("sum", labels, rate(names, window, *matchers)) for names in (HITS, QUERIES))
    return f"{hits}\n/\n{queries}"


def total_hit_ratio(labels: Sequence[str], window: str, *matchers: str) -> str:
    """Return local and external hits over local queries.

    An external hit is what a KV connector held *beyond* the engine's own cache: the two add up and never overlap.
    An engine without a connector counts 0 external hits.
    """
    hits, external, queries = (
        over("sum", labels, rate(names, window, *matchers)) for names in (HITS, EXTERNAL_HITS, QUERIES)
    )
    return f"({hits}\n + ({external}\n    or 0 * {hits}))\n/\n{queries}"


def interrupted(labels: Sequence[str], window: str, *matchers: str) -> str:
    """Return preemptions over finished requests; a request that is preempted twice counts twice."""
    lost, done = (over("sum", labels, rate(names, window, *matchers)) for names in (PREEMPTIONS, FINISHED))
    return f"{lost}\n/\n{done}"


def quantile(latency: str, share: float, labels: Sequence[str], window: str, *matchers: str) -> str:
    """Return a percentile of a latency in s, as far as the edges of the buckets tell."""
    buckets = rate((f"{HISTOGRAMS[latency]}_bucket",), window, *matchers)
    return f"histogram_quantile({share:g}, {over('sum', (*labels, 'le'), buckets)})"


def edge_s(latency: str, limit_s: float) -> float:
    """Return the first edge of vLLM's buckets that is not below a limit."""
    return next(edge for edge in BUCKETS_S[latency] if edge >= limit_s)


def slower_share(latency: str, limit_s: float, labels: Sequence[str], window: str, *matchers: str) -> str:
    """Return the share of requests that took longer than a limit, counted at an edge of the buckets.

    A percentile between two edges is a guess: with nothing but requests of 10 ms, ``histogram_quantile(0.99, …)`` of
    vLLM's first bucket (to 0.3 s) is 0.297 s. A server that has an edge at the limit is judged there, else at the next
    one above.
    """
    name = HISTOGRAMS[latency]
    # One after another for each engine: `sum without` takes the edge away, so that `or` sees one engine.
    buckets = [
        rate((f"{name}_bucket",), window, *matchers, f'le="{edge!r}"')
        for edge in dict.fromkeys((limit_s, edge_s(latency, limit_s)))
    ]
    within = "\n    or ".join(f"sum without (le) ({bucket})" for bucket in buckets)
    count = over("sum", labels, rate((f"{name}_count",), window, *matchers))
    return f"1 - {over('sum', labels, within)}\n/\n{count}"
