"""The report of ``plan sizing`` on a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kvtools.report.coverage import coverage_lines
from kvtools.report.numbers import bars, counted, percent, short

if TYPE_CHECKING:
    from kvtools.report.plan_sizing import ArticleFormula, SizingReport

WIDTH = 80
_LABEL = 16


def render_sizing(report: SizingReport, again: str | None = None) -> str:
    """Return the report as text; ``again``: the command that made it, to build the next step from."""
    lines = [_headline(report), *(f"  {line}" for line in _basis(report)), ""]
    lines += [*_sizes(report), *_current(report), *_working(report), *_offload(report), *_formulas(report)]
    if again is not None and report.sizing and report.current is None:
        enough = next(size.capacity_blocks for size in report.sizing if size.share_of_ceiling == 0.9)
        lines += ["", f"Next: {again} --capacity-blocks {enough}"]
    return "\n".join(lines) + "\n"


def _gib(gib: float | None) -> str:
    return "" if gib is None else f" ({gib:,.2f} GiB)"


def _headline(report: SizingReport) -> str:
    if not report.sizing:
        return "0.0 % of prompt tokens can hit: no prompt begins with a block of an earlier one."
    need = next(size for size in report.sizing if size.share_of_ceiling == 0.9)
    blocks = counted(need.capacity_blocks, "block")
    return f"90 % of the hits within reach take {blocks}{_gib(need.gib)}: {percent(need.hit_rate)} hit rate."


def _basis(report: SizingReport) -> list[str]:
    cache, kv = report.cache, report.kv
    lines = [
        f"{counted(report.requests, 'request')} · {short(report.prompt_tokens)} prompt tokens",
        f"{report.settings.tokenizer} · block {cache.block_size}, {cache.rules} rules",
        (
            "cold start · one request at a time · ceiling "
            f"{percent(report.ceiling.hit_rate)} with {counted(report.unique_blocks, 'block')}"
        ),
    ]
    if kv is not None:
        lines.append(
            f"{kv.attention}: {kv.bytes_per_token:,} bytes of KV a token, {kv.bytes_per_block / 2**20:,.3g} MiB a block"
        )
    return lines + coverage_lines(report.coverage, report.requests)


def _sizes(report: SizingReport) -> list[str]:
    if not report.sizing:
        return []
    rows = [f"{'Share of hits':<{_LABEL}}{'blocks':>12}{'GiB':>10}{'hit rate':>11}{'best order':>13}"]
    for size in report.sizing:
        gib = "-" if size.gib is None else f"{size.gib:,.2f}"
        rows.append(
            f"{f'{100 * size.share_of_ceiling:.0f} %':<{_LABEL}}{size.capacity_blocks:>12,}{gib:>10}"
            f"{percent(size.hit_rate):>11}{percent(size.optimal_hit_rate):>13}"
        )
    rows.append("best order: what the optimal offline order of eviction would hit in that cache")
    if report.sizing[0].capacity_blocks == report.largest_prompt_blocks > 1:
        rows.append(f"a cache below {report.largest_prompt_blocks:,} blocks refuses the longest prompt")
    mean = report.mean_prompt_blocks
    rows.append(f"each further request in flight holds its own blocks besides: {mean:,.0f} in the mean")
    return rows


def _current(report: SizingReport) -> list[str]:
    now = report.current
    if now is None:
        return []
    size = f"{counted(now.capacity_blocks, 'block')}{_gib(now.gib)}"
    lines = [
        f"{'This cache':<{_LABEL}}{size}: {percent(now.hit_rate)}; best order {percent(now.optimal_hit_rate)}"
    ]
    if now.refused_requests:
        lines.append(f"{'':<{_LABEL}}{counted(now.refused_requests, 'lookup')} refused: larger than it")
    return lines


def _working(report: SizingReport) -> list[str]:
    working = report.working_set
    shape = bars([float(window.touched_blocks) for window in working.windows])
    most = max((window.touched_blocks for window in working.windows), default=0)
    return [
        (
            f"{'Working set':<{_LABEL}}{shape}  up to {counted(most, 'block')} touched in one of "
            f"{counted(len(working.windows), 'stretch', 'stretches')}"
        ),
        (
            f"{'':<{_LABEL}}at most {counted(working.peak_live_blocks, 'block')}{_gib(working.peak_live_gib)} "
            "were waiting to be used again"
        ),
    ]


def _offload(report: SizingReport) -> list[str]:
    if not report.offload:
        return [f"{'Offload tier':<{_LABEL}}give --capacity-blocks or --kv-memory to see what one would add"]
    rows = [f"{'Offload tier':<{_LABEL}}{'blocks':>12}{'GiB':>10}{'copies':>11}{'victims':>13}"]
    for tier in report.offload:
        gib = "-" if tier.gib is None else f"{tier.gib:,.2f}"
        rows.append(
            f"{'':<{_LABEL}}{tier.blocks:>12,}{gib:>10}{percent(tier.copies_hit_rate):>11}"
            f"{percent(tier.victims_hit_rate):>13}"
        )
    return [
        *rows,
        "either tier's hits, LRU: it copies every block (as vLLM's own), or takes victims",
    ]


def _formulas(report: SizingReport) -> list[str]:
    lines = ["", f"{'Rules of thumb':<20}{'the rule gives':>20}{'this log':>14}"]
    for formula in report.formulas:
        if formula.measured is None and formula.low is None:
            lines += textwrap.wrap(
                f"{formula.name:<20}{formula.why}",
                WIDTH,
                subsequent_indent=" " * 20,
                replace_whitespace=False,
            )
            continue
        lines.append(f"{formula.name:<20}{_given(formula):>20}{_figure(formula.measured, formula.unit):>14}")
        lines += textwrap.wrap(formula.why, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return lines


def _given(formula: ArticleFormula) -> str:
    low, high = (_figure(value, formula.unit) for value in (formula.low, formula.high))
    return low if low == high else f"{low} … {high}"


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "n/a"
    if unit == "share":
        return percent(value)
    return f"{value:,.2f}" if unit == "ratio" or value < 10 else f"{value:,.0f}"
