"""The report on a terminal: one page, the answer first, the next step last."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kvtools.report.compare import differences, headline
from kvtools.report.numbers import bars, blocks, counted, percent, period, ratio, short
from kvtools.report.sessions import session_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvtools.report.model import Period, Report

WIDTH = 80
ROUTES_SHOWN = 10
FEW_SIZES = 4
SPOKEN_SHARE = 0.05
_LABEL_CHARS = 15


def render_text(report: Report, *, again: str | None = None, color: bool = False, width: int = WIDTH) -> str:
    """Return the report as text for a terminal ``width`` columns wide.

    ``again``: the command that made the report, to build the next step from; ``None`` leaves the step out.
    """
    page = io.StringIO()
    console = Console(file=page, width=width, force_terminal=color, no_color=not color, highlight=False)
    console.print(_page(report), soft_wrap=False)
    lines = [line.rstrip() for line in page.getvalue().splitlines()]
    if again is not None:
        # A command is not wrapped: it has to survive copy and paste.
        lines += ["", f"Next: {again} {_next_option(report)}"]
    return "\n".join(lines) + "\n"


def _page(report: Report) -> RenderableType:
    parts: list[RenderableType] = [
        Text(_headline(report), style="bold"),
        *(Text(f"  {line}") for line in _basis(report)),
        Text(),
        *(_labelled(label, text) for label, text in _figures(report)),
        *_demand(report),
        *_sessions(report),
    ]
    if report.routes:
        parts += [Text(), _routes(report)]
    if report.observed is not None:
        parts += [Text(), Text(headline(report.observed)), *map(Text, differences(report.observed))]
    return Group(*parts)


def _headline(report: Report) -> str:
    cache, ceiling = report.cache, report.ceiling
    if not ceiling.hit_tokens:
        return (
            f"0.0 % hit rate: no two prompts share their first block of {cache.block_size:,} tokens; "
            "no cache, however large, could hit."
        )
    size = counted(cache.capacity_blocks or 0, "block")
    if cache.refused_requests:
        return _headline_with_refused(report, size)
    now = f"{percent(cache.hit_rate)} of prompt tokens hit"
    if cache.capacity_blocks is None:
        return f"{now} the prefix cache (unlimited, cold start)."
    if not cache.hit_tokens:
        return f"0.0 % hit rate in {size}: too small for this traffic; {percent(ceiling.hit_rate)} without a limit."
    return f"{now} in {size}; {percent(ceiling.hit_rate)} in an unlimited cache."


def _headline_with_refused(report: Report, size: str) -> str:
    """Say first that the figure is about some of the requests: the larger ones never run in this cache."""
    cache = report.cache
    if not cache.queried_tokens:
        return f"No request fits into {size}: nothing would run. {percent(report.ceiling.hit_rate)} without a limit."
    return (
        f"{cache.refused_requests:,} of {report.requests:,} requests do not fit into {size} and are refused; "
        f"{percent(cache.hit_rate)} of the others' prompt tokens hit."
    )


def _when(covered: Period) -> str:
    return period(covered.first_us, covered.last_us, covered.utc_offset_min)


def _basis(report: Report) -> list[str]:
    cache, settings = report.cache, report.settings
    when = f" · {_when(report.period)}" if report.period else ""
    size = "unlimited cache" if cache.capacity_blocks is None else counted(cache.capacity_blocks, "block")
    template = "" if settings.tokenizer_check == "not needed" else f", {settings.chat_template} template"
    lines = [
        f"{counted(report.requests, 'request')} · {short(report.prompt_tokens.total)} prompt tokens{when}",
        f"{settings.tokenizer}{template}",
        f"{cache.model}, block {cache.block_size:,}, {cache.rules} rules · {size}",
        f"{cache.start_state} start · one request at a time",
    ]
    if settings.measure_from:
        begun = percent(settings.measure_from)
        lines.append(f"counted after the first {begun} of the log, which only fills the cache")
    return lines + _coverage(report)


def _coverage(report: Report) -> list[str]:
    coverage = report.coverage
    gone = (
        (coverage.rejected, "rejected"),
        (coverage.without_prompt, "without prompt"),
        (coverage.duplicates, "duplicates"),
    )
    lines = [f"read {coverage.read:,} records: " + ", ".join(f"{count:,} {what}" for count, what in gone)]
    if 2 * coverage.rejected > coverage.read:
        lines.insert(0, f"ONLY {percent(report.requests / coverage.read)} OF THE RECORDS COULD BE USED")
    if coverage.rejected:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in coverage.rejected_by_reason.items())
        lines.append(f"rejected: {reasons} (--rejects FILE lists them)")
    if coverage.not_sent:
        lines.append(f"{counted(coverage.not_sent, 'record')} never reached an engine: no lookup")
    if coverage.repaired_lines:
        faults = ", ".join(f"{fault} {count:,}" for fault, count in coverage.repaired_lines.items())
        lines.append(f"read although damaged: {faults}")
    if coverage.skipped_files:
        lines.append(f"{counted(len(coverage.skipped_files), 'file')} skipped: no known format")
    return lines


def _figures(report: Report) -> list[tuple[str, str]]:
    tokens, similar, sampled = report.prompt_tokens, report.similarity, report.variable_share_requests
    lengths = f"{tokens.mean:,.0f} ± {tokens.std:,.0f} tokens (p95 {tokens.p95:,.0f}, max {tokens.max:,})"
    if report.variable_share is not None:
        lengths += f" · variable {percent(report.variable_share)}"
    if report.variable_share is not None and sampled < report.requests:
        lengths += f" (of {sampled:,} requests)"
    consecutive = f"{ratio(similar.prefix_jaccard_consecutive)} of prefix"
    if similar.jaccard_consecutive is not None:
        # Requests of several routes take turns: what is healthy can be said of one route only.
        healthy = "" if len(report.routes) > 1 else " (> 0.6 is healthy)"
        consecutive = f"{ratio(similar.jaccard_consecutive)} of text{healthy}, {consecutive}"
    nearest = f"p50 {ratio(similar.nearest_prefix_p50)}, p90 {ratio(similar.nearest_prefix_p90)}"
    return [
        ("Prompts", lengths),
        ("Consecutive", f"Jaccard {consecutive}"),
        ("Nearest", f"best prefix Jaccard in the 1,000 before: {nearest}"),
        *_cache_needed(report),
    ]


def _cache_needed(report: Report) -> list[tuple[str, str]]:
    if not report.ceiling.hit_tokens or not report.curve:
        return []
    need = {round(100 * n.share_of_ceiling): n.capacity_blocks for n in report.cache_needed}
    needed = f"90 % of the ceiling's hits fit in {counted(need[90], 'block')}, 99 % in {need[99]:,}"
    return [("Cache needed", needed), *_curve(report)]


def _curve(report: Report) -> list[tuple[str, str]]:
    """Return a few sizes with their rates, many as bars with the cache's own size marked."""
    points, size = report.curve, report.cache.capacity_blocks
    if len(points) <= FEW_SIZES:
        rates = " · ".join(f"{percent(point.hit_rate)} at {point.capacity_blocks:,}" for point in points)
        return [("", f"LRU: {rates} blocks")]
    shape = bars([point.hit_rate or 0 for point in points])
    rows = [
        (
            "",
            f"{shape}  LRU, {blocks(points[0].capacity_blocks)} … {blocks(points[-1].capacity_blocks)} blocks",
        )
    ]
    if size is not None:
        before = sum(point.capacity_blocks <= size for point in points)
        rows.append(
            ("", f"{'^':>{max(before, 1)}} {counted(size, 'block')}: the pool's own figure is the headline")
        )
    return rows


