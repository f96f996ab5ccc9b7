"""What conversations do to the cache: who comes again, how long prompts grow, whose blocks are hit.

All arrays have one entry per request, in replay order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner, Prompts
from kvtools.jit import kernel
from kvtools.profile.state import UNKNOWN
from kvtools.table import offsets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.model import CacheSpec
    from kvtools.profile import RequestColumns
    from kvtools.sessions.find import Sessions

REPEATS_WITHIN_US = 30_000_000
TIER_EDGES = (2_000, 6_000)
"""Prompt tokens at which a conversation passes into the next tier: up to 2,000, up to 6,000, more."""


def repeats(
    arrival_us: NDArray[np.int64], owner: NDArray[np.uint64], within_us: int = REPEATS_WITHIN_US
) -> NDArray[np.bool_]:
    """Return whether the same owner's latest request before it came at most ``within_us`` earlier.

    ``owner``: digest of a session, user or route (0: none, never a repeat). Requests without arrival neither
    repeat nor are repeated. By arrival; of equal times the one that stands later repeats.
    """
    known = np.flatnonzero((arrival_us != UNKNOWN) & (owner != 0))
    order = known[np.lexsort((known, arrival_us[known], owner[known]))]
    again = np.zeros(len(order), dtype=np.bool_)
    again[1:] = (owner[order][1:] == owner[order][:-1]) & (np.diff(arrival_us[order]) <= within_us)
    found = np.zeros(len(arrival_us), dtype=np.bool_)
    found[order] = again
    return found


@dataclass(frozen=True, slots=True)
class Tier:
    """The requests whose prompt has more than ``above_tokens`` and at most ``up_to_tokens`` (``None``: any) tokens.

    ``sessions`` are those whose longest prompt lies here. ``prompt_tokens`` counts each lookup of a request
    (OpenAI's ``n``); ``computed_tokens`` are those that were not hit.
    """

    above_tokens: int
    up_to_tokens: int | None
    sessions: int
    requests: int
    prompt_tokens: int
    hit_tokens: int

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that had to be computed."""
        return self.prompt_tokens - self.hit_tokens


def tiers(
    requests: RequestColumns,
    hit_tokens: NDArray[np.int64],
    sessions: Sessions,
    edges: tuple[int, ...] = TIER_EDGES,
) -> tuple[Tier, ...]:
    """Return the requests by the length that their conversation has reached, shortest first.

    A conversation passes through the tiers as it grows: each request counts in the tier of its own prompt. The
    lowest tier begins at 0 tokens.
    """
    longest = np.zeros(len(sessions), dtype=np.int64)
    np.maximum.at(longest, sessions.number, requests.prompt_tokens)
    tier_of = np.searchsorted(edges, requests.prompt_tokens)
    session_tier = np.searchsorted(edges, longest)
    asked = requests.prompt_tokens * requests.samples
    return tuple(
        Tier(
            above_tokens=0 if tier == 0 else edges[tier - 1],
            up_to_tokens=edges[tier] if tier < len(edges) else None,
            sessions=int((session_tier == tier).sum()),
            requests=int((tier_of == tier).sum()),
            prompt_tokens=int(asked[tier_of == tier].sum()),
            hit_tokens=int(hit_tokens[tier_of == tier].sum()),
        )
        for tier in range(len(edges) + 1)
    )


@dataclass(frozen=True, slots=True, eq=False)
class ReuseSplit:
    """Hit tokens of each request by who had left them there.

    A hit block is ``within`` the conversation if the latest earlier request that touched it is of the same
    session, ``across`` if it is of another. A request touches all blocks of its prompt, hit or computed.
    ``before`` are hits on blocks that no earlier request here touched: a cache that was warm at the start.
    The three add up to the hit tokens.
    """

    within: NDArray[np.int64]
    across: NDArray[np.int64]
    before: NDArray[np.int64]


def split_reuse(
    requests: RequestColumns,
    sessions: Sessions,
    hit_tokens: NDArray[np.int64],
    spec: CacheSpec,
    ids: NDArray[np.int32] | None = None,
) -> ReuseSplit:
    """Return whose blocks the hits of a replay were.

    ``hit_tokens``: of each request, as replayed through ``spec``; hits are the leading blocks of a prompt. A
    request for n answers does n lookups, of which all but the first hit its own prompt: those are ``within``.
    ``ids``: the dense ids of ``requests.keys``, where they are known already.
    """
    if ids is None:
        ids = Interner().intern(requests.keys.values)
    prompts = Prompts(requests.prompt_tokens, ids, requests.keys.offsets, requests.skip_lookup)
    block_tokens = prompts.block_tokens(spec)
    before_block = offsets_of(block_tokens)
    starts = requests.keys.offsets[:-1]
    own_prompt = before_block[starts + prompts.lookups(spec)] - before_block[starts]
    again = np.clip(hit_tokens, 0, (requests.samples - 1) * own_prompt)
    within, across, before = _split(
        ids,
        requests.keys.offsets,
        block_tokens,
        hit_tokens - again,
        sessions.number,
        int(ids.max()) + 1 if len(ids) else 0,
    )
    return ReuseSplit(within + again, across, before)


@kernel
def _split(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    block_tokens: NDArray[np.int32],
    hit_tokens: NDArray[np.int64],
    session: NDArray[np.int64],
    distinct: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    toucher = np.full(distinct, -1, dtype=np.int64)
    within = np.zeros(len(session), dtype=np.int64)
    across = np.zeros(len(session), dtype=np.int64)
    before = np.zeros(len(session), dtype=np.int64)
    for request in range(len(session)):
        left = hit_tokens[request]
        for place in range(offsets[request], offsets[request + 1]):
            tokens = min(left, block_tokens[place])
            left -= tokens
            last = toucher[ids[place]]
            if last < 0:
                before[request] += tokens
            elif last == session[request]:
                within[request] += tokens
            else:
                across[request] += tokens
            toucher[ids[place]] = session[request]
        before[request] += left
    return within, across, before
