"""The page on a log without prompts, and the lines on traffic that every page has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from kvtools.report.coverage import coverage_lines
from kvtools.report.heat_text import class_lines
from kvtools.report.layout import labelled
from kvtools.report.numbers import counted, percent, period, seconds
from kvtools.report.phrases import prompt_tokens
from kvtools.report.words import phrase, say, told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvtools.report.model import Report
    from kvtools.report.traffic import Lengths, Reported, Traffic

_HOW_TO_LOG_PROMPTS = phrase(
    "To replay it, log prompts too: at the gateway (LiteLLM: store_prompts_in_spend_logs), or by vLLM "
    "(--enable-log-requests at log level DEBUG)."
)

_NAMES = {
    "hit_rate": phrase("hit rate, ceiling, cache size"),
    "similarity_of_text": phrase("similarity"),
    "routes": phrase("routes"),
    "conversations": phrase("conversations"),
    "predicted_against_reported": phrase("predicted against reported"),
    "demand_in_flight": phrase("blocks in flight"),
    "arrivals": phrase("arrivals"),
    "prompt_lengths": phrase("prompt lengths"),
    "output_lengths": phrase("output lengths"),
    "reported_hit_rate": phrase("hit rate as reported"),
}


def page_without_prompts(report: Report) -> RenderableType:
    """Return the page on a log without prompts: what it cannot answer first, what it says, what to do."""
    lines = _basis_without_prompts(report) + coverage_lines(report.coverage, report.traffic.requests)
    said = [*_traffic_lines(report.traffic), *class_lines(report)]
    figures = [labelled(label, text) for label, text in said]
    return Group(
        Text(headline_without_prompts(report), style="bold"),
        *(Padding(Text(line), (0, 0, 0, 2)) for line in lines),
        *([Text(), *figures] if figures else []),
        Text(),
        Text(say("What this log cannot answer")),
        *(Padding(Text(line), (0, 0, 0, 2)) for line in _missing_lines(report)),
        Text(),
        Text(say(_HOW_TO_LOG_PROMPTS)),
    )


def headline_without_prompts(report: Report) -> str:
    """Say in one sentence what cannot be answered, and what the log says instead."""
    reported = report.traffic.reported
    if reported is not None and reported.hit_rate is not None:
        instead = say("the server reported {rate} hit", rate=percent(reported.hit_rate))
    else:
        parts = ("arrivals", "prompt_lengths", "output_lengths")
        there = [
            say(_NAMES[a.name]) for name in parts for a in report.answers if a.name == name and a.supported
        ]
        named = say(" and ").join((", ".join(there[:-1]), there[-1]) if there[1:] else there)
        instead = say("it has {parts}", parts=named)
    return say("This log has no prompts: hit rates cannot be replayed from it; {instead}.", instead=instead)


def _basis_without_prompts(report: Report) -> list[str]:
    """Return the lines under the headline."""
    traffic = report.traffic
    line = counted(traffic.requests, "request")
    if traffic.prompt_tokens is not None:
        line += f" · {prompt_tokens(traffic.prompt_tokens.total)}"
    return [line + _when(traffic)]


def _when(traffic: Traffic) -> str:
    """Return `` · `` and the time that the requests cover, nothing where no time is known."""
    covered = traffic.period
    return f" · {period(covered.first_us, covered.last_us, covered.utc_offset_min)}" if covered else ""


def _traffic_lines(traffic: Traffic) -> list[tuple[str, str]]:
    """Return labels and figures: arrivals, lengths, hits as reported."""
    found = []
    gaps = traffic.interarrival_s
    if gaps is not None:
        rate = say("{rate} a second", rate=f"{traffic.rate_per_s:,.3g}") + " · " if traffic.rate_per_s else ""
        after = say(
            "next after {p50} (p50), {p95} (p95), {max} (max)",
            p50=seconds(gaps.p50),
            p95=seconds(gaps.p95),
            max=seconds(gaps.max),
        )
        found.append((say("Arrivals"), rate + after))
    for label, lengths in ((say("Prompts"), traffic.prompt_tokens), (say("Outputs"), traffic.output_tokens)):
        if lengths is not None:
            found.append((label, _lengths(lengths, traffic.requests)))
    if traffic.reported is not None:
        found += reported_lines(traffic.reported)
    return found


def all_lengths(traffic: Traffic, prompts: int) -> list[tuple[str, str]]:
    """Return the lengths of all requests, as logged, where some have no prompt; nothing where all have one."""
    if traffic.prompt_tokens is None or traffic.requests == prompts:
        return []
    return [(say("All, as logged"), _lengths(traffic.prompt_tokens, traffic.requests))]


def reported_lines(reported: Reported) -> list[tuple[str, str]]:
    """Return, labelled, what the server said of its hits, with how many requests it is about."""
    lines = [
        say(
            "{rate} hit: {cached} of {prompt} prompt tokens",
            rate=percent(reported.hit_rate),
            cached=f"{reported.cached_tokens:,}",
            prompt=f"{reported.prompt_tokens:,}",
        )
    ]
    notes = (
        (reported.requests, phrase("of {requests}, as the server reported them, not replayed")),
        (reported.left_out_requests, phrase("{requests} left out: no figure for one side or both")),
        (reported.hosted_requests, phrase("{requests} of a hosted service: its cache is not vLLM's")),
        (
            reported.off_grid_requests,
            phrase("{requests} off that service's steps: another server may have answered"),
        ),
    )
    for place, (count, note) in enumerate(notes):
        if count or not place:
            lines.append(say(note, requests=counted(count, "request")))
    return [("" if index else say("Reported"), line) for index, line in enumerate(lines)]


def _missing_lines(report: Report) -> list[str]:
    """Return a line per cause that answers are missing for."""
    causes: dict[str, list[str]] = {}
    for answer in report.answers:
        if not answer.supported:
            causes.setdefault(answer.why, []).append(say(_NAMES[answer.name]))
    return [f"{say(', ').join(names)}{say(': ')}{told(why)}" for why, names in causes.items()]


def _lengths(lengths: Lengths, requests: int) -> str:
    figures = say(
        "{mean} ± {std} tokens (p50 {p50}, p95 {p95}, max {max})",
        mean=f"{lengths.mean:,.0f}",
        std=f"{lengths.std:,.0f}",
        p50=f"{lengths.p50:,.0f}",
        p95=f"{lengths.p95:,.0f}",
        max=f"{lengths.max:,}",
    )
    if lengths.requests == requests:
        return figures
    some = say("{count} of {requests} requests", count=f"{lengths.requests:,}", requests=f"{requests:,}")
    return f"{figures} · {some}"
