"""Which zero it is: why a hit rate is low, from figures that other rooms worked out.

``verdict`` names the first kind that holds, in this order, and the others that hold too:

1. ``lookup_skipped``: no request reads the cache.
2. ``cache_too_small``: no request fits into it.
3. ``engine_side``: the server reported 0 for all requests, and the replay hits a good part of the same prompts.
   No prompt is at fault, so no advice on prompts is worth anything.
4. ``flushed``: the server hit as predicted, and from some moment on as a cache that was emptied there; at least 1 %
   of the tokens were lost by it.
5. ``cache_too_small``: a cache without limit hits at least twice as much, and 5 points more (or this one hits under
   1 %).
6. ``namespaces_too_fine``: at least half of the requests are alone in their namespace, and (where that is known) share
   a match unit with requests of another one.
7. ``lookup_skipped``: at least a quarter of the prompt tokens are of requests that do not read the cache.
8. where nothing could be hit, however large the cache (under 1 %): ``diverged``, ``below_block_floor``, ``cold_log``
   (too few requests to judge) or ``no_shared_prefix``;
9. where something could: ``diverged`` (a quarter of the tokens was seen before, behind another prefix) or
   ``cold_log`` (three quarters are first sights);
10. ``metric_off``: the server reported other usage, but never cached tokens;
11. ``healthy``: none of these.

What the engine does comes before what the cache is, and that before what the prompts are: a cause is of no use while
one in front of it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.model import share

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind: TypeAlias = Literal[
    "healthy",
    "no_shared_prefix",
    "below_block_floor",
    "engine_side",
    "metric_off",
    "cache_too_small",
    "flushed",
    "lookup_skipped",
    "namespaces_too_fine",
    "diverged",
    "cold_log",
]

POTENTIAL_SHARE = 0.1
"""Predicted share of the reported tokens (0..1) from which a reported zero is the engine's doing."""
SKIPPED_SHARE = 0.25
DIVERGED_SHARE = 0.25
COLD_SHARE = 0.75
HEAD_SHARE = 0.1
"""Share of a mean prompt (0..1) from which a shared beginning is worth lengthening, and no template's preamble."""
GAP_SHARE = 0.05
"""Share of the queried tokens (0..1) that a larger cache has to gain before a cache that hits is called too small."""
FLUSHED_SHARE = 0.01
NOTHING_SHARE = 0.01
"""Ceiling (0..1) below which a hit here and there is no reuse."""
FEW_REQUESTS = 10
_SOME = 2


@dataclass(frozen=True, slots=True)
class ServerSaid:
    """What the server reported, in tokens. ``requests`` reported cached tokens, ``with_usage`` any usage at all.

    ``predicted_tokens`` are the hits of the replay on these ``requests``, ``hit_tokens`` and ``queried_tokens`` what
    the server counted of them.
    """

    requests: int
    with_usage: int
    hit_tokens: int
    queried_tokens: int
    predicted_tokens: int


