"""The figures from which the verdict is made: what was hit, what could be, what the prompts and the server say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Prompts
from kvtools.diagnosis.flushes import find_flushes
from kvtools.diagnosis.verdict import Figures, Namespaces, ServerSaid
from kvtools.prefixes import prefix_tree
from kvtools.profile.state import UNKNOWN
from kvtools.table import concat_ragged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvtools.cache import CacheStudy
    from kvtools.diagnosis.flushes import Flush
    from kvtools.diagnosis.misses import Misses
    from kvtools.profile import LogProfile, RequestColumns

NEEDED_SHARE = 0.9


def figures_of(
    profile: LogProfile,
    requests: RequestColumns,
    study: CacheStudy,
    misses: Misses,
    flushes: Sequence[Flush] = (),
) -> Figures:
    """Return the figures of a replayed log; ``requests`` and ``study`` in replay order."""
    known = [requests.arrival_us[flush.request] for flush in flushes]
    result = study.result
    ceiling = int(study.ceiling.sum())
    _, uses = np.unique(requests.namespace, return_counts=True)
    skipping = requests.skip_lookup
    return Figures(
        requests=len(requests.prompt_tokens),
        prompt_tokens=int(requests.prompt_tokens.sum()),
        queried_tokens=result.total_queried_tokens,
        hit_tokens=result.total_hit_tokens,
        ceiling_queried_tokens=int(study.queried.sum()),
        ceiling_tokens=ceiling,
        match_unit=result.spec.block_size,
        capacity_blocks=result.spec.capacity_blocks,
        needed_blocks=study.curve.blocks_for(NEEDED_SHARE) if ceiling else None,
        evictions=result.evictions or 0,
        refused_requests=int(result.refused.sum()),
        shared_prefix_tokens=None if ceiling else _shared_prefix(profile),
        skipping_requests=int(skipping.sum()),
        skipping_tokens=int(requests.prompt_tokens[skipping].sum()),
        namespaces=Namespaces(len(uses), int((uses == 1).sum())),
        server=_server(requests, study),
        flushes=len(flushes),
        flushed_tokens=sum(flush.lost_tokens for flush in flushes),
        flushed_at_us=tuple(int(us) for us in known if us != UNKNOWN),
        diverged_tokens=misses.diverged,
        cold_tokens=misses.cold,
    )


def flushes_of(
    requests: RequestColumns, ids: NDArray[np.int32], study: CacheStudy, measure_from: float
) -> list[Flush]:
    """Return where the server's cache was emptied, as far as the hits that it reported tell.

    Nothing where it reported none, where only a part of the log is measured, or where a request is several lookups
    (what it reported is then of all of them). ``requests``, ``ids`` (of their blocks) and ``study`` in replay order.
    """
    told = requests.cached_tokens != UNKNOWN
    if not told.any() or measure_from or (requests.samples != 1).any():
        return []
    prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets, requests.skip_lookup)
    return find_flushes(prompts, study.result.spec, study.result.hit_tokens, requests.cached_tokens)


def _shared_prefix(profile: LogProfile) -> int | None:
    """Return the longest prefix that two prompts of the sample share, in tokens; looked for where nothing is hit."""
    parts = [part.tokens for part in profile.sample.parts]
    if not parts:
        return None
    tokens = concat_ragged(parts, np.int32)
    return max(prefix_tree(tokens).longest_shared_prefix().values(), default=0)


def _server(requests: RequestColumns, study: CacheStudy) -> ServerSaid | None:
    """Return what the server reported of the requests that were measured."""
    told = (requests.observed_tokens != UNKNOWN) & (study.queried > 0)
    cached = told & (requests.cached_tokens != UNKNOWN)
    if not told.any():
        return None
    return ServerSaid(
        requests=int(cached.sum()),
        with_usage=int(told.sum()),
        hit_tokens=int(requests.cached_tokens[cached].sum()),
        queried_tokens=int(requests.observed_tokens[cached].sum()),
        predicted_tokens=int(study.result.hit_tokens[cached].sum()),
    )
