"""The first line of every rendering: the hit rate, and what is within reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.report.findings_text import within_reach
from kvtools.report.numbers import counted, percent
from kvtools.report.words import phrase, say

if TYPE_CHECKING:
    from kvtools.report.model import Cache, Hits, PromptTokens, Report, Similarity


@dataclass(frozen=True, slots=True)
class Replayed:
    """A report on requests with prompts, with the figures that only those have."""

    report: Report
    cache: Cache
    ceiling: Hits
    tokens: PromptTokens
    similarity: Similarity


def replayed(report: Report) -> Replayed | None:
    """Return the report with the figures of prompts, ``None`` where no request has one."""
    cache, ceiling, tokens, similarity = report.cache, report.ceiling, report.prompt_tokens, report.similarity
    if cache is None or ceiling is None or tokens is None or similarity is None:
        return None
    return Replayed(report, cache, ceiling, tokens, similarity)


def headline_of(found: Replayed) -> str:
    """Return the answer in one sentence."""
    cache, ceiling = found.cache, found.ceiling
    if not ceiling.hit_tokens:
        return say(
            "0.0 % hit rate: no two prompts share their first block of {count} tokens; "
            "no cache, however large, could hit.",
            count=f"{cache.block_size:,}",
        )
    size = counted(cache.capacity_blocks or 0, "block")
    if cache.refused_requests:
        return _headline_with_refused(found, size)
    now, most = percent(cache.hit_rate), percent(ceiling.hit_rate)
    if cache.capacity_blocks is None:
        return within_reach(found.report, now)
    if not cache.hit_tokens:
        sentence = phrase("0.0 % hit rate in {size}: too small for this traffic; {most} without a limit.")
        return say(sentence, size=size, most=most)
    return say(
        "{now} of prompt tokens hit in {size}; {most} in an unlimited cache.", now=now, size=size, most=most
    )


def _headline_with_refused(found: Replayed, size: str) -> str:
    """Say first that the figure is about some of the requests: the larger ones never run in this cache."""
    cache, most = found.cache, percent(found.ceiling.hit_rate)
    if not cache.queried_tokens:
        return say(
            "No request fits into {size}: nothing would run. {most} without a limit.", size=size, most=most
        )
    return say(
        "{refused} of {requests} requests do not fit into {size} and are refused; "
        "{now} of the others' prompt tokens hit.",
        refused=f"{cache.refused_requests:,}",
        requests=f"{found.report.requests:,}",
        size=size,
        now=percent(cache.hit_rate),
    )
