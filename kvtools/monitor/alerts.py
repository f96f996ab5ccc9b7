"""The alerts, each on a series that vLLM or the textfile really has; what has none is left out with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvtools.monitor import names
from kvtools.monitor.calibration import LEAST_RATE
from kvtools.monitor.deployment import WINDOW
from kvtools.monitor.recording import HIT_RATIO, HITS, QUERIES
from kvtools.report.numbers import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.monitor.calibration import Calibration
    from kvtools.monitor.deployment import Deployment, Scenario

KV_USAGE_LIMIT = 0.85
QUEUE_LIMIT = 0.9
HOT_INTERRUPTED_LIMIT = 0.001
COLD_INTERRUPTED_LIMIT = 0.01
SLOW_SHARE = 0.01
"""A P99 is above a limit where more than this share of requests is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert: it fires where ``expr`` has held for ``lasting``. ``limit`` says where its line comes from."""

    name: str
    expr: str
    lasting: str
    severity: Literal["critical", "warning"]
    summary: str
    limit: str
    scenario: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An alert that is not exported, and why."""

    name: str
    why: str


def alerts(found: Calibration, watched: Deployment) -> tuple[list[Alert], list[LeftOut]]:
    """Return the alerts that this log and these servers support, and those that they do not."""
    made: list[Alert | LeftOut] = [
        *_hit_rate(found),
        *_counters(watched),
        _kv_usage(watched),
        _queue(watched),
        *_interruptions(watched),
        _cold_share(found, watched),
        *_latency(found, watched),
        LeftOut(
            "share of hot requests in the last 5 s",
            "vLLM labels no request with its class, and Prometheus scrapes less often than every 5 s: "
            "kvtools analyze reports it from the log (heat.hot_share_5s_p50)",
        ),
    ]
    kept = [one for one in made if isinstance(one, Alert)]
    return kept, [one for one in made if isinstance(one, LeftOut)]


def _hit_rate(found: Calibration) -> Iterator[Alert | LeftOut]:
    log = f"the log's hit rate is {percent(found.hit_rate)}"
    if found.hit_rate_low is None:
        yield LeftOut("KvtoolsHitRateLow", found.hit_rate_source)
    else:
        yield Alert(
            name="KvtoolsHitRateLow",
            expr=f"{HIT_RATIO} < {found.hit_rate_low:g}",
            lasting="10m",
            severity="warning",
            summary="The prefix cache hits less than the log did: look for a changed prompt, then for evictions.",
            limit=f"{log}, the lower edge of its band {percent(found.hit_rate_low)} ({found.hit_rate_source})",
        )
    if found.promised is None or found.promised < LEAST_RATE:
        why = f"the log's prompts reach {percent(found.promised)}: too little for a missing hit to mean anything"
        yield LeftOut("KvtoolsCacheHitsNothing", why)
        return
    yield Alert(
        name="KvtoolsCacheHitsNothing",
        expr=f"{HITS} == 0 and {QUERIES} > 0",
        lasting="10m",
        severity="critical",
        summary="Not one token hits the prefix cache, though prompts are looked up. This is no matter of prompts: "
        "look at the engine (cache reset or too small, block size of hybrid models, salts).",
        limit=f"the log's prompts reach {percent(found.promised)}: no hit at all is the engine's doing, not theirs",
    )


def _counters(watched: Deployment) -> Iterator[Alert]:
    prompts = names.over("sum", watched.by, names.rate(names.PROMPT_TOKENS, WINDOW, watched.selector))
    yield Alert(
        name="KvtoolsCacheNotCounted",
        expr=f"{prompts} > 0\nunless\n{QUERIES} > 0",
        lasting="10m",
        severity="warning",
        summary="Prompts are computed, but nothing is looked up: prefix caching is off, or this vLLM counts it under "
        "another name. No alert on hits can fire.",
        limit="prompt tokens, but no queries of the cache",
    )
    yield Alert(
        name="KvtoolsHitRateAboveOne",
        expr=f"{HIT_RATIO} > 1",
        lasting="5m",
        severity="warning",
        summary="More hits than queries: the counters are of different engines or units. No hit rate can be trusted.",
        limit="a share is at most 1",
    )


def _kv_usage(watched: Deployment) -> Alert:
    return Alert(
        name="KvtoolsKvUsageHigh",
        expr=f"({names.value(names.KV_USAGE, watched.selector)}) > {KV_USAGE_LIMIT:g}",
        lasting="5m",
        severity="warning",
        summary="Running requests hold most KV blocks of an engine: preemptions come next. (The gauge counts blocks of "
        "running requests; what the cache keeps besides is not in it.)",
        limit=f"article B: cold requests fail above {percent(KV_USAGE_LIMIT)}",
    )


