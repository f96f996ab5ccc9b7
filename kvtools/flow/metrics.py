"""``analyze metrics``: what engines counted between scrapes, and whether a log predicts it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtools.errors import InputError, UsageError
from kvtools.flow.analyze import AnalyzeOptions, analyze
from kvtools.flow.intake import IntakeOptions, Watcher
from kvtools.flow.stored import read_report
from kvtools.monitor.agreement import Predicted
from kvtools.monitor.counters import counted
from kvtools.monitor.exposition import pages, time_in_name
from kvtools.monitor.metrics_figures import metrics_report
from kvtools.monitor.prometheus_api import fetch
from kvtools.readers.sources import discard, expand, opened
from kvtools.readers.urls import public

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kvtools.flow.intake import PathLike
    from kvtools.flow.sizing import CacheMemory
    from kvtools.monitor.counters import Counted
    from kvtools.monitor.exposition import Labels, Page
    from kvtools.readers.sources import Source
    from kvtools.report.metrics import MetricsReport
    from kvtools.report.model import Report

DEFAULT_RANGE_S = 3600.0
MOST_BYTES = 1 << 30
_TRACE_LIMIT_US = 10**14
_REPORT = re.compile(rb'\s*\{\s*"schema_version"')


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions(IntakeOptions):
    """What ``analyze metrics`` can be told; how to read is said of the log.

    ``prometheus``: URL of a Prometheus to ask for the last ``range_s`` seconds, of series with these ``query_labels``.
    ``step_s``: length of a window. ``log``: paths of a log, or one stored report, to compare with.
    """

    prometheus: str | None = None
    range_s: float | None = None
    step_s: float | None = None
    query_labels: Mapping[str, str] = field(default_factory=dict)
    log: Sequence[str] = ()
    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    measure_from: float = 0.0

    def reading(self) -> dict[str, Any]:
        """Return what says how the log is read and replayed."""
        names = [one.name for one in fields(IntakeOptions)]
        return {name: getattr(self, name) for name in (*names, "capacity_blocks", "memory", "measure_from")}


def analyze_metrics(
    paths: Sequence[PathLike] | PathLike = (),
    options: MetricsOptions | None = None,
    watcher: Watcher | None = None,
) -> MetricsReport:
    """Return what engines counted between the scrapes that ``paths`` hold, or a Prometheus has.

    Raises:
        InputError: pages, Prometheus or log cannot be read, hold no prefix-cache counters, or fewer than two scrapes
            of an engine.
        UsageError: paths and ``prometheus`` both, or neither; an option is out of its range.
    """
    chosen = options or MetricsOptions()
    named = [str(path) for path in ([paths] if isinstance(paths, (str, Path)) else paths)]
    if bool(named) == bool(chosen.prometheus):
        raise UsageError("name pages of /metrics, or a server with --prometheus URL: one of the two.")
    if not chosen.prometheus and (chosen.range_s or chosen.query_labels):
        raise UsageError("--range and --query-label belong to --prometheus URL; leave them out.")
    times: list[str] = []
    if chosen.prometheus:
        found = counted(
            [(fetch(chosen.prometheus, chosen.range_s or DEFAULT_RANGE_S, chosen.query_labels), ())]
        )
        source, times = public(chosen.prometheus), ["prometheus"]
    else:
        found, source = counted(_pages(named, times)), "pages"
    _check_two_scrapes(found)
    predicted, block_size = None, 0
    if chosen.log:
        report = _log_report(chosen, watcher or Watcher())
        predicted, block_size = predicted_of(report, found.first_s, found.last_s)
    notes = (
        ["times are those of the files (when they were last written); copies may have lost them."]
        if "file" in times
        else []
    )
    return metrics_report(
        found,
        source=source,
        times_from=times,
        step_s=chosen.step_s,
        predicted=predicted,
        block_size=block_size,
        notes=notes,
    )


def _check_two_scrapes(found: Counted) -> None:
    if any(engine.increases for engine in found.engines):
        return
    engines = f"{len(found.engines)} engines, one scrape each" if len(found.engines) > 1 else "one scrape"
    raise InputError(
        f"{engines}: a hit rate is a difference of two, and what stands on one page is the average since the start; "
        "take another page of the same server (a file each, or one file with a line '# time …' before each page)."
    )


def _pages(paths: Sequence[str], times: list[str]) -> Iterator[tuple[Page, Labels]]:
    sources = expand(paths)
    try:
        dated = {source.name: time_in_name(source.path.name) for source in sources if not source.spooled}
        servers = {_server(source.path, dated.get(source.name)) for source in sources}
        apart = len(servers) > 1 and all(dated.get(source.name) for source in sources)
        for source in sources:
            named = dated.get(source.name)
            own: Labels = (("file", _server(source.path, named)),) if apart else ()
            for page in pages(_text(source)):
                if page.time_s is None and not all(sample.time_s for sample in page.samples):
                    page.time_s = named[0] if named else source.path.stat().st_mtime
                    how = "name" if named else "file"
                else:
                    how = "page"
                if how not in times:
                    times.append(how)
                yield page, own
    finally:
        discard(sources)


def _server(path: Path, named: tuple[float, str] | None) -> str:
    """Return what a file's folder and name without its time say of the server it came from."""
    return str(path.parent / re.sub(r"[-_.]+(?=\.|$)", "", named[1] if named else path.name))


