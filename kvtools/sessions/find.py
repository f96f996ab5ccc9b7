"""Which requests are turns of one conversation.

Similar prompts are never taken for one conversation. The rules, in this order:

1. Requests with the same explicit id are one session, wherever they stand: ids are compared for equality and
   nothing else (``session-1`` is not ``session-12``).
2. A request without id that names a parent is of the parent's session.
3. A request B without either continues A, also without either, if A's block keys (one or more, full blocks)
   are a proper prefix of B's in the same namespace, A stands before B, and came at most an hour before it
   (where one of both has no time: is one of the 1,000 requests before it). Among several A the longest prompt
   counts, of equal ones the latest. A prompt after whose last block the log goes on in more than one way is what
   conversations have in common (a system prompt, a first question that many ask) or was answered twice:
   whose turn it is cannot be known, and nothing continues it.
4. Any other request begins a session.

All arrays have one entry per request, in replay order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.cache import Interner
from kvtools.jit import kernel
from kvtools.profile.state import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.profile import RequestColumns

CONTINUES_WITHIN_US = 3_600_000_000
CONTINUES_WITHIN_REQUESTS = 1_000

ALONE, NAMED, CHILD, EXTENDS = range(4)
"""How a request came into its session: as its first without a name, by id, by its parent, by extending a prompt."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """The session of each request.

    ``number`` counts sessions from 0 in the order of their first request; ``turn`` counts the requests of one
    session from 0; ``previous`` is the place of the request before it in its session (-1: it is the first);
    ``basis`` is how it was found (``ALONE``, ``NAMED``, ``CHILD``, ``EXTENDS``). ``undecided`` counts requests
    whose prompt extends others, but only such as several conversations begin with.
    """

    number: NDArray[np.int64]
    turn: NDArray[np.int64]
    previous: NDArray[np.int64]
    basis: NDArray[np.uint8]
    undecided: int = 0

    def __len__(self) -> int:
        """How many sessions there are."""
        return int(self.number.max()) + 1 if len(self.number) else 0

    def turns(self) -> NDArray[np.int64]:
        """Requests of each session."""
        return np.bincount(self.number, minlength=len(self)).astype(np.int64)


def find_sessions(
    requests: RequestColumns,
    named: NDArray[np.uint64],
    parents: NDArray[np.int64] | None = None,
    within_us: int = CONTINUES_WITHIN_US,
    within_requests: int = CONTINUES_WITHIN_REQUESTS,
) -> Sessions:
    """Return the sessions of ``requests``, which stand in replay order, by the rules above.

    ``named``: digest of the explicit session id (0: none). ``parents``: place of the request that each names as
    the one it continues (-1: none; one that does not stand before it is none). The limits are those of rule 3.
    """
    places = np.arange(len(requests.prompt_tokens))
    above = np.full(len(places), -1, dtype=np.int64) if parents is None else parents.astype(np.int64)
    above = np.where((above < places) & (named == 0), above, -1)
    nameless = (named == 0) & (above < 0)
    extended, undecided = _extensions(requests, nameless, within_us, within_requests)
    basis = np.full(len(places), ALONE, dtype=np.uint8)
    basis[named != 0] = NAMED
    basis[above >= 0] = CHILD
    basis[extended >= 0] = EXTENDS
    number = _numbered(named, np.where(nameless, extended, above))
    turn, previous = _places(number)
    return Sessions(number, turn, previous, basis, undecided)


def _extensions(
    requests: RequestColumns, nameless: NDArray[np.bool_], within_us: int, within_requests: int
) -> tuple[NDArray[np.int64], int]:
    if not nameless.any():
        return np.full(len(nameless), -1, dtype=np.int64), 0
    # A key covers its namespace where kvtools made it; given keys need not.
    spaces = np.repeat(requests.namespace * _SPREAD, requests.keys.lengths())
    ids = Interner().intern(np.bitwise_xor(requests.keys.values, spaces))
    offsets = requests.keys.offsets
    several = _goes_on_in_several_ways(ids, offsets, int(ids.max()) + 1 if len(ids) else 0)
    within = np.array([within_us, within_requests], dtype=np.int64)
    found, undecided = _extended(ids, offsets, several, requests.arrival_us, nameless, within, UNKNOWN)
    return found, int(undecided)


@kernel
def _goes_on_in_several_ways(
    ids: NDArray[np.int32], offsets: NDArray[np.int64], distinct: int
) -> NDArray[np.bool_]:
    """Return for each block whether two different blocks follow it directly somewhere in the log."""
    following = np.full(distinct, -1, dtype=np.int32)
    several = np.zeros(distinct, dtype=np.bool_)
    for request in range(len(offsets) - 1):
        for place in range(offsets[request], offsets[request + 1] - 1):
            block, after = ids[place], ids[place + 1]
            if following[block] < 0:
                following[block] = after
            elif following[block] != after:
                several[block] = True
    return several


@kernel
def _extended(
    ids: NDArray[np.int32],
    offsets: NDArray[np.int64],
    several: NDArray[np.bool_],
    arrival_us: NDArray[np.int64],
    nameless: NDArray[np.bool_],
    within: NDArray[np.int64],
    unknown: int,
) -> tuple[NDArray[np.int64], int]:
    """Return the request that each one continues (-1: none), and how many extend only what many have in common."""
    # A chained key stands for its whole prefix: whose last block is that one, has exactly that prompt.
    latest = np.full(len(several), -1, dtype=np.int64)
    found = np.full(len(nameless), -1, dtype=np.int64)
    undecided = 0
    for request in range(len(nameless)):
        start, end = offsets[request], offsets[request + 1]
        if not nameless[request] or start == end:
            continue
        in_common = False
        for place in range(end - 2, start - 1, -1):
            other = latest[ids[place]]
            if other < 0:
                continue
            if arrival_us[request] == unknown or arrival_us[other] == unknown:
                near = request - other <= within[1]
            else:
                near = 0 <= arrival_us[request] - arrival_us[other] <= within[0]
            if near and several[ids[place]]:
                in_common = True
            elif near:
                found[request] = other
                break
        if in_common and found[request] < 0:
            undecided += 1
        latest[ids[end - 1]] = request
    return found, undecided


def _numbered(named: NDArray[np.uint64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return dense session numbers: one per id, and one per tree of requests that continue each other."""
    count = len(named)
    root = np.arange(count)
    has_name = named != 0
    _, first, inverse = np.unique(named[has_name], return_index=True, return_inverse=True)
    root[has_name] = np.flatnonzero(has_name)[first][inverse]
    root = _roots(root, above)
    # Sorted by the place of the first request: the order wanted.
    dense = np.unique(root, return_inverse=True)[1]
    return dense.astype(np.int64)