@dataclass(frozen=True, slots=True)
class Namespaces:
    """How many namespaces there are, and how many of them hold one request only.

    ``shared_across_tokens``: the longest prefix that requests of two namespaces have in common, ``None``: not known.
    """

    distinct: int
    used_once: int
    shared_across_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a verdict is made of; tokens and requests. ``None`` is what is not known.

    ``hit_tokens`` of ``queried_tokens`` in the cache of ``capacity_blocks`` (``None``: no limit), ``ceiling_tokens``
    of ``ceiling_queried_tokens`` without a limit (refused requests included). ``match_unit``: tokens of a block.
    ``prompt_tokens``: all prompts. ``shared_prefix_tokens``: the longest prefix that two requests of one namespace
    share; ``shared_by_all_tokens``: the one that all share. ``skipping_*``: requests that do no lookup.
    ``needed_blocks``: an LRU cache with 90 % of the ceiling's hits. ``diverged_tokens`` and ``cold_tokens`` as in
    ``misses.Misses``. ``flushed_at_us``: arrivals of the first requests after a flush, ``flushes`` how many there
    were and ``flushed_tokens`` the hits lost.
    """

    requests: int
    prompt_tokens: int
    queried_tokens: int
    hit_tokens: int
    ceiling_queried_tokens: int
    ceiling_tokens: int
    match_unit: int
    capacity_blocks: int | None = None
    needed_blocks: int | None = None
    evictions: int = 0
    refused_requests: int = 0
    shared_prefix_tokens: int | None = None
    shared_by_all_tokens: int | None = None
    skipping_requests: int = 0
    skipping_tokens: int = 0
    namespaces: Namespaces | None = None
    server: ServerSaid | None = None
    flushes: int = 0
    flushed_tokens: int = 0
    flushed_at_us: tuple[int, ...] = ()
    diverged_tokens: int | None = None
    cold_tokens: int | None = None

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens over queried tokens (0..1), ``None`` where nothing was queried."""
        return share(self.hit_tokens, self.queried_tokens)

    @property
    def ceiling_rate(self) -> float | None:
        """The same in a cache without limit."""
        return share(self.ceiling_tokens, self.ceiling_queried_tokens)

    @property
    def head_tokens(self) -> int:
        """Tokens of the longest prefix that two requests share, 0 where it is not known."""
        return self.shared_prefix_tokens or 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The kind that comes first, and those ``also`` true, in their order."""

    kind: Kind
    also: tuple[Kind, ...] = ()

    @property
    def prompts_can_help(self) -> bool:
        """Whether advice on prompts is worth giving: no rewrite helps an engine that reuses nothing."""
        return self.kind != "engine_side"


def verdict(figures: Figures) -> Verdict:
    """Return why the hit rate is what it is; the order stands at the top of this module."""
    kinds = list(dict.fromkeys(_kinds(figures)))
    return Verdict(kinds[0], tuple(kinds[1:])) if kinds else Verdict("healthy")


def _kinds(f: Figures) -> Iterator[Kind]:
    if f.requests and f.skipping_requests == f.requests:
        yield "lookup_skipped"
        return
    if f.refused_requests and not f.queried_tokens:
        yield "cache_too_small"
        return
    if _engine_reuses_nothing(f):
        yield "engine_side"
    if f.flushes and f.flushed_tokens >= FLUSHED_SHARE * f.queried_tokens:
        yield "flushed"
    if _thrashes(f):
        yield "cache_too_small"
    if _isolated(f):
        yield "namespaces_too_fine"
    if f.skipping_tokens >= SKIPPED_SHARE * f.prompt_tokens > 0:
        yield "lookup_skipped"
    nothing = (f.ceiling_rate or 0.0) < NOTHING_SHARE
    yield from [_nothing_to_hit(f)] if nothing else _of_prompts(f)
    said = f.server
    if said is not None and said.with_usage and not said.requests:
        yield "metric_off"


def _engine_reuses_nothing(f: Figures) -> bool:
    said = f.server
    if said is None or said.requests < _SOME or said.hit_tokens:
        return False
    return said.predicted_tokens > 0 and said.predicted_tokens >= POTENTIAL_SHARE * said.queried_tokens


def _thrashes(f: Figures) -> bool:
    if f.capacity_blocks is None or 2 * f.hit_tokens > f.ceiling_tokens or not f.ceiling_tokens:
        return False
    next_to_nothing = f.hit_tokens < NOTHING_SHARE * f.queried_tokens
    return next_to_nothing or f.ceiling_tokens - f.hit_tokens >= GAP_SHARE * f.queried_tokens


def _isolated(f: Figures) -> bool:
    names = f.namespaces
    if names is None or names.distinct < _SOME or 2 * names.used_once < f.requests:
        return False
    return names.shared_across_tokens is None or names.shared_across_tokens >= f.match_unit


def _of_prompts(f: Figures) -> Iterator[Kind]:
    if f.diverged_tokens is not None and f.diverged_tokens >= DIVERGED_SHARE * f.queried_tokens:
        yield "diverged"
    if f.cold_tokens is not None and f.cold_tokens >= COLD_SHARE * f.queried_tokens:
        yield "cold_log"


def _nothing_to_hit(f: Figures) -> Kind:
    """Tell apart the causes of a ceiling of 0: where more text stands behind other prefixes than in the shared one."""
    shared = f.head_tokens * max(f.requests - 1, 0)
    if f.diverged_tokens is not None and f.diverged_tokens > max(
        2 * shared, DIVERGED_SHARE * f.queried_tokens
    ):
        return "diverged"
    below = 0 < f.head_tokens <= f.match_unit
    if below and f.head_tokens * f.requests >= HEAD_SHARE * f.prompt_tokens:
        return "below_block_floor"
    return "cold_log" if f.requests < FEW_REQUESTS else "no_shared_prefix"


@dataclass(frozen=True, slots=True)
class Bound:
    """What a request hits at least and at most, in tokens, and why no exact number can be given.

    ``one_at_a_time`` is what it hits if requests never share a step, ``None`` where that is not known.
    """

    at_least_tokens: int
    at_most_tokens: int
    reason: str
    one_at_a_time: int | None = None


def hybrid_bound(
    shared_tokens: int,
    match_unit: int,
    prompt_tokens: int,
    earlier_tokens: int | None = None,
    max_num_batched_tokens: int | None = None,
) -> Bound:
    """Return what a prompt can hit that shares ``shared_tokens`` with an earlier one on a hybrid model ("align").

    At most the whole match units of the shared prefix, at most n-1 tokens of the prompt. At least nothing: a Mamba
    state is kept only where a prefill chunk ended, and where chunks end depends on what else ran in the step (vLLM
    issues 42317, 43587). If the earlier prompt of ``earlier_tokens`` ran alone, its chunks ended at multiples of the
    largest whole number of units within ``max_num_batched_tokens``, and at its own last whole unit
    (``Scheduler._mamba_block_aligned_split``).
    """
    most = max(min(shared_tokens, prompt_tokens - 1), 0) // match_unit * match_unit
    alone = None
    if earlier_tokens is not None and max_num_batched_tokens is not None:
        last = earlier_tokens // match_unit * match_unit
        chunk = max_num_batched_tokens // match_unit * match_unit
        ends = {last, *range(chunk, last, chunk)} if chunk else {last}
        alone = max((end for end in ends if end <= most), default=0)
    return Bound(0, most, "hybrid_align", alone)
