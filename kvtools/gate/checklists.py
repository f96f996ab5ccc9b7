"""The checklists for prompts that reuse the cache and for hot and cold traffic, each line with its own figure.

They inform and never fail a gate: their limits are rules of thumb, while a budget is set for the traffic at hand. What
a log cannot tell is ``n/a`` with the reason, never a pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.report.check import Check
from kvtools.report.numbers import counted, percent, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvtools.report.check import Status, Unit
    from kvtools.report.model import Report

HEALTHY_HIT_RATE = 0.6
HEALTHY_JACCARD = 0.6
ENOUGH_CACHE = 0.9
LONG_PROMPT_TOKENS = 6000
COLD_SHARE = 0.15
HOT_SHARE_5S = 0.7
HOT_INPUT_TOKENS = 512

_SOURCE = "checklist"


def checklists(report: Report) -> tuple[Check, ...]:
    """Return the lines of both checklists."""
    return (*_of_prompts(report), *_of_classes(report))


def _line(
    name: str,
    title: str,
    measured: float | None,
    limit: float | None,
    unit: Unit | None,
    *,
    holds: bool,
    message: str,
    scope: str | None = None,
) -> Check:
    status: Status = "n/a" if measured is None else "pass" if holds else "fail"
    return Check(
        name=name, title=title, scope=scope, status=status, measured=measured, limit=limit, unit=unit, baseline=None,
        message=message, limit_from=_SOURCE, gates=False,
    )  # fmt: skip


def _share_line(name: str, title: str, measured: float | None, least: float, why: str) -> Check:
    shown = f"{title} {percent(measured)} (at least {percent(least)} is healthy)"
    holds = measured is not None and measured >= least
    return _line(name, title, measured, least, "share", holds=holds,
                 message=shown if measured is not None else f"{title} not known: {why}")  # fmt: skip


def _of_prompts(report: Report) -> Iterator[Check]:
    cache, similarity = report.cache, report.similarity
    rate = None if cache is None else cache.hit_rate
    yield _share_line("a-hit-rate-healthy", "hit rate", rate, HEALTHY_HIT_RATE, "no prompt was looked up")
    jaccard = None if similarity is None else similarity.jaccard_consecutive
    title = "Jaccard of consecutive text"
    yield _line(
        "a-jaccard-healthy", title, jaccard, HEALTHY_JACCARD, "share",
        holds=jaccard is not None and jaccard > HEALTHY_JACCARD,
        message=f"{title} {ratio(jaccard)} (above {HEALTHY_JACCARD:g} is healthy)"
        if jaccard is not None else f"{title} not known: there are no two consecutive requests with text",
    )  # fmt: skip
    yield _fields_line(report)
    yield _sessions_line(report)
    yield _long_line(report)
    yield _room_line(report)
    yield _counted_line(report)
    yield _line(
        "a-warm-up", "warm-up", None, None, None, holds=False,
        message="warm-up not known: a log does not tell what was sent to the server when it started",
    )  # fmt: skip


def _fields_line(report: Report) -> Check:
    title = "nothing varies in front of stable text"
    if report.findings is None:
        return _line("a-stable-text-first", title, None, 0, None, holds=False,
                     message=f"{title}: not known, no text was looked at")  # fmt: skip
    paying = sum(found.severity != "info" for found in report.findings)
    said = counted(paying, "cause") if paying else "no cause"
    return _line("a-stable-text-first", title, paying, 0, None, holds=not paying,
                 message=f"{title}: {said} worth a fix")  # fmt: skip


def _sessions_line(report: Report) -> Check:
    title = "conversations carry an id"
    sessions = report.sessions
    if sessions is None:
        return _line("a-session-id", title, None, 1.0, "share", holds=False,
                     message=f"{title}: not applicable, every request stands alone")  # fmt: skip
    known = sessions.by_id + sessions.by_prefix
    part = sessions.by_id / known if known else None
    return _line("a-session-id", title, part, 1.0, "share", holds=part == 1.0,
                 message=f"{title}: {percent(part)} of the requests that could be assigned")  # fmt: skip


def _long_line(report: Report) -> Check:
    title = f"prompts of at most {LONG_PROMPT_TOKENS:,} tokens"
    longest = None if report.prompt_tokens is None else report.prompt_tokens.max
    return _line(
        "a-prompt-length", title, longest, LONG_PROMPT_TOKENS, "tokens",
        holds=longest is not None and longest <= LONG_PROMPT_TOKENS,
        message=f"{title}: the longest has {longest:,}" if longest is not None else f"{title}: no prompt is known",
    )  # fmt: skip


def _room_line(report: Report) -> Check:
    title = "cache large enough"
    cache, ceiling = report.cache, report.ceiling
    if cache is None or ceiling is None or cache.capacity_blocks is None or not ceiling.hit_tokens:
        why = (
            "no cache size was given (--capacity-blocks)"
            if ceiling and ceiling.hit_tokens
            else "nothing to hold"
        )
        return _line("a-cache-large-enough", title, None, ENOUGH_CACHE, "share", holds=False,
                     message=f"{title}: not applicable, {why}")  # fmt: skip
    part = cache.hit_tokens / ceiling.hit_tokens
    return _line(
        "a-cache-large-enough", title, part, ENOUGH_CACHE, "share", holds=part >= ENOUGH_CACHE,
        message=f"{title}: {counted(cache.capacity_blocks, 'block')} hit {percent(part)} of what an unlimited cache "
        f"hits (at least {percent(ENOUGH_CACHE)} is healthy)",
    )  # fmt: skip


def _counted_line(report: Report) -> Check:
    title = "the server's cache is on"
    reported = report.traffic.reported
    rate = None if reported is None else reported.hit_rate
    return _line(
        "a-prefix-caching-on", title, rate, 0.0, "share", holds=rate is not None and rate > 0,
        message=f"{title}: it reported {percent(rate)} hits"
        if rate is not None else f"{title}: not known, the log has no cached tokens that a server counted",
    )  # fmt: skip


def _of_classes(report: Report) -> Iterator[Check]:
    heat = report.heat
    cold = None if heat is None else heat.cold_share
    why = "hot and cold were not told apart" if heat is None else heat.reason
    yield _line(
        "b-cold-share", "cold requests", cold, COLD_SHARE, "share", holds=cold is not None and cold <= COLD_SHARE,
        message=f"cold requests {percent(cold)} (at most {percent(COLD_SHARE)} before first come, first served suffers)"
        if cold is not None else f"cold requests not known: {why}",
    )  # fmt: skip
    hot = None if heat is None else heat.hot_share_5s_p50
    yield _share_line("b-hot-share-5s", "hot requests in 5 s (median)", hot, HOT_SHARE_5S, why)
    yield _hot_input_line(report, why)
    yield from _latency_lines(report)
    for name, title in (
        ("b-running", "running / max_num_seqs"),
        ("b-interrupted-hot", "interrupted hot requests"),
    ):
        yield _line(name, title, None, None, None, holds=False,
                    message=f"{title} not known: an engine counts it, a request log does not")  # fmt: skip


def _hot_input_line(report: Report, why: str) -> Check:
    title = "hot inputs (p95)"
    found = next((one for one in report.classes if one.name == "hot"), None)
    p95 = None if found is None or found.prompt_tokens is None else found.prompt_tokens.p95
    return _line(
        "b-hot-input", title, p95, HOT_INPUT_TOKENS, "tokens", holds=p95 is not None and p95 < HOT_INPUT_TOKENS,
        message=f"{title} {p95:,.0f} tokens (below {HOT_INPUT_TOKENS} is a hot path)"
        if p95 is not None else f"{title} not known: {why}",
    )  # fmt: skip


def _latency_lines(report: Report) -> Iterator[Check]:
    """One line per scenario: which of them the traffic is, only its owner knows."""
    hot = next((one.latency for one in report.classes if one.name == "hot"), None)
    limits = [] if report.heat is None or hot is None else report.heat.latency_limits
    for one in limits:
        p50, p99 = (0.0, 0.0) if hot is None else (hot.p50_ms, hot.p99_ms)
        yield _line(
            "b-hot-latency", "hot latency (p99, ms)", p99, one.p99_ms, None, holds=one.met, scope=one.scenario,
            message=f"hot latency p50 {p50:,.0f} ms, p99 {p99:,.0f} ms ({one.scenario}: {one.p50_ms:,.0f} and "
            f"{one.p99_ms:,.0f})",
        )  # fmt: skip
    if not limits:
        yield _line("b-hot-latency", "hot latency (p99, ms)", None, None, None, holds=False,
                    message="hot latency not known: the log has no latencies of hot requests")  # fmt: skip
