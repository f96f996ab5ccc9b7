"""Counters of engines as the figures of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools import __version__
from kvtools.model import share
from kvtools.monitor.agreement import Measured, agreement
from kvtools.monitor.counters import spread
from kvtools.monitor.windows import dips, hits_stopped, step_of, usual_gap_s, window, windows
from kvtools.report.metrics import (
    EngineFigures,
    KvUsage,
    MetricsReport,
    PredictedFigures,
    Stopped,
    WindowFigures,
)
from kvtools.report.metrics_verdict import metrics_verdict
from kvtools.report.model import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.monitor.agreement import Predicted
    from kvtools.monitor.counters import Counted, Engine
    from kvtools.monitor.windows import Stop, Window


def metrics_report(
    found: Counted,
    *,
    source: str,
    times_from: Sequence[str],
    step_s: float | None,
    predicted: Predicted | None,
    block_size: int,
    notes: Sequence[str],
) -> MetricsReport:
    """Return the report; ``block_size`` is that of the prediction."""
    increases = found.increases
    step = step_s or step_of(found)
    over_time = windows(increases, found.first_s, step)
    measured = _measured(found, over_time)
    agreed = agreement(measured, predicted)
    sources: dict[str, int] = {}
    for one in increases:
        for name, count in one.by_source.items():
            sources[name] = sources.get(name, 0) + count
    return MetricsReport(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        source=source,
        times_from=list(times_from),
        unit=found.unit,
        first_s=found.first_s,
        last_s=found.last_s,
        step_s=step,
        scrapes=sum(len(engine.scrapes) for engine in found.engines),
        unreadable_samples=found.unreadable,
        queried=measured.queried,
        hit=measured.hit,
        external_hit=measured.external_hit,
        hit_rate=share(measured.hit, measured.queried),
        total_hit_rate=measured.hit_rate,
        lifetime_hit_rate=lifetime(found.engines),
        by_source=sources,
        prompt_tokens=measured.prompt_tokens,
        finished_requests=measured.finished,
        preemptions=measured.preemptions,
        kv_usage=_usage(found.engines),
        stopped=_stopped(measured.stopped),
        predicted=None if predicted is None else _predicted(predicted, block_size),
        verdict=metrics_verdict(agreed.kind, agreed.also, agreed.evidence),
        notes=[*notes, *_notes(found, measured, sources)],
        engines=_engines(found),
        windows=[_window(one) for one in over_time],
    )


def _measured(found: Counted, over_time: Sequence[Window]) -> Measured:
    increases = found.increases
    known = {name: [getattr(one, name) for one in increases] for name in ("prompt_tokens", "finished")}
    totals = {name: None if None in values or not values else sum(values) for name, values in known.items()}
    return Measured(
        queried=sum(one.queried for one in increases),
        hit=sum(one.hit for one in increases),
        external_hit=sum(one.external_hit for one in increases),
        preemptions=sum(one.preemptions for one in increases),
        prompt_tokens=totals["prompt_tokens"],
        finished=totals["finished"],
        engines=sum(any(one.queried for one in engine.increases) for engine in found.engines),
        resets_s=[time for engine in found.engines for time in engine.resets_s],
        dips=dips(over_time),
        stopped=hits_stopped(windows(increases, found.first_s, usual_gap_s(found))),
        stopped_engines=sum(stop_of(engine) is not None for engine in found.engines),
        caching=_caching(found.engines),
    )


def _stopped(stop: Stop | None) -> Stopped | None:
    return None if stop is None else Stopped(after_s=stop.after_s, queried=stop.queried)


def stop_of(engine: Engine) -> Stop | None:
    """Return since when nothing hits on one engine, to the scrape."""
    return hits_stopped([window([one]) for one in engine.increases])


def _caching(engines: Sequence[Engine]) -> bool | None:
    said = {engine.config.get("enable_prefix_caching") for engine in engines} - {None}
    return {"True": True, "False": False}.get(str(said.pop())) if len(said) == 1 else None


def lifetime(engines: Sequence[Engine]) -> float | None:
    """Return hits over queries since the engines' start, local and external: for contrast alone."""
    last = [engine.scrapes[-1] for engine in engines]
    hits = sum(one.count("hits") + one.count("external_hits") for one in last)
    return share(hits, sum(one.count("queries") for one in last))


def _engines(found: Counted) -> list[EngineFigures]:
    sums = spread(found.increases, len(found.engines))
    return [
        EngineFigures(
            labels=dict(engine.labels),
            scrapes=len(engine.scrapes),
            queried=queried,
            hit=hit,
            external_hit=external,
            hit_rate=share(hit, queried),
            total_hit_rate=share(hit + external, queried),
            resets=len(engine.resets_s),
            missing_scrapes=engine.missing_scrapes,
            unusable_scrapes=engine.unusable,
            left_out=engine.left_out,
            stopped=_stopped(stop_of(engine)),
        )
        for engine, (queried, hit, external) in zip(found.engines, sums, strict=True)
    ]


def _window(one: Window) -> WindowFigures:
    return WindowFigures(
        from_s=one.from_s,
        to_s=one.to_s,
        queried=one.queried,
        hit=one.hit,
        external_hit=one.external_hit,
        hit_rate=one.hit_rate,
        total_hit_rate=one.total_hit_rate,
        preemptions=one.preemptions,
        resets=one.resets,
    )


def _usage(engines: Sequence[Engine]) -> KvUsage | None:
    """Return the gauge over all scrapes of all engines: a mean and a greatest value, never a sum."""
    values: list[float] = []
    zero_then_hit = 0
    for engine in engines:
        hit_until = {one.from_s: one.hit for one in engine.increases if not one.began_anew}
        for scrape in engine.scrapes:
            if (value := scrape.values.get("kv_usage")) is not None:
                values.append(value)
                zero_then_hit += value == 0 and hit_until.get(scrape.time_s, 0) > 0
    if not values:
        return None
    return KvUsage(
        mean=sum(values) / len(values), max=max(values), scrapes=len(values), zero_then_hit=zero_then_hit
    )


def _predicted(predicted: Predicted, block_size: int) -> PredictedFigures:
    return PredictedFigures(
        queried_tokens=predicted.queried,
        hit_tokens=predicted.hit,
        hit_rate=predicted.hit_rate,
        requests=predicted.requests,
        capacity_blocks=predicted.capacity_blocks,
        block_size=block_size,
        in_time=predicted.in_time,
    )


def _notes(found: Counted, measured: Measured, sources: dict[str, int]) -> list[str]:
    notes = []
    if found.unit == "blocks":
        notes.append(
            "these counters count blocks, as the first versions of vLLM did: rates are shares of blocks."
        )
    if found.unreadable:
        notes.append(f"{found.unreadable:,} values were no numbers (NaN) and were left out.")
    if left := sum(engine.left_out for engine in found.engines):
        notes.append(
            f"engines that came later had counted {left:,} queries before their first scrape: left out, as "
            "nobody saw when."
        )
    if unusable := sum(engine.unusable for engine in found.engines):
        notes.append(f"{unusable:,} scrapes lacked hits or queries and were left out.")
    if late := sum(engine.missing_scrapes for engine in found.engines):
        notes.append(
            f"about {late:,} scrapes are missing: what was counted meanwhile stands in the window of the next scrape."
        )
    hits = measured.hit + measured.external_hit
    if sources and sum(sources.values()) != hits:
        notes.append(
            f"vllm:prompt_tokens_cached_by_source adds up to {sum(sources.values()):,}, hits to {hits:,}: "
            "a scrape fell between the two, or they are of different versions."
        )
    return notes
