"""What ``rules`` and ``label`` read of a log: each request as it was when it arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts, study_cache
from kvtools.heat.log import HeatLog
from kvtools.model import CacheSpec
from kvtools.profile import LogProfile, map_chunk, replay_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.flow.intake import Intake
    from kvtools.heat.features import HeatColumns
    from kvtools.model import Rules
    from kvtools.profile import Counts, RequestColumns


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """The requests of a log, one entry each in log order: those with a prompt, or all where none has one.

    ``names``: request id, or ``path:line`` where there is none. ``left_out``: requests without a prompt in a log that
    has prompts.
    """

    columns: HeatColumns
    names: list[str]
    counts: Counts
    utc_offset_min: int
    left_out: int


def arrivals_of(intake: Intake) -> Arrivals:
    """Return the requests of one pass over a log; hits are those of an unlimited cache that starts empty.

    Raises:
        InputError: no request has a prompt, a length or a time.
    """
    profile, log = LogProfile(), HeatLog(named=True)
    for chunk, keyed, dropped in intake.chunks():
        profile.merge(map_chunk(chunk, keyed, dropped))
        log.add(chunk.requests, keyed)
    prompted = bool(profile.prompts)
    if prompted or not profile.traffic.columns().says_something:
        block_size, counting = intake.settled(profile.counts, profile.prompts)
        requests = profile.requests()
        columns = log.with_prompts(requests, first_hits(requests, block_size, counting))
    else:
        columns = log.lengths_only()
    kept = log.kept(prompted=prompted)
    return Arrivals(
        columns=columns,
        names=[log.names[row] for row in kept.tolist()],
        counts=profile.counts,
        utc_offset_min=profile.utc_offset_min or 0,
        left_out=len(log.names) - len(kept),
    )


def first_hits(logged: RequestColumns, block_size: int, counting: Rules) -> NDArray[np.int64]:
    """Return the hit tokens of each request's first lookup, in log order."""
    order = replay_order(logged.arrival_us)
    requests = logged if order is None else logged.take(order)
    ids = Interner().intern(requests.keys.values)
    prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets, requests.skip_lookup)
    found = study_cache(prompts, CacheSpec(block_size, rules=counting)).result.hit_tokens
    hits = np.empty_like(found)
    hits[slice(None) if order is None else order] = found
    return hits