def _labelled(label: str, text: str) -> RenderableType:
    grid = Table.grid(padding=0)
    grid.add_column(width=_LABEL_CHARS)
    grid.add_column()
    grid.add_row(Text(label), Text(text))
    return grid


def _demand(report: Report) -> list[RenderableType]:
    demand, capacity = report.demand, report.cache.capacity_blocks
    if demand is None or not demand.stretches or capacity is None:
        return []
    return [
        _labelled(
            "In flight",
            f"up to {demand.peak_blocks:,} blocks were needed of {capacity:,}, too many for "
            f"{demand.over_capacity_us / 1e6:,.0f} s: there the hit rate is not about prompts",
        )
    ]


def _sessions(report: Report) -> list[RenderableType]:
    figures = report.sessions
    # A few prompts that happen to extend each other are no conversations worth a line.
    if figures is None or not (figures.by_id or figures.requests >= SPOKEN_SHARE * report.requests):
        return []
    lines = session_lines(figures)
    return [_labelled("" if index else "Conversations", line) for index, line in enumerate(lines)]


def _routes(report: Report) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("Route", overflow="ellipsis", no_wrap=True, max_width=24)
    for name in ("requests", "tokens", "hit rate", "ceiling", "variable", "Jaccard"):
        table.add_column(name, justify="right", no_wrap=True)
    for route in report.routes[:ROUTES_SHOWN]:
        table.add_row(
            Text(" ".join(route.route.split())),
            f"{route.requests:,}",
            short(route.prompt_tokens.total),
            percent(route.cache.hit_rate),
            percent(route.ceiling.hit_rate),
            percent(route.variable_share),
            ratio(route.similarity.jaccard_consecutive),
        )
    more = len(report.routes) - ROUTES_SHOWN
    without = report.requests - sum(route.requests for route in report.routes)
    notes = [f"  and {more:,} more (--format json lists all)"] if more > 0 else []
    notes += [f"  and {counted(without, 'request')} without a route"] if without else []
    return Group(table, *map(Text, notes))


def _next_option(report: Report) -> str:
    """Return what to add to the command: the cache's size where none was given, else the form with all figures."""
    if report.cache.capacity_blocks is None and report.ceiling.hit_tokens:
        enough = next(n.capacity_blocks for n in report.cache_needed if n.share_of_ceiling == 0.9)
        return f"--capacity-blocks {enough}"
    return "--format json"
