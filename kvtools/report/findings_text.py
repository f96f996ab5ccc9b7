"""The findings on a terminal: what breaks the prefix, dearest first, and what the fixes reach together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from kvtools.report.cost import money
from kvtools.report.layout import labelled
from kvtools.report.numbers import percent
from kvtools.report.words import say, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from kvtools.report.findings import Finding
    from kvtools.report.model import Report

SHOWN = 10


def within_reach(report: Report, now: str) -> str:
    """Say the hit rate and what fixes would reach: nothing where the engine itself reuses nothing."""
    reached = report.reachable
    if reached is None or not reached.fixes or not _prompts_can_help(report):
        return say("{now} of prompt tokens hit the prefix cache (unlimited, cold start).", now=now)
    return say(
        "{now} of prompt tokens hit the prefix cache; {most} are within reach.",
        now=now,
        most=percent(reached.hit_rate),
    )


def findings_part(report: Report, *, everything: bool) -> list[RenderableType]:
    """Return the table of findings: the first ten that are worth advice, or all of them, and an empty line."""
    findings = report.findings
    if findings is None or report.cache is None or not _prompts_can_help(report):
        return []
    listed = [f for f in findings if everything or f.severity != "info"]
    shown = listed if everything else listed[:SHOWN]
    more = len(findings) - len(shown)
    hint = "  " + say("{count} more with --all", count=f"{more:,}") if more else ""
    if not shown:
        note = say("Nothing that varies in front of stable text costs a tenth of a point.")
        return [Text(note), *_lines(hint), Text()]
    together = any(finding.only_together for finding in shown)
    added = (
        "   " + say("+ pt: nothing alone; what it adds to the other fixes of its cluster") if together else ""
    )
    lines = (_reached(report), added, f"   {told(report.cost_basis)}" if report.cost_basis else "", hint)
    return [_table(report, shown), *(Text(line) for line in lines if line), Text()]


def section_order_part(report: Report) -> list[RenderableType]:
    """Return the advised order of sections where it gains a tenth of a point, labelled, and nothing else."""
    found = report.section_order
    if found is None or not found.moves:
        return []
    now, then = percent(found.hit_rate_current), percent(found.hit_rate_advised)
    moves = f"{say('; ').join(map(told, found.moves))}: {now} → {then}"
    if found.counted_by == "components":
        moves += " " + say("of the components' tokens (whole components, not vLLM's blocks)")
    lines = [moves]
    if found.best != found.advised:
        best, tried = percent(found.hit_rate_best), f"{found.orders_tried:,}"
        lines.append(
            say("best of {count} orders: {best}, in more moves than that is worth", count=tried, best=best)
        )
    if found.sampled < found.requests:
        sampled, requests = f"{found.sampled:,}", f"{found.requests:,}"
        lines.append(say("searched on {sampled} of {requests} requests", sampled=sampled, requests=requests))
    return [labelled("" if number else say("Section order"), line) for number, line in enumerate(lines)]


def _prompts_can_help(report: Report) -> bool:
    return report.verdict is None or report.verdict.prompts_can_help


def _table(report: Report, shown: Sequence[Finding]) -> Table:
    numbers = {f.id: number for number, f in enumerate(shown, 1)}
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("", justify="right", width=2)
    table.add_column(say("What breaks the prefix"), no_wrap=True, overflow="ellipsis", max_width=23)
    table.add_column(say("where"), no_wrap=True, overflow="ellipsis", max_width=19)
    table.add_column(say("cluster"), no_wrap=True, overflow="ellipsis", max_width=16)
    table.add_column(say("lost"), justify="right", no_wrap=True)
    table.add_column(say("if fixed"), justify="right", no_wrap=True)
    priced = report.cost_basis is not None
    if priced:
        table.add_column(say("cost"), justify="right", no_wrap=True)
    for place, finding in enumerate(shown):
        table.add_row(
            str(place + 1),
            Text(named(finding)),
            _where(finding),
            Text(f"{finding.cluster} {finding.route or ''}".strip()),
            "-" if finding.tokens_lost is None else f"{finding.tokens_lost:,}",
            if_fixed(finding),
            *([_cost(finding)] if priced else []),
        )
        if place + 1 == len(shown) or shown[place + 1].cluster != finding.cluster:
            together = _together(report, finding.cluster, numbers)
            if together is not None:
                table.add_row("", together[0], "", "", "", percent(together[1]))
    return table


def _where(finding: Finding) -> str:
    section = say(finding.section.removesuffix(" message"))
    if finding.position_chars is None:
        return section
    return say("{section}, char {place}", section=section, place=f"{finding.position_chars:,}")


def if_fixed(finding: Finding) -> str:
    """Return the rate of the fix alone; where it pays only with the others, the points that it adds to them."""
    if finding.only_together:
        return say("{points} pt", points=f"+{100 * finding.gain:.1f}")
    return percent(finding.hit_rate_if_fixed)


def _cost(finding: Finding) -> str:
    return money(finding.cost_per_million_requests if finding.cost_per_day is None else finding.cost_per_day)


def what(finding: Finding) -> str:
    """Return the English name of a finding for people: its fields, or its kind."""
    if finding.kind == "fields":
        return ", ".join(field.name.replace("_", " ") for field in finding.fields)
    name = finding.fields[0].name if finding.fields and finding.kind in {"text", "number"} else finding.kind
    what = name.replace("_", " ")
    return f"{what} ({finding.granularity})" if finding.granularity else what


def named(finding: Finding) -> str:
    """Return the name of a finding for people, in the language that is spoken."""
    if finding.kind == "fields":
        return say(", ").join(told(field.name.replace("_", " ")) for field in finding.fields)
    return told(what(finding))


def _together(report: Report, cluster: str, numbers: dict[str, int]) -> tuple[str, float | None] | None:
    """Return the fixes of a cluster that pay together, where they are several."""
    of = next((c for c in report.clusters if c.name == cluster), None)
    listed = sorted(numbers[one] for one in of.fixes if one in numbers) if of else []
    if of is None or len(listed) < 2:
        return None
    return say("{fixes} together", fixes=" + ".join(map(str, listed))), of.hit_rate_if_fixed


def _reached(report: Report) -> str:
    if report.reachable is None or report.cache is None or len(report.reachable.fixes) < 2:
        return ""
    fixes = sum(len(step.findings) for step in report.reachable.fixes)
    now, then = percent(report.cache.hit_rate), percent(report.reachable.hit_rate)
    return "   " + say("all {count} together: {now} → {then}", count=fixes, now=now, then=then)


def _lines(line: str) -> list[Text]:
    return [Text(line)] if line else []
