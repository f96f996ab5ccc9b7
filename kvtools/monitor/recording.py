"""The recording rules: figures of the cache by service, each under a name of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.monitor import names
from kvtools.monitor.deployment import WINDOW

if TYPE_CHECKING:
    from kvtools.monitor.deployment import Deployment

HIT_RATIO = "kvtools:prefix_cache_hit_ratio:rate5m"
QUERIES = "kvtools:prefix_cache_queries:rate5m"
HITS = "kvtools:prefix_cache_hits:rate5m"
INTERRUPTED = "kvtools:preemptions_per_request:rate5m"


@dataclass(frozen=True, slots=True)
class Recording:
    """A rule that records ``expr`` as the series ``record``."""

    record: str
    expr: str


def recording_rules(watched: Deployment) -> list[Recording]:
    """Return the recording rules; ratios are of sums over all engines of a service, gauges their mean and maximum."""
    by, own = watched.by, watched.selector
    queries, hits = (names.rate(known, WINDOW, own) for known in (names.QUERIES, names.HITS))
    usage = names.value(names.KV_USAGE, own)
    rules = [
        Recording(QUERIES, names.over("sum", by, queries)),
        Recording(HITS, names.over("sum", by, hits)),
        Recording(HIT_RATIO, names.hit_ratio(by, WINDOW, own)),
        Recording("kvtools:prefix_cache_total_hit_ratio:rate5m", names.total_hit_ratio(by, WINDOW, own)),
        Recording("kvtools:engine_prefix_cache_hit_ratio:rate5m", f"({hits})\n/\n({queries})"),
        Recording("kvtools:kv_cache_usage:avg", names.over("avg", by, usage)),
        Recording("kvtools:kv_cache_usage:max", names.over("max", by, usage)),
        Recording("kvtools:requests_running:sum", names.over("sum", by, names.value(names.RUNNING, own))),
        Recording("kvtools:requests_waiting:sum", names.over("sum", by, names.value(names.WAITING, own))),
        Recording(INTERRUPTED, names.interrupted(by, WINDOW, own)),
    ]
    return rules + [
        Recording(
            f"kvtools:{latency}_latency_seconds:p{round(100 * share)}",
            names.quantile(latency, share, by, WINDOW, own),
        )
        for latency in names.HISTOGRAMS
        for share in (0.5, 0.9, 0.99)
    ]
