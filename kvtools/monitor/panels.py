"""What the dashboard shows: each panel with its queries, and the line that its alert draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from kvtools.monitor import names
from kvtools.monitor.alerts import COLD_INTERRUPTED_LIMIT, KV_USAGE_LIMIT, cold_share
from kvtools.report.numbers import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.monitor.calibration import Calibration
    from kvtools.monitor.deployment import Deployment

_WINDOW = "$__rate_interval"
_JOB = 'job=~"$job"'
_USAGE = (
    "Blocks held by running requests, over all blocks. What the cache keeps besides is not in it: "
    "0 % is no empty cache."
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query and how its series are named."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel; ``line`` is where its colour turns, to bad above it or to bad below it."""

    title: str
    queries: tuple[Query, ...]
    unit: str
    description: str = ""
    kind: Literal["timeseries", "stat"] = "timeseries"
    line: float | None = None
    bad_above: bool = True
    width: int = 12
    height: int = 8


def panels(found: Calibration, watched: Deployment) -> list[Panel]:
    """Return the panels in their order; what the log does not tell has none."""
    return [
        *_now(found, watched),
        *_hits(found, watched),
        *_latencies(watched),
        *_memory(watched),
        *_of_the_log(found, watched),
    ]


def _own(watched: Deployment) -> tuple[str, str]:
    return watched.selector, _JOB


def _legend(watched: Deployment, *more: str) -> str:
    return " ".join([*(f"{{{{{label}}}}}" for label in watched.by), *more])


def _now(found: Calibration, watched: Deployment) -> Iterator[Panel]:
    own = _own(watched)
    small = Panel(title="", queries=(), unit="percentunit", kind="stat", width=6, height=4)
    yield replace(
        small,
        title="Hit rate",
        queries=(Query(names.hit_ratio((), _WINDOW, *own), "hit rate"),),
        description=_expected(found),
        line=found.hit_rate_low,
        bad_above=False,
    )
    usage = names.over("max", (), names.value(names.KV_USAGE, *own))
    yield replace(
        small,
        title="KV usage, fullest engine",
        queries=(Query(usage, "usage"),),
        description=_USAGE,
        line=KV_USAGE_LIMIT,
    )
    yield replace(
        small,
        title="Preemptions per request",
        queries=(Query(names.interrupted((), _WINDOW, *own), "preemptions"),),
        line=COLD_INTERRUPTED_LIMIT,
    )
    waiting = names.over("sum", (), names.value(names.WAITING, *own))
    yield replace(small, title="Requests waiting", queries=(Query(waiting, "waiting"),), unit="short")


def _expected(found: Calibration) -> str:
    if found.hit_rate is None:
        return "Hits over queries in tokens."
    return f"Hits over queries in tokens. The log's own: {percent(found.hit_rate)} ({found.hit_rate_source})."


def _hits(found: Calibration, watched: Deployment) -> Iterator[Panel]:
    own, by = _own(watched), watched.by
    hits, queries = (names.rate(known, _WINDOW, *own) for known in (names.HITS, names.QUERIES))
    yield Panel(
        title="Hit rate by service",
        queries=(
            Query(names.hit_ratio(by, _WINDOW, *own), _legend(watched)),
            Query(names.total_hit_ratio(by, _WINDOW, *own), _legend(watched, "with external")),
        ),
        unit="percentunit",
        description=f"A ratio of sums over engines. {_expected(found)} External: what a KV connector held beyond it.",
        line=found.hit_rate_low,
        bad_above=False,
    )
    yield Panel(
        title="Hit rate by engine",
        queries=(Query(f"({hits})\n/\n({queries})", "{{instance}} {{engine}}"),),
        unit="percentunit",
        description="Engines far apart: requests that share a prefix do not reach the same one.",
    )
    yield Panel(
        title="Prompt tokens per second",
        queries=(
            Query(names.over("sum", by, queries), _legend(watched, "looked up")),
            Query(names.over("sum", by, hits), _legend(watched, "hit")),
        ),
        unit="short",
        description="The gap between the two is prefill work.",
    )


def _latencies(watched: Deployment) -> Iterator[Panel]:
    for latency, title in (("e2e", "Latency, to the last token"), ("ttft", "Time to the first token")):
        yield Panel(
            title=title,
            queries=tuple(
                Query(
                    names.quantile(latency, share, watched.by, _WINDOW, *_own(watched)),
                    _legend(watched, f"P{round(100 * share)}"),
                )
                for share in (0.5, 0.9, 0.99)
            ),
            unit="s",
            description=f"Between the edges of vLLM's buckets a percentile is a guess; the first edge is "
            f"{names.BUCKETS_S[latency][0]:g} s.",
        )


def _memory(watched: Deployment) -> Iterator[Panel]:
    own, by = _own(watched), watched.by
    usage = names.value(names.KV_USAGE, *own)
    yield Panel(
        title="KV usage",
        queries=(
            Query(names.over("avg", by, usage), _legend(watched, "mean")),
            Query(names.over("max", by, usage), _legend(watched, "fullest engine")),
        ),
        unit="percentunit",
        description=_USAGE,
        line=KV_USAGE_LIMIT,
    )
    yield Panel(
        title="Requests",
        queries=tuple(
            Query(names.over("sum", by, names.value(known, *own)), _legend(watched, word))
            for known, word in ((names.RUNNING, "running"), (names.WAITING, "waiting"))
        ),
        unit="short",
    )
    yield Panel(
        title="Preemptions per finished request",
        queries=(Query(names.interrupted(by, _WINDOW, *own), _legend(watched)),),
        unit="percentunit",
        line=COLD_INTERRUPTED_LIMIT,
    )


def _of_the_log(found: Calibration, watched: Deployment) -> Iterator[Panel]:
    """Return what needs the textfile of the log, or servers told apart by class."""
    if found.cold_share_limit is not None:
        cold = cold_share(watched)
        shown = names.series(names.CLASS_SHARE, watched.textfile_selector, 'class="hot"')
        hot = shown if watched.hot is None else f"1 - {cold}"
        told = "of the log (kvtools export textfile)" if watched.hot is None else "of finished requests"
        yield Panel(
            title="Hot and cold requests",
            queries=(Query(hot, "hot"), Query(cold, "cold")),
            unit="percentunit",
            description=f"Shares {told}.",
            line=found.cold_share_limit,
        )
    if found.conversations:
        yield Panel(
            title="Hits within and across conversations",
            queries=(Query(names.series(names.REUSE_SHARE, watched.textfile_selector), "{{reuse}}"),),
            unit="percentunit",
            description="Shares of the hit tokens of the log (kvtools export textfile); vLLM does not count them.",
        )