@kernel
def _roots(root: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    for request in range(len(root)):
        if above[request] >= 0:
            root[request] = root[above[request]]
    return root


def _places(number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each request its turn, and the request before it in its session."""
    order = np.argsort(number, kind="stable")
    grouped = number[order]
    begins = np.flatnonzero(np.diff(grouped, prepend=-1))
    sizes = np.diff(np.append(begins, len(order)))
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order)) - np.repeat(begins, sizes)
    before = np.concatenate((np.full(1, -1, dtype=np.int64), order[:-1]))[: len(order)]
    before[begins] = -1
    previous = np.empty(len(order), dtype=np.int64)
    previous[order] = before
    return turn, previous


def turns_without_history(requests: RequestColumns, sessions: Sessions) -> NDArray[np.bool_]:
    """Return which later turns share no block with the turn before them, though that one has a full block.

    Where most later turns do, the log holds what was new in each turn and not what was sent: its reuse cannot
    be seen in it.
    """
    later = np.flatnonzero(sessions.previous >= 0)
    earlier = sessions.previous[later]
    starts, lengths = requests.keys.offsets[:-1], requests.keys.lengths()
    both = (lengths[later] > 0) & (lengths[earlier] > 0)
    later, earlier = later[both], earlier[both]
    found = np.zeros(len(lengths), dtype=np.bool_)
    # A chained key differs from the first block on.
    found[later] = requests.keys.values[starts[later]] != requests.keys.values[starts[earlier]]
    return found