def _text(source: Source) -> str:
    with opened(source) as file:
        data = file.stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError(
            f"{source.name}: more than 1 GiB of metrics; keep fewer scrapes, or ask a Prometheus."
        )
    return data.decode("utf-8", "replace")


def _log_report(options: MetricsOptions, watcher: Watcher) -> Report:
    """Return the report of the log: read back where it is a stored one, else made without findings and classes."""
    (first, *more) = options.log
    if _is_report(Path(first)):
        if more:
            raise UsageError("--log: one stored report, or the files of one log.")
        if options.reading() != MetricsOptions().reading():
            raise UsageError("a stored report has been read already: leave out the options on reading a log.")
        return read_report(Path(first))
    chosen = AnalyzeOptions(**options.reading(), findings=False, classes=False)
    return analyze(list(options.log), chosen, watcher)


def _is_report(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return bool(_REPORT.match(file.read(256)))


def predicted_of(report: Report, first_s: float, last_s: float) -> tuple[Predicted, int]:
    """Return what a report predicts for the time of the scrapes, and its block size in tokens.

    Of a log with a clock only the windows count that lie whole within the scrapes.

    Raises:
        InputError: the log has no prompts, so that nothing was replayed.
    """
    cache = report.cache
    if cache is None:
        raise InputError("--log: the log has no prompts, so that it predicts no hits; name one that has.")
    queried, hit, in_time = cache.queried_tokens, cache.hit_tokens, None
    if (
        report.period is not None
        and report.period.first_us >= _TRACE_LIMIT_US
        and last_s >= _TRACE_LIMIT_US / 1e6
    ):
        period, first_us, last_us = report.period, first_s * 1e6, last_s * 1e6
        in_time = period.first_us <= last_us and period.last_us >= first_us
        if in_time and not (first_us <= period.first_us and period.last_us <= last_us):
            inside = [
                one
                for one in report.over_time
                if one.from_us is not None
                and one.width_us is not None
                and first_us <= one.from_us
                and one.from_us + one.width_us <= last_us
            ]
            queried = sum(one.queried_tokens for one in inside)
            hit = sum(one.hit_tokens for one in inside)
    return (
        Predicted(
            queried=queried,
            hit=hit,
            requests=report.requests,
            capacity_blocks=cache.capacity_blocks,
            in_time=in_time,
            start_state=cache.start_state,
        ),
        cache.block_size,
    )
