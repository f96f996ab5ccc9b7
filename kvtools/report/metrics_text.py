"""The report of ``analyze metrics`` on a terminal."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kvtools.report.explain_text import printable
from kvtools.report.metrics_verdict import sentence_of
from kvtools.report.numbers import bars, counted, percent, seconds, short

if TYPE_CHECKING:
    from kvtools.report.metrics import EngineFigures, MetricsReport, WindowFigures

WIDTH = 80
MOST_WINDOWS = 20
MOST_ENGINES = 20
_FEW_WINDOWS = 5


def render_metrics(report: MetricsReport) -> str:
    """Return the report as text: the rate, why, then windows and engines."""
    lines = [_headline(report), *(f"  {line}" for line in _basis(report))]
    lines += ["", report.verdict.sentence]
    for one in report.verdict.evidence:
        lines += _wrapped(one, "  ")
    for kind in report.verdict.also:
        lines += _wrapped(f"also: {sentence_of(kind)}", "  ")
    lines += _over_time(report) + _by_engine(report) + _usage(report)
    for note in report.notes:
        lines += _wrapped(f"Note: {note}")
    for place, advice in enumerate(report.verdict.advice):
        lines += _wrapped(advice, "Check: " if not place else "       ")
    return "\n".join(lines) + "\n"


def _headline(r: MetricsReport) -> str:
    if r.hit_rate is None:
        return "No hit rate: nothing was looked up in the prefix cache between the scrapes."
    if r.stopped:
        return f"Hits stopped after {clock(r.stopped.after_s)} UTC: 0.0 % of {short(r.stopped.queried)} queried since."
    unit = {"tokens": "prompt tokens", "blocks": "blocks"}.get(r.unit or "", "queried tokens")
    if not r.external_hit:
        return f"{percent(r.hit_rate)} of {unit} hit the prefix cache over {_length(r)}."
    return (
        f"{percent(r.total_hit_rate)} of {unit} hit over {_length(r)}: {percent(r.hit_rate)} in the engine's "
        "own cache, the rest in an external one."
    )


def _length(r: MetricsReport) -> str:
    length = r.last_s - r.first_s
    return (
        seconds(length)
        if length < 600
        else f"{length / 60:,.0f} min"
        if length < 7200
        else f"{length / 3600:.1f} h"
    )


def _basis(r: MetricsReport) -> list[str]:
    hits = f"{short(r.hit)} hit" + (f" + {short(r.external_hit)} external" if r.external_hit else "")
    preempted = counted(r.preemptions, "preemption")
    lines = [
        f"{short(r.queried)} queried, {hits} · {counted(len(r.engines), 'engine')} · {preempted}",
        f"{counted(r.scrapes, 'scrape')} · {clock(r.first_s)} - {clock(r.last_s)} UTC · differences of counters",
    ]
    if len(r.by_source) > 1:
        lines.append(
            "by source: " + ", ".join(f"{printable(k)} {short(v)}" for k, v in r.by_source.items() if v)
        )
    if r.lifetime_hit_rate is not None and r.hit_rate is not None:
        lines.append(
            f"(since the engines' start {percent(r.lifetime_hit_rate)}: an average that hides changes)"
        )
    if p := r.predicted:
        size = "an unlimited cache" if p.capacity_blocks is None else counted(p.capacity_blocks, "block")
        lines.append(
            f"the log predicts {percent(p.hit_rate)} of {short(p.queried_tokens)} prompt tokens in {size}"
        )
    return lines


def clock(moment_s: float) -> str:
    """Return a moment to the second, with its date, in UTC; seconds alone where it is no date."""
    if moment_s < 1e8:
        return f"{moment_s:g} s"
    return f"{datetime.fromtimestamp(moment_s, UTC):%d %b %H:%M:%S}"


def _over_time(r: MetricsReport) -> list[str]:
    if len(r.windows) < 2:
        return []
    rates = [one.total_hit_rate or 0.0 for one in r.windows]
    lines = ["", f"Over time, windows of {seconds(r.step_s)}"]
    if len(rates) >= _FEW_WINDOWS and max(rates):
        lines.append(f"  {bars(rates[-WIDTH + 4 :])}  up to {percent(max(rates))}")
    shown = r.windows[-MOST_WINDOWS:]
    if len(shown) < len(r.windows):
        lines.append(f"  the last {len(shown)} of {len(r.windows)} (--format json has all)")
    return lines + [_window(one) for one in shown]


def _window(one: WindowFigures) -> str:
    extra = (f"  {counted(one.preemptions, 'preemption')}" if one.preemptions else "") + (
        f"  {counted(one.resets, 'restart')}" if one.resets else ""
    )
    return (
        f"  {clock(one.from_s)} - {clock(one.to_s)}  {percent(one.total_hit_rate):>7}"
        f" of {short(one.queried):>9}{extra}"
    )


def _by_engine(r: MetricsReport) -> list[str]:
    if len(r.engines) < 2 and not any(
        one.resets or one.missing_scrapes or one.unusable_scrapes for one in r.engines
    ):
        return []
    lines = ["", "Engines (the rate above is the ratio of their sums)"]
    for one in r.engines[:MOST_ENGINES]:
        lines += _wrapped(
            f"{percent(one.total_hit_rate)} of {short(one.queried)}{_faults(one)} · {_named(one)}", "  "
        )
    if len(r.engines) > MOST_ENGINES:
        lines.append(f"  … and {len(r.engines) - MOST_ENGINES} more (--format json has all)")
    return lines


def _faults(one: EngineFigures) -> str:
    parts = (
        (one.resets, "restart"),
        (one.missing_scrapes, "missing scrape"),
        (one.unusable_scrapes, "unusable scrape"),
    )
    stopped = f" · no hit after {clock(one.stopped.after_s)}" if one.stopped else ""
    return "".join(f" · {counted(number, word)}" for number, word in parts if number) + stopped


def _named(one: EngineFigures) -> str:
    return printable(" ".join(f"{name}={value}" for name, value in one.labels.items())) or "(no labels)"


def _usage(r: MetricsReport) -> list[str]:
    if r.kv_usage is None:
        return []
    usage = r.kv_usage
    lines = _wrapped(
        f"KV usage {percent(usage.mean)} on average, {percent(usage.max)} at most: blocks held by running requests, a "
        "block counted whole however full; not what the cache holds."
    )
    if usage.zero_then_hit:
        scrapes = counted(usage.zero_then_hit, "scrape")
        lines += _wrapped(f"{scrapes} showed 0.0 % and hits followed: the cache was not empty.", "  ")
    return ["", *lines]


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=" " * max(len(indent), 2),
        break_on_hyphens=False,
    )
