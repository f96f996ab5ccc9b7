"""The verdict and the misses by cause, as they stand in a report: one sentence with its figures, and what to do."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import msgspec

from kvtools.report.numbers import counted, percent, short

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtools.diagnosis.misses import Misses
    from kvtools.diagnosis.verdict import Bound, Figures, Kind, Verdict


TRACE_LIMIT_US = 10**14
"""Arrivals below this (1973 as an epoch time) count from the start of a trace."""


class VerdictFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Why the hit rate is what it is. ``also``: other kinds that hold; ``advice``: what to do or check, in order.

    ``prompts_can_help``: whether advice on prompts is worth giving.
    """

    kind: str
    sentence: str
    advice: list[str]
    also: list[str]
    prompts_can_help: bool


class MissFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Missed prompt tokens by cause; they add up to queried - hits. ``None`` where no text is known.

    The split of ``cold`` and ``diverged`` was measured on every 2**``sampling_level``-th distinct shingle.
    """

    cold: int | None
    evicted: int
    diverged: int | None
    other: int
    sampling_level: int | None


def miss_figures(misses: Misses) -> MissFigures:
    """Return the misses as they stand in the report."""
    return MissFigures(
        cold=misses.cold,
        evicted=misses.evicted,
        diverged=misses.diverged,
        other=misses.other,
        sampling_level=misses.sampling_level,
    )


def verdict_figures(found: Verdict, figures: Figures, utc_offset_min: int = 0) -> VerdictFigures:
    """Return the verdict with its sentence. ``utc_offset_min``: the zone in which times are told."""
    flushed = found.kind == "flushed"
    return VerdictFigures(
        kind=found.kind,
        sentence=_flushed(figures, utc_offset_min) if flushed else _SENTENCES[found.kind](figures),
        advice=_ADVICE[found.kind](figures),
        also=list(found.also),
        prompts_can_help=found.prompts_can_help,
    )


def bound_sentence(bound: Bound) -> str:
    """Say what a request of a hybrid model hits: an interval, never one number."""
    alone = (
        "" if bound.one_at_a_time is None else f" ({bound.one_at_a_time:,} if requests never share a step)"
    )
    return (
        f"Between {bound.at_least_tokens:,} and {bound.at_most_tokens:,} tokens hit{alone}: a hybrid model keeps "
        "its state only where a step of a prefill ended."
    )


def _rate(f: Figures) -> str:
    return f"{percent(f.hit_rate or 0.0)} hit rate"


def _unit(f: Figures) -> str:
    return f"one match unit is {f.match_unit:,}"


def _size(f: Figures) -> str:
    return "an unlimited cache" if f.capacity_blocks is None else counted(f.capacity_blocks, "block")


def _healthy(f: Figures) -> str:
    if f.diverged_tokens is None or f.cold_tokens is None:
        return f"{_rate(f)} in {_size(f)}: block ids do not tell why the rest is missed."
    return (
        f"{_rate(f)} in {_size(f)}: {_part(f.cold_tokens, f)} of the prompt tokens are seen for the first time, "
        f"{_part(f.diverged_tokens, f)} stood behind another prefix before."
    )


def _part(tokens: int | None, f: Figures) -> str:
    return percent((tokens or 0) / f.queried_tokens) if f.queried_tokens else "n/a"


def _no_shared_prefix(f: Figures) -> str:
    if f.shared_prefix_tokens is None or f.shared_prefix_tokens >= f.match_unit:
        few = "no two" if not f.ceiling_tokens else "hardly any two"
        return f"{_rate(f)}: {few} requests share their first block of {counted(f.match_unit, 'token')}."
    if not f.shared_prefix_tokens:
        return f"{_rate(f)}: no two requests begin with the same token."
    most = counted(f.shared_prefix_tokens, "token")
    return f"{_rate(f)}: no two requests share more than their first {most}, and {_unit(f)}."


def _below_block_floor(f: Figures) -> str:
    head = f.head_tokens
    everyone = f.shared_by_all_tokens == head
    who = (
        f"every request shares {head:,} tokens"
        if everyone
        else f"no two requests share more than {head:,} tokens"
    )
    if head == f.match_unit:
        return f"{_rate(f)}: {who}, {_unit(f)}, and the last token of a prompt is always computed."
    return f"{_rate(f)}: {who}, but {_unit(f)}."


def _engine_side(f: Figures) -> str:
    said = f.server
    if said is None:
        return "The server reuses nothing."
    return (
        f"0.0 % hit rate on the server, {percent(said.predicted_tokens / said.queried_tokens)} in the replay: the "
        f"prompts share what a cache needs, and in {counted(said.requests, 'request')} none of it was reused. "
        "This is not a prompt problem."
    )


def _metric_off(f: Figures) -> str:
    requests = f.server.with_usage if f.server else 0
    return (
        f"{_rate(f)} is predicted; what the server hit is not known, which is not 0: it reported usage for "
        f"{counted(requests, 'request')}, and cached tokens for none."
    )


def _cache_too_small(f: Figures) -> str:
    if not f.queried_tokens:
        return (
            f"No request fits into {_size(f)}: nothing would run; {percent(f.ceiling_rate)} without a limit."
        )
    return (
        f"{_rate(f)} in {_size(f)}: too small for this traffic; {percent(f.ceiling_rate)} without a limit. "
        f"{counted(f.evictions, 'block')} were evicted."
    )


def _flushed(f: Figures, utc_offset_min: int) -> str:
    times = [_moment(us, utc_offset_min) for us in f.flushed_at_us[:3]]
    more = ", …" if len(f.flushed_at_us) > len(times) else ""
    when = f" ({', '.join(times)}{more})" if times else ""
    return (
        f"The server's cache was emptied {counted(f.flushes, 'time')}{when}: prefixes that it had held were "
        f"computed again, {counted(f.flushed_tokens, 'token')} in all."
    )


def _moment(us: int, utc_offset_min: int) -> str:
    if us < TRACE_LIMIT_US:
        return f"at {us // 1_000_000:,} s"
    zone = timezone(timedelta(minutes=utc_offset_min))
    return f"{datetime.fromtimestamp(us // 1_000_000, zone):%d %b %Y %H:%M:%S}"


def _lookup_skipped(f: Figures) -> str:
    if f.skipping_requests == f.requests:
        return f"No hit rate: none of {counted(f.requests, 'request')} reads the cache, all fill it only."
    return (
        f"{_rate(f)} of those that read the cache; {f.skipping_requests:,} of {f.requests:,} requests "
        f"({short(f.skipping_tokens)} prompt tokens) do not, and compute all of their prompt."
    )


def _namespaces_too_fine(f: Figures) -> str:
    names = f.namespaces
    distinct, once = (names.distinct, names.used_once) if names else (0, 0)
    return (
        f"{_rate(f)}: {counted(f.requests, 'request')} stand in {distinct:,} namespaces, {once:,} of which hold one "
        "request; blocks are never shared across (model, adapter, cache_salt)."
    )


def _diverged(f: Figures) -> str:
    return (
        f"{_rate(f)}: {_part(f.diverged_tokens, f)} of the prompt tokens were seen before, but behind a prefix "
        "that differs."
    )


def _cold_log(f: Figures) -> str:
    if f.cold_tokens is None or f.requests < 2:
        return f"{_rate(f)} of {counted(f.requests, 'request')}: too few to judge, all is seen for the first time."
    return (
        f"{_rate(f)} of {counted(f.requests, 'request')}: {_part(f.cold_tokens, f)} of the prompt tokens are seen "
        "for the first time, which no cache can hit."
    )


_SENTENCES: dict[Kind, Callable[[Figures], str]] = {
    "healthy": _healthy,
    "no_shared_prefix": _no_shared_prefix,
    "below_block_floor": _below_block_floor,
    "engine_side": _engine_side,
    "metric_off": _metric_off,
    "cache_too_small": _cache_too_small,
    "lookup_skipped": _lookup_skipped,
    "namespaces_too_fine": _namespaces_too_fine,
    "diverged": _diverged,
    "cold_log": _cold_log,
}


def _lengthen(f: Figures) -> list[str]:
    missing = f.match_unit - f.head_tokens
    meant = "Nothing is broken: a block is reused only when full, and the shared text is too short for one."
    if missing > 0:
        return [
            meant,
            f"Lengthen the stable head by {counted(missing, 'token')}, or use a smaller match unit.",
        ]
    return [
        meant,
        f"Only prompts of more than {counted(f.match_unit, 'token')} can hit, or a smaller match unit.",
    ]


def _enlarge(f: Figures) -> list[str]:
    if not f.queried_tokens or f.needed_blocks is None:
        return ["Give the cache more blocks (--capacity-blocks)."]
    return [
        f"{counted(f.needed_blocks, 'block')} hold 90 % of what an unlimited cache hits.",
        "Or send requests with a common prefix closer together, or to the same replica.",
    ]


def _check_engine(_: Figures) -> list[str]:
    return [
        "Do not rewrite prompts for this; check the engine:",
        "its log says enable_prefix_caching=True, and the model supports it (hybrid and multimodal models may not);",
        "its match unit (block size) is the one replayed here: --block-size;",
        "one engine served these requests: a router may have spread them over replicas;",
        "its cache is large enough to keep a prompt until the next one: --capacity-blocks;",
        "cached tokens are counted: compare with the counter vllm:prefix_cache_hits.",
    ]


_ADVICE: dict[Kind, Callable[[Figures], list[str]]] = {
    "healthy": lambda _: [],
    "no_shared_prefix": lambda _: [
        "Put what requests have in common (instructions, tools, examples) in front of what varies."
    ],
    "below_block_floor": _lengthen,
    "engine_side": _check_engine,
    "metric_off": lambda _: [
        "Start vLLM with --enable-prompt-tokens-details, or read its counter vllm:prefix_cache_hits.",
        "Versions differ in whether an answer that hit nothing carries the field.",
    ],
    "cache_too_small": _enlarge,
    "flushed": lambda _: [
        "Look for a restart, /reset_prefix_cache, sleep mode or a weight update at that time.",
    ],
    "lookup_skipped": lambda _: [
        "vLLM reads no cache for prompt_logprobs, echo with logprobs and pooling over all tokens.",
        "Leave them out where they are not needed. Such requests are not in vLLM's hit rate.",
    ],
    "namespaces_too_fine": lambda _: [
        "Do not send a new cache_salt with each request. Salts that requests share are somebody's isolation: keep them."
    ],
    "diverged": lambda _: ["See what breaks the prefix: the findings, each with what its fix gains."],
    "cold_log": lambda f: ["Analyze a longer log."] if f.requests < 1000 else [],
}