def _queue(watched: Deployment) -> Alert | LeftOut:
    if watched.max_num_seqs is None:
        return LeftOut(
            "KvtoolsQueueSaturated",
            "vLLM exports no max_num_seqs to hold num_requests_running against: give --max-num-seqs as it is served",
        )
    return Alert(
        name="KvtoolsQueueSaturated",
        expr=f"{names.value(names.RUNNING, watched.selector)} > {QUEUE_LIMIT * watched.max_num_seqs:g}",
        lasting="5m",
        severity="warning",
        summary="An engine runs nearly as many requests as it may: new ones wait.",
        limit=f"article B: running / max_num_seqs below {QUEUE_LIMIT:g}; --max-num-seqs {watched.max_num_seqs}",
    )


def _interruptions(watched: Deployment) -> Iterator[Alert | LeftOut]:
    if watched.hot is None or watched.cold is None:
        yield _interrupted("KvtoolsInterruptions", "requests", COLD_INTERRUPTED_LIMIT, watched, "")
        yield LeftOut(
            "KvtoolsHotInterruptions and KvtoolsColdInterruptions",
            "vLLM labels no request with its class: give --hot and --cold where servers of their own serve each; "
            "KvtoolsInterruptions watches both together at the line of cold requests",
        )
        return
    yield _interrupted("KvtoolsHotInterruptions", "hot requests", HOT_INTERRUPTED_LIMIT, watched, watched.hot)
    yield _interrupted(
        "KvtoolsColdInterruptions", "cold requests", COLD_INTERRUPTED_LIMIT, watched, watched.cold
    )


def _interrupted(name: str, whose: str, limit: float, watched: Deployment, selector: str) -> Alert:
    return Alert(
        name=name,
        expr=f"({names.interrupted(watched.by, WINDOW, watched.selector, selector)}) > {limit:g}",
        lasting="5m",
        severity="warning",
        summary=f"Running {whose} are preempted and computed again: too little KV memory for what runs at once.",
        limit=f"article B: {percent(limit)} of {whose}; preemptions over finished requests, "
        "so that one preempted twice counts twice",
    )


def _cold_share(found: Calibration, watched: Deployment) -> Alert | LeftOut:
    if found.cold_share is None or found.cold_share_limit is None:
        return LeftOut("KvtoolsColdShareHigh", "the log has no classes of hot and cold requests")
    limit = (
        f"article B's limit; the log's own share is {percent(found.cold_share)}"
        if found.cold_share < found.cold_share_limit <= 0.15
        else f"a quarter above the log's own share of {percent(found.cold_share)}, which article B's 15 % lies below"
    )
    return Alert(
        name="KvtoolsColdShareHigh",
        expr=f"{cold_share(watched)} > {found.cold_share_limit:g}",
        lasting="10m",
        severity="warning",
        summary="More cold requests than this service is used to: a shared first-come queue suffers.",
        limit=limit,
    )


def cold_share(watched: Deployment) -> str:
    """Return the share of cold requests: of finished ones where servers are told apart, else the textfile's."""
    if watched.cold is None or watched.hot is None:
        return names.series(names.CLASS_SHARE, watched.textfile_selector, 'class="cold"')
    cold, hot = (
        names.over("sum", (), names.rate(names.FINISHED, WINDOW, watched.selector, one))
        for one in (watched.cold, watched.hot)
    )
    return f"({cold}\n/\n({cold} + {hot}))"


def _latency(found: Calibration, watched: Deployment) -> Iterator[Alert | LeftOut]:
    if not watched.scenarios:
        yield LeftOut(
            "KvtoolsP99High",
            "vLLM labels no request with its scenario: give --scenario NAME, or NAME=MATCHERS "
            "where only some series serve it",
        )
    for one in watched.scenarios:
        yield Alert(
            name="KvtoolsP99High",
            expr=f"{names.slower_share(watched.latency, one.p99_s, watched.by, WINDOW, watched.selector, one.selector)}"
            f" > {SLOW_SHARE:g}",
            lasting="5m",
            severity="warning",
            summary=f"More than 1 % of requests take longer than {one.name} allows.",
            limit=_p99_limit(found, one, watched),
            scenario=one.name,
        )


def _p99_limit(found: Calibration, one: Scenario, watched: Deployment) -> str:
    limit = f"article B: P99 of {one.name} at most {1000 * one.p99_s:g} ms"
    edge = names.edge_s(watched.latency, one.p99_s)
    if edge > one.p99_s:
        limit += (
            f"; vLLM's histogram has no edge there, so {1000 * edge:g} ms is judged "
            f"(--custom-histogram-buckets of vLLM sets one)"
        )
    if watched.latency == "e2e" and found.hot_p99_ms is not None:
        keeps = "keep" if found.hot_p99_ms <= 1000 * one.p99_s else "do not keep"
        limit += f"; the log's hot requests {keeps} it (P99 {found.hot_p99_ms:,.0f} ms)"
    return limit
