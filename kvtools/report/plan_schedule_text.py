"""The report of ``plan schedule`` on a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kvtools.report.coverage import coverage_lines
from kvtools.report.numbers import counted, percent, seconds

if TYPE_CHECKING:
    from kvtools.report.plan_schedule import (
        ClassSchedule,
        ScheduleReport,
        Search,
        StepClock,
        SweepPoint,
        Times,
    )

WIDTH = 80


def render_schedule(report: ScheduleReport, again: str | None = None) -> str:
    """Return the report as text; ``again``: the command that made it, to build the next step from."""
    lines = textwrap.wrap(report.verdict.sentence, WIDTH, subsequent_indent="  ")
    for line in _basis(report):
        lines += textwrap.wrap(line, WIDTH, initial_indent="  ", subsequent_indent="    ")
    lines += ["", *_policies(report), *_limits(report)]
    lines += _mixes("Sweep", report.sweep)
    lines += _turning(report)
    lines += _mixes("Scenarios", report.scenarios)
    for search in report.search:
        lines += ["", *_search(search)]
    if report.notes:
        lines.append("")
    for note in report.notes:
        lines += textwrap.wrap(f"note: {note}", WIDTH, subsequent_indent="      ")
    if again is not None and not report.sweep:
        lines += ["", f"Next: {again} --sweep cold_share=0:0.4"]
    return "\n".join(lines) + "\n"


def _basis(report: ScheduleReport) -> list[str]:
    cache, engine = report.cache, report.engine
    size = "no limit" if cache.capacity_blocks is None else counted(cache.capacity_blocks, "block")
    lines = [
        (
            f"{counted(report.requests, 'request')} in {seconds(report.span_s)} · "
            f"{percent(report.cold_share)} cold by {report.classes_by}"
        ),
        f"simulated, not measured: {report.clock.described}",
    ]
    if report.clock.judged_requests:
        lines.append(_fit(report.clock))
    lines.append(
        f"KV {size}, block {cache.block_size} · {engine.max_num_seqs:,} seats, "
        f"{engine.max_num_batched_tokens:,} tokens a step · cold start"
    )
    return lines + coverage_lines(report.coverage, report.requests)


def _fit(clock: StepClock) -> str:
    pairs = (
        ("TTFT", clock.ttft_p50_error, clock.ttft_p99_error),
        ("latency", clock.latency_p50_error, clock.latency_p99_error),
    )
    told = [
        f"P50 {name} off by {100 * p50:+.0f} %, P99 by {100 * p99:+.0f} %"
        for name, p50, p99 in pairs
        if p50 is not None and p99 is not None
    ]
    return f"the fit on the other half ({counted(clock.judged_requests, 'request')}): {'; '.join(told)}"


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 9999.5:
        return f"{value:,.0f} ms"
    return f"{value / 1000:,.1f} s" if value < 999_950 else f"{value / 1000:,.0f} s"


def _policies(report: ScheduleReport) -> list[str]:
    rows = [
        (
            f"{'Policy':<12}{'class':<6}{'TTFT P50':>10}{'P99':>10}{'latency P99':>13}"
            f"{'tokens/s':>10}{'hits':>8}{'lost':>6}"
        )
    ]
    rows += [_policy(one) for one in report.schedule if one.name != "all"] or [
        _policy(one) for one in report.schedule
    ]
    swings = [
        f"{one.policy} {percent(one.kv_usage.p5)} … {percent(one.kv_usage.p95)}"
        for one in report.schedule
        if one.kv_usage is not None
    ]
    if swings:
        rows += textwrap.wrap(
            f"KV usage, 5th to 95th percentile of the time: {' · '.join(swings)}",
            WIDTH,
            subsequent_indent="  ",
        )
    return rows + _events(report)


def _policy(one: ClassSchedule) -> str:
    mark = " !" if one.within_limits is False else ""
    return (
        f"{one.policy:<12}{one.name:<6}{_ms(one.ttft_ms.p50):>10}{_ms(one.ttft_ms.p99):>10}"
        f"{_ms(one.latency_ms.p99):>13}{one.throughput_tokens_s:>10,.0f}{percent(one.hit_rate):>8}"
        f"{one.refused + one.killed:>6,}{mark}"
    )


def _events(report: ScheduleReport) -> list[str]:
    names = ("refused", "killed", "interrupted", "shortened", "promoted", "too_large", "moved")
    lines = []
    for one in report.schedule:
        found = [f"{getattr(one, name):,} {name.replace('_', ' ')}" for name in names if getattr(one, name)]
        if found and one.name != "all":
            lines += textwrap.wrap(f"{one.policy}, {one.name}: {', '.join(found)}", WIDTH)
    return lines


def _limits(report: ScheduleReport) -> list[str]:
    limits = ", ".join(f"{one.name} {one.p50_ms:g}/{one.p99_ms:g} ms" for one in report.limits)
    return [f"limits on TTFT, P50/P99: {limits}; !: breaks them", "lost: refused or killed"]


def _p99(times: Times) -> str:
    return _ms(times.p99)


def _mixes(title: str, points: list[SweepPoint]) -> list[str]:
    if not points:
        return []
    rows = [
        "",
        (
            f"{title:<13}{'cold':>7} {'policy':<12}{'hot P99':>9}{'cold P99':>9}"
            f"{'tokens/s':>9}{'hits':>7}{'KV':>7}{'lost':>6}"
        ),
    ]
    for one in points:
        usage = "-" if one.kv_usage is None else percent(one.kv_usage.p95)
        rows.append(
            f"{one.scenario or '':<13}{percent(one.cold_share):>7} {one.policy:<12}{_p99(one.hot_ttft_ms):>9}"
            f"{_p99(one.cold_ttft_ms):>9}{one.throughput_tokens_s:>9,.0f}{percent(one.hit_rate):>7}"
            f"{usage:>7}{one.refused + one.killed:>6,}{' *' if one.behind else ''}"
        )
    rows.append("P99 of TTFT; KV: usage not exceeded 95 % of the time; *: does not keep up")
    return rows


def _turning(report: ScheduleReport) -> list[str]:
    if not report.turning_points:
        return []
    rows = [
        "",
        f"{'Turning points':<16}{'falls behind':>14}{'hot over limit':>16}{'memory':>10}{'latency':>11}",
    ]
    for one in report.turning_points:
        behind, over = (
            "not reached" if share is None else f"{100 * share:.0f} % cold"
            for share in (one.throughput_cold_share, one.limit_cold_share)
        )
        memory = "-" if one.memory_usage is None else percent(one.memory_usage)
        rows.append(f"{one.policy:<16}{behind:>14}{over:>16}{memory:>10}{_ms(one.latency_ms):>11}")
    rows.append("for this traffic and clock; the article's figures are 15 %, 85 % and 200 ms")
    return rows


def _search(found: Search) -> list[str]:
    values = ", ".join(f"{name} {value:g}" for name, value in found.settings.items())
    lines = textwrap.wrap(
        f"Search  {found.policy}: {values} (best of {found.tries} on the first half, seed {found.seed}); on the "
        f"second half it {_score(found.score)}, fcfs {_score(found.fcfs_score)}",
        WIDTH,
        subsequent_indent=" " * 8,
    )
    rows = [f"  {_policy(one)}" for one in found.rows if one.name != "all"]
    return [*lines, *rows]


def _score(score: float) -> str:
    return "keeps every limit" if score <= 0 else f"is {score:,.2f} times over its limits"
