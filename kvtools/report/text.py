"""The report on a terminal: one page, the answer first, the next step last."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import msgspec
from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text

from kvtools.report.compare import differences, headline
from kvtools.report.coverage import coverage_lines
from kvtools.report.findings_text import findings_part, section_order_part
from kvtools.report.headline import Replayed, headline_of, replayed
from kvtools.report.heat_text import class_lines
from kvtools.report.layout import labelled
from kvtools.report.numbers import bars, blocks, counted, percent, period, ratio
from kvtools.report.phrases import made_of, prompt_tokens, size_of
from kvtools.report.routes_text import routes_table
from kvtools.report.sessions import session_lines
from kvtools.report.traffic_text import all_lengths, page_without_prompts, reported_lines
from kvtools.report.verdict_text import misses_line, verdict_lines
from kvtools.report.words import say, spoken, told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvtools.report.model import Cache, Report
    from kvtools.report.traffic import Period

WIDTH = 80
OTHER_CAUSES = (
    "below_block_floor", "engine_side", "flushed", "lookup_skipped", "metric_off", "namespaces_too_fine",
)  # fmt: skip
"""Verdicts that no change of the prompts would mend."""
FEW_SIZES = 4
SPOKEN_SHARE = 0.05


def render_text(
    report: Report,
    *,
    again: str | None = None,
    fix: str | None = None,
    color: bool = False,
    width: int = WIDTH,
    everything: bool = False,
    lang: str = "en",
) -> str:
    """Return the report as text in ``lang`` for a terminal ``width`` columns wide.

    ``again``: the command that made the report, to build the next step from; ``None`` leaves the step out. ``fix``:
    the command that makes the fixes. ``everything`` lists all findings, those that cost next to nothing too.

    Raises:
        UsageError: a language that reports are not written in.
    """
    page = io.StringIO()
    console = Console(file=page, width=width, force_terminal=color, no_color=not color, highlight=False)
    with spoken(lang):
        console.print(_page(report, everything=everything), soft_wrap=False)
        begin = say("Next: ")
    lines = [line.rstrip() for line in page.getvalue().splitlines()]
    if again is not None:
        # A command is not wrapped: it has to survive copy and paste.
        behind = " " * cell_len(begin)
        lines += ["", f"{begin}{again} {_next_option(report)}", *([f"{behind}{fix}"] if fix else [])]
    return "\n".join(lines) + "\n"


def _page(report: Report, *, everything: bool) -> RenderableType:
    found = replayed(report)
    if found is None:
        return _without_prompts(report)
    parts: list[RenderableType] = [
        Text(headline_of(found), style="bold"),
        *(Text(f"  {line}") for line in _basis(found)),
        Text(),
        *_verdict(report),
        *findings_part(report, everything=everything),
        *section_order_part(report),
        *(labelled(label, text) for label, text in _figures(found)),
        *_demand(report, found.cache),
        *_sessions(report),
        *_reported(report),
    ]
    if report.routes:
        parts += [Text(), routes_table(report)]
    if report.observed is not None:
        parts += [Text(), Text(headline(report.observed)), *map(Text, differences(report.observed))]
        parts += _not_compared(report)
    return Group(*parts)


def _without_prompts(report: Report) -> RenderableType:
    """Return the page; it names what a log cannot answer, which without prompts goes without saying of findings."""
    order = section_order_part(report)
    said = [answer for answer in report.answers if answer.name not in ("findings", "section_order")]
    page = page_without_prompts(msgspec.structs.replace(report, answers=said))
    return Group(page, Text(), *order) if order else page


def _verdict(report: Report) -> list[RenderableType]:
    """Say why the rate is what it is, where it is not the prompts: they have the findings."""
    if report.verdict is None or report.verdict.kind not in OTHER_CAUSES:
        return []
    return [*map(Text, verdict_lines(report.verdict)), Text()]


def _when(covered: Period) -> str:
    return period(covered.first_us, covered.last_us, covered.utc_offset_min)


def _basis(found: Replayed) -> list[str]:
    report, cache, settings = found.report, found.cache, found.report.settings
    when = f" · {_when(report.period)}" if report.period else ""
    lines = [
        f"{counted(report.requests, 'request')} · {prompt_tokens(found.tokens.total)}{when}",
        made_of(settings),
        say(
            "{model}, block {size}, {rules} rules",
            model=told(cache.model),
            size=f"{cache.block_size:,}",
            rules=told(cache.rules),
        )
        + f" · {size_of(cache.capacity_blocks)}",
        f"{say('{state} start', state=told(cache.start_state))} · {say('one request at a time')}",
    ]
    if settings.measure_from:
        begun = percent(settings.measure_from)
        lines.append(say("counted after the first {part} of the log, which only fills the cache", part=begun))
    if report.traffic.requests > report.requests and report.traffic.prompt_tokens is not None:
        requests = counted(report.traffic.requests, "request")
        lines.append(
            say("in all, with and without prompt: {requests}", requests=requests)
            + f" · {prompt_tokens(report.traffic.prompt_tokens.total)}"
        )
    return lines + coverage_lines(report.coverage, report.requests)


def _figures(found: Replayed) -> list[tuple[str, str]]:
    report, tokens, similar = found.report, found.tokens, found.similarity
    sampled = report.variable_share_requests
    lengths = say(
        "{mean} ± {std} tokens (p95 {p95}, max {max})",
        mean=f"{tokens.mean:,.0f}",
        std=f"{tokens.std:,.0f}",
        p95=f"{tokens.p95:,.0f}",
        max=f"{tokens.max:,}",
    )
    if report.variable_share is not None:
        lengths += " · " + say("variable {part}", part=percent(report.variable_share))
    if report.variable_share is not None and sampled < report.requests:
        lengths += " " + say("(of {count} requests)", count=f"{sampled:,}")
    return [
        (say("Prompts"), lengths),
        *all_lengths(report.traffic, report.requests),
        (say("Consecutive"), _consecutive(found)),
        (
            say("Nearest"),
            say(
                "best prefix Jaccard in the 1,000 before: p50 {p50}, p90 {p90}",
                p50=ratio(similar.nearest_prefix_p50),
                p90=ratio(similar.nearest_prefix_p90),
            ),
        ),
        *_misses(report),
        *class_lines(report),
        *_cache_needed(found),
    ]


def _consecutive(found: Replayed) -> str:
    similar = found.similarity
    prefix = ratio(similar.prefix_jaccard_consecutive)
    if similar.jaccard_consecutive is None:
        return say("Jaccard {prefix} of prefix", prefix=prefix)
    text = ratio(similar.jaccard_consecutive)
    # Requests of several routes take turns: what is healthy can be said of one route only.
    if len(found.report.routes) > 1:
        return say("Jaccard {text} of text, {prefix} of prefix", text=text, prefix=prefix)
    return say("Jaccard {text} of text (> 0.6 is healthy), {prefix} of prefix", text=text, prefix=prefix)


def _misses(report: Report) -> list[tuple[str, str]]:
    line = None if report.misses is None else misses_line(report.misses)
    return [] if line is None else [(say("Misses"), line)]


def _cache_needed(found: Replayed) -> list[tuple[str, str]]:
    if not found.ceiling.hit_tokens or not found.report.curve:
        return []
    need = {round(100 * n.share_of_ceiling): n.capacity_blocks for n in found.report.cache_needed}
    needed = say(
        "90 % of the ceiling's hits fit in {most}, 99 % in {nearly_all}",
        most=counted(need[90], "block"),
        nearly_all=f"{need[99]:,}",
    )
    return [(say("Cache needed"), needed), *_curve(found)]


def _curve(found: Replayed) -> list[tuple[str, str]]:
    """Return a few sizes with their rates, many as bars with the cache's own size marked."""
    points, size = found.report.curve, found.cache.capacity_blocks
    if len(points) <= FEW_SIZES:
        rates = " · ".join(
            say("{rate} at {size}", rate=percent(point.hit_rate), size=f"{point.capacity_blocks:,}")
            for point in points
        )
        return [("", say("LRU: {rates} blocks", rates=rates))]
    shape = bars([point.hit_rate or 0 for point in points])
    first, last = blocks(points[0].capacity_blocks), blocks(points[-1].capacity_blocks)
    rows = [("", f"{shape}  {say('LRU, {first} … {last} blocks', first=first, last=last)}")]
    if size is not None:
        before = sum(point.capacity_blocks <= size for point in points)
        here = say("{size}: the pool's own figure is the headline", size=counted(size, "block"))
        rows.append(("", f"{'^':>{max(before, 1)}} {here}"))
    return rows


