"""The checklists as findings of an audit: symptom, evidence, cause, fix. They inform, and fail nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.gate.checklists import checklists
from kvtools.model import share
from kvtools.plan.audit_model import AuditFinding, NotJudged
from kvtools.report.model import Hits
from kvtools.sessions import Tier

if TYPE_CHECKING:
    from kvtools.plan.audit_model import Findings, LogFacts
    from kvtools.report.check import Check
    from kvtools.report.model import Report

_MEANING = {
    "a-hit-rate-healthy": ("prompts part early, or the cache is small", "kvtools analyze says which"),
    "a-jaccard-healthy": (
        "prompts differ in most of their text",
        "put what is stable in front: kvtools normalize",
    ),
    "a-stable-text-first": ("values stand in front of stable text", "move them behind it: kvtools normalize"),
    "a-session-id": ("a gateway cannot keep a conversation on one replica", "log and send a session id"),
    "a-prompt-length": ("histories grow without a limit", "see the tiers of prompts above"),
    "a-cache-large-enough": ("blocks are evicted before they are asked for again", "see kvtools plan sizing"),
    "a-prefix-caching-on": ("the cache was off, flushed, or not counted", "see prefix caching above"),
    "b-cold-share": ("long, rare requests hold up the others", "kvtools rules writes priorities"),
    "b-hot-share-5s": ("hot traffic is thin", "nothing to set"),
    "b-hot-input": ("hot prompts are long", "shorten what is sent each time, or let it hit"),
    "b-hot-latency": (
        "the engine is busy, or hot requests wait for cold ones",
        "kvtools rules writes priorities",
    ),
}
"""What a line that does not hold comes from, and what helps."""


def add_checklists(report: Report, facts: LogFacts, capacity_blocks: int | None, findings: Findings) -> None:
    """Add a finding per line of the checklists, with the hits of the cache under audit in place of the report's."""
    for check in checklists(_as_configured(report, facts, capacity_blocks)):
        if check.status == "n/a" or check.measured is None:
            findings.not_judged.append(NotJudged(check.name, None, check.message))
        else:
            findings.found.append(_finding(check, check.measured))


def _finding(check: Check, measured: float) -> AuditFinding:
    holds = check.status == "pass"
    cause, advice = ("", "") if holds else _MEANING.get(check.name, ("", ""))
    return AuditFinding(
        rule=check.name if check.scope is None else f"{check.name}-{check.scope.replace(' ', '-')}",
        flag=None,
        severity="ok" if holds else "info",
        symptom=check.title,
        measured=check.message,
        cause=cause,
        advice=advice,
        value=float(measured),
        unit=check.unit,
    )


def _as_configured(report: Report, facts: LogFacts, capacity_blocks: int | None) -> Report:
    if report.cache is None:
        return report
    cache = msgspec.structs.replace(
        report.cache,
        block_size=facts.block_size,
        capacity_blocks=capacity_blocks,
        queried_tokens=facts.queried_tokens,
        hit_tokens=facts.hit_tokens,
        hit_rate=share(facts.hit_tokens, facts.queried_tokens),
        refused_requests=facts.refused_requests,
    )
    ceiling = Hits(hit_tokens=facts.ceiling_tokens, hit_rate=facts.ceiling_rate)
    return msgspec.structs.replace(report, cache=cache, ceiling=ceiling)


def tiers_of(report: Report) -> tuple[Tier, ...]:
    """Return the requests by the length of their conversation, none where every request stands alone."""
    if report.sessions is None:
        return ()
    return tuple(
        Tier(
            one.above_tokens, one.up_to_tokens, one.sessions, one.requests, one.prompt_tokens, one.hit_tokens
        )
        for one in report.sessions.tiers
    )
