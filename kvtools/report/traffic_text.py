"""The page on a log without prompts, and the lines on traffic that every page has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from kvtools.report.coverage import coverage_lines
from kvtools.report.heat_text import class_lines
from kvtools.report.layout import labelled
from kvtools.report.numbers import counted, percent, period, seconds, short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kvtools.report.model import Report
    from kvtools.report.traffic import Lengths, Reported, Traffic

_HOW_TO_LOG_PROMPTS = (
    "To replay it, log prompts too: at the gateway (LiteLLM: store_prompts_in_spend_logs), or by vLLM "
    "(--enable-log-requests at log level DEBUG)."
)

_NAMES = {
    "hit_rate": "hit rate, ceiling, cache size",
    "similarity_of_text": "similarity",
    "routes": "routes",
    "conversations": "conversations",
    "predicted_against_reported": "predicted against reported",
    "demand_in_flight": "blocks in flight",
    "arrivals": "arrivals",
    "prompt_lengths": "prompt lengths",
    "output_lengths": "output lengths",
    "reported_hit_rate": "hit rate as reported",
}


def page_without_prompts(report: Report) -> RenderableType:
    """Return the page on a log without prompts: what it cannot answer first, what it says, what to do."""
    lines = _basis_without_prompts(report) + coverage_lines(report.coverage, report.traffic.requests)
    said = [*_traffic_lines(report.traffic), *class_lines(report)]
    figures = [labelled(label, text) for label, text in said]
    return Group(
        Text(_headline_without_prompts(report), style="bold"),
        *(Padding(Text(line), (0, 0, 0, 2)) for line in lines),
        *([Text(), *figures] if figures else []),
        Text(),
        Text("What this log cannot answer"),
        *(Padding(Text(line), (0, 0, 0, 2)) for line in _missing_lines(report)),
        Text(),
        Text(_HOW_TO_LOG_PROMPTS),
    )


def _headline_without_prompts(report: Report) -> str:
    """Say in one sentence what cannot be answered, and what the log says instead."""
    reported = report.traffic.reported
    if reported is not None and reported.hit_rate is not None:
        instead = f"the server reported {percent(reported.hit_rate)} hit"
    else:
        parts = ("arrivals", "prompt_lengths", "output_lengths")
        there = [_NAMES[a.name] for name in parts for a in report.answers if a.name == name and a.supported]
        instead = f"it has {' and '.join((', '.join(there[:-1]), there[-1]) if there[1:] else there)}"
    return f"This log has no prompts: hit rates cannot be replayed from it; {instead}."


def _basis_without_prompts(report: Report) -> list[str]:
    """Return the lines under the headline."""
    traffic = report.traffic
    line = counted(traffic.requests, "request")
    if traffic.prompt_tokens is not None:
        line += f" · {short(traffic.prompt_tokens.total)} prompt tokens"
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
        rate = f"{traffic.rate_per_s:,.3g} a second · " if traffic.rate_per_s else ""
        found.append(
            (
                "Arrivals",
                f"{rate}next after {seconds(gaps.p50)} (p50), {seconds(gaps.p95)} (p95), {seconds(gaps.max)} (max)",
            )
        )
    for label, lengths in (("Prompts", traffic.prompt_tokens), ("Outputs", traffic.output_tokens)):
        if lengths is not None:
            found.append((label, _lengths(lengths, traffic.requests)))
    if traffic.reported is not None:
        found += reported_lines(traffic.reported)
    return found


def all_lengths(traffic: Traffic, prompts: int) -> list[tuple[str, str]]:
    """Return the lengths of all requests, as logged, where some have no prompt; nothing where all have one."""
    if traffic.prompt_tokens is None or traffic.requests == prompts:
        return []
    return [("All, as logged", _lengths(traffic.prompt_tokens, traffic.requests))]


def reported_lines(reported: Reported) -> list[tuple[str, str]]:
    """Return, labelled, what the server said of its hits, with how many requests it is about."""
    requests = counted(reported.requests, "request")
    lines = [
        f"{percent(reported.hit_rate)} hit: {reported.cached_tokens:,} of {reported.prompt_tokens:,} prompt tokens",
        f"of {requests}, as the server reported them, not replayed",
    ]
    if reported.left_out_requests:
        lines.append(
            f"{counted(reported.left_out_requests, 'request')} left out: no figure for one side or both"
        )
    if reported.hosted_requests:
        lines.append(
            f"{counted(reported.hosted_requests, 'request')} of a hosted service: its cache is not vLLM's"
        )
    if reported.off_grid_requests:
        odd = counted(reported.off_grid_requests, "request")
        lines.append(f"{odd} off that service's steps: another server may have answered")
    return [("" if index else "Reported", line) for index, line in enumerate(lines)]


def _missing_lines(report: Report) -> list[str]:
    """Return a line per cause that answers are missing for."""
    causes: dict[str, list[str]] = {}
    for answer in report.answers:
        if not answer.supported:
            causes.setdefault(answer.why, []).append(_NAMES[answer.name])
    return [f"{', '.join(names)}: {why}" for why, names in causes.items()]


def _lengths(lengths: Lengths, requests: int) -> str:
    some = f" · {lengths.requests:,} of {requests:,} requests" if lengths.requests < requests else ""
    return (
        f"{lengths.mean:,.0f} ± {lengths.std:,.0f} tokens (p50 {lengths.p50:,.0f}, p95 {lengths.p95:,.0f}, "
        f"max {lengths.max:,}){some}"
    )
