"""The rules on traffic: long conversations, replicas, priorities, and whether the server tells what it hits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.plan.audit_cache import percent
from kvtools.plan.audit_model import AuditFinding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.plan.audit_model import Findings, LogFacts, Setup
    from kvtools.sessions import Tier


def audit_traffic(setup: Setup, facts: LogFacts, tiers: Sequence[Tier], findings: Findings) -> None:
    """Add what the log says of replicas, priorities, counters and long conversations."""
    value = setup.parsed.value
    replicas = value("data_parallel_size", 1)
    if replicas > 1:
        findings.found.append(
            AuditFinding(
                rule="replicas", flag="--data-parallel-size", severity="info",
                symptom="each of several engines has a cache of its own",
                measured=f"the figures here are of one engine; the line starts {replicas}",
                cause="a request hits only what its own engine holds",
                advice=f"see kvtools plan routing --replicas {replicas}", value=replicas, unit="engines",
            )
        )  # fmt: skip
    if value("scheduling_policy") == "priority" and facts.priorities < 2:
        findings.found.append(
            AuditFinding(
                rule="priority", flag="--scheduling-policy", severity="medium",
                symptom="all requests have one priority",
                measured=f"0 of {len(facts.prompt_tokens):,} requests carry a priority of their own",
                cause="with one priority the order is that of arrival",
                advice="send a priority with each request (kvtools rules writes them), or leave the flag out",
                value=0, unit="requests",
            )
        )  # fmt: skip
    _counters(setup, facts, findings)
    findings.found += list(_long_sessions(tiers))


def _counters(setup: Setup, facts: LogFacts, findings: Findings) -> None:
    if setup.parsed.value("disable_log_stats") is True:
        findings.found.append(
            AuditFinding(
                rule="counters", flag="--disable-log-stats", severity="medium",
                symptom="the engine counts no hits", measured="its prefix-cache counters stay empty",
                cause="--disable-log-stats switches them off", advice="leave the flag out",
            )
        )  # fmt: skip
    if facts.reported_tokens is None and not setup.parsed.value(
        "enable_prompt_tokens_details", default=False
    ):
        findings.found.append(
            AuditFinding(
                rule="reported-hits", flag="--enable-prompt-tokens-details", severity="info",
                symptom="answers do not say what was hit", measured="no request of the log carries cached tokens",
                cause="off by default", advice="set it, and the log can be compared with the engine",
            )
        )  # fmt: skip


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests"


def _long_sessions(tiers: Sequence[Tier]) -> list[AuditFinding]:
    """The tiers of long conversations: what each costs, since what was hit has been paid for already."""
    computed = sum(tier.computed_tokens for tier in tiers)
    found = []
    for tier in tiers[1:]:
        if not tier.requests:
            continue
        name = f"{tier.above_tokens:,} tokens" + (
            "" if tier.up_to_tokens is None else f" to {tier.up_to_tokens:,}"
        )
        hit = tier.hit_tokens / max(tier.prompt_tokens, 1)
        part = tier.computed_tokens / max(computed, 1)
        found.append(
            AuditFinding(
                rule=f"sessions-above-{tier.above_tokens}", flag=None, severity="info",
                symptom=f"prompts above {name}",
                measured=f"{_requests(tier.requests)}, {percent(hit)} of their {tier.prompt_tokens:,} tokens hit; "
                f"the other {tier.computed_tokens:,} are {percent(part)} of all that is computed",
                cause="the whole history comes again with each turn; what hits costs memory, not computing",
                advice="a summary or a reset saves the memory, and the turn that brings it computes its prompt anew: "
                "it pays only where little hits", value=part, unit="share",
            )
        )  # fmt: skip
    return found
