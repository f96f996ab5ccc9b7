"""The figures of a report as metrics for the node exporter's textfile collector. Each is defined in docs/metrics.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.errors import UsageError
from kvtools.monitor.names import CLASS_SHARE, REUSE_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kvtools.report.model import Report
    from kvtools.report.replay import ReplayReport

FILE = "kvtools.prom"

HELP = {
    "kvtools_cache_hit_rate": "Hit tokens over prompt tokens, by who counted them.",
    "kvtools_cache_hit_rate_ceiling": "Hit rate of the same requests in a cache without limit.",
    "kvtools_class_cache_hit_rate": "Hit rate of a class of requests in the shared cache, by replay.",
    CLASS_SHARE: "Share of a class in the requests of the log.",
    REUSE_SHARE: "Share of the hit tokens that the same conversation had left (within), or another one (across).",
    "kvtools_block_utilization": "Filled tokens over blocks held times their size, over the steps of the replay.",
    "kvtools_memory_fragmentation": "1 - block utilization of a step, percentiles over the steps of the replay.",
    "kvtools_prefill_latency_seconds": "Logged time to the first token, its wait in the queue included.",
    "kvtools_request_latency_seconds": "Logged time of a whole request.",
    "kvtools_log_requests": "Requests of the log that the figures are of.",
    "kvtools_rejected_records": "Records of the log that could not be used.",
    "kvtools_reported_off_grid_requests": "Requests whose reported cached tokens their service does not count in.",
}
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def textfile(
    report: Report | None,
    replayed: ReplayReport | None,
    prefill_s: Mapping[str, float],
    labels: Mapping[str, str],
) -> str:
    """Return the file: what the log does not tell is absent.

    ``prefill_s``: seconds to the first token by percentile. ``labels`` stand on every sample, so that the files of
    several logs can lie side by side.
    """
    samples = [
        *(() if report is None else _of_report(report)),
        *(() if replayed is None else _of_replay(replayed)),
        *(Sample("kvtools_prefill_latency_seconds", (("percentile", p),), s) for p, s in prefill_s.items()),
    ]
    lines = []
    for name, told in HELP.items():
        found = [sample for sample in samples if sample.name == name]
        if found:
            lines += [f"# HELP {name} {told}", f"# TYPE {name} gauge"]
            lines += [_line(sample, labels) for sample in found]
    return "\n".join(lines) + "\n"


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise ``UsageError`` where a label cannot stand on a sample."""
    for name in labels:
        if (
            not _LABEL.fullmatch(name)
            or name.startswith("__")
            or name in {"class", "counted_by", "percentile", "reuse"}
        ):
            raise UsageError(
                f"--label {name}: a name of letters, digits and _ that no metric of the file uses itself."
            )


def _line(sample: Sample, labels: Mapping[str, str]) -> str:
    shown = ",".join(f'{name}="{_escaped(value)}"' for name, value in (*labels.items(), *sample.labels))
    return f"{sample.name}{{{shown}}} {sample.value!r}" if shown else f"{sample.name} {sample.value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _of_report(report: Report) -> Iterator[Sample]:
    if report.cache is not None and report.cache.hit_rate is not None:
        yield Sample("kvtools_cache_hit_rate", (("counted_by", "analyze"),), report.cache.hit_rate)
    if report.ceiling is not None and report.ceiling.hit_rate is not None:
        yield Sample("kvtools_cache_hit_rate_ceiling", (), report.ceiling.hit_rate)
    reported = report.traffic.reported
    if reported is not None:
        if reported.hit_rate is not None:
            yield Sample("kvtools_cache_hit_rate", (("counted_by", "log"),), reported.hit_rate)
        yield Sample("kvtools_reported_off_grid_requests", (), reported.off_grid_requests)
    for one in report.classes:
        label = (("class", one.name),)
        yield Sample(CLASS_SHARE, label, one.request_share)
        if one.hit_rate is not None:
            yield Sample("kvtools_class_cache_hit_rate", label, one.hit_rate)
        if one.latency is not None:
            for percentile in ("50", "90", "99"):
                seconds = getattr(one.latency, f"p{percentile}_ms") / 1000
                yield Sample("kvtools_request_latency_seconds", (*label, ("percentile", percentile)), seconds)
    if report.sessions is not None and report.sessions.within_share is not None:
        yield Sample(REUSE_SHARE, (("reuse", "within"),), report.sessions.within_share)
        yield Sample(REUSE_SHARE, (("reuse", "across"),), 1 - report.sessions.within_share)
    yield Sample("kvtools_log_requests", (), report.requests)
    yield Sample("kvtools_rejected_records", (), report.coverage.rejected)


def _of_replay(replayed: ReplayReport) -> Iterator[Sample]:
    for one in replayed.replays:
        by = (("counted_by", one.engine),)
        if one.hit_rate is not None:
            yield Sample("kvtools_cache_hit_rate", by, one.hit_rate)
        if one.block_utilization is not None:
            yield Sample("kvtools_block_utilization", by, one.block_utilization)
        if one.memory_fragmentation is not None:
            for percentile in ("50", "95"):
                share = getattr(one.memory_fragmentation, f"p{percentile}")
                yield Sample("kvtools_memory_fragmentation", (*by, ("percentile", percentile)), share)