def _demand(report: Report, cache: Cache) -> list[RenderableType]:
    demand, capacity = report.demand, cache.capacity_blocks
    if demand is None or not demand.stretches or capacity is None:
        return []
    return [
        labelled(
            say("In flight"),
            say(
                "up to {peak} blocks were needed of {capacity}, too many for {time} s: "
                "there the hit rate is not about prompts",
                peak=f"{demand.peak_blocks:,}",
                capacity=f"{capacity:,}",
                time=f"{demand.over_capacity_us / 1e6:,.0f}",
            ),
        )
    ]


def _sessions(report: Report) -> list[RenderableType]:
    figures = report.sessions
    # A few prompts that happen to extend each other are no conversations worth a line.
    if figures is None or not (figures.by_id or figures.requests >= SPOKEN_SHARE * report.requests):
        return []
    lines = session_lines(figures)
    return [labelled("" if index else say("Conversations"), line) for index, line in enumerate(lines)]


def _reported(report: Report) -> list[RenderableType]:
    """Return what the server reported where it is not compared with what was replayed."""
    reported = report.traffic.reported
    if reported is None or (report.observed is not None and not reported.hosted_requests):
        return []
    return [labelled(label, text) for label, text in reported_lines(reported)]


def _not_compared(report: Report) -> list[RenderableType]:
    compared = report.observed
    if compared is None:
        return []
    left = report.requests - compared.equal_requests - compared.different_requests
    if not left:
        return []
    return [
        Text("  " + say("{requests} left out: one side has no figure", requests=counted(left, "request")))
    ]


def _next_option(report: Report) -> str:
    """Return what to add to the command: the cache's size where none was given, else the form with all figures."""
    found = replayed(report)
    if found is not None and found.cache.capacity_blocks is None and found.ceiling.hit_tokens:
        enough = next(n.capacity_blocks for n in report.cache_needed if n.share_of_ceiling == 0.9)
        return f"--capacity-blocks {enough}"
    return "--format json"
