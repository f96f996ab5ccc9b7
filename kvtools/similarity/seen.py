"""Which text of a log is seen for the first time: for every 5-token shingle, the first request that carries it.

A fold: any partition of a log into stretches, merged in log order, gives an equal state. Shingles are told apart by
namespace. All are kept while they fit into ``BUDGET_SHINGLES``, else those whose hash ends in ``level`` zero bits:
every 2**level-th. Each stands for the tokens of its first request alone, so that however often a log repeats a
text, the error is that of counting a sample of some half a million.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.blocks import mix64
from kvtools.jit import kernel
from kvtools.similarity.shingles import SHINGLE_TOKENS, shingle_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.table import Ragged

BUDGET_SHINGLES = 1 << 20
"""Distinct shingles that are kept: 29 bytes each, twice where a log is not in the order of arrival."""

_STRETCH_TOKENS = 1 << 18
"""Tokens that are looked up in one table: it stays small enough for a processor's cache."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio (Knuth's multiplicative hashing)
_BITS = np.array([value.bit_count() for value in range(8)], dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Firsts:
    """The first request that carries each shingle, sorted by ``key`` (its hash within its namespace).

    ``request`` counts from the start of the state and arrived at ``arrival_us``. It carries the shingle ``count``
    times, first at token ``place``; bit j of ``follows`` says whether again at ``place + 1 + j`` (j below 3).
    """

    key: NDArray[np.uint64]
    request: NDArray[np.int32]
    arrival_us: NDArray[np.int64]
    place: NDArray[np.int32]
    count: NDArray[np.int32]
    follows: NDArray[np.uint8]

    @classmethod
    def none(cls) -> Firsts:
        """No shingle at all."""
        return cls(
            np.empty(0, np.uint64),
            np.empty(0, np.int32),
            np.empty(0, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.int32),
            np.empty(0, np.uint8),
        )

    def take(self, rows: NDArray[np.int64]) -> Firsts:
        """The entries ``rows``."""
        return Firsts(
            self.key[rows],
            self.request[rows],
            self.arrival_us[rows],
            self.place[rows],
            self.count[rows],
            self.follows[rows],
        )

    def at_level(self, level: int) -> Firsts:
        """The entries whose key ends in ``level`` zero bits."""
        return self.take(np.flatnonzero((self.key & np.uint64((1 << level) - 1)) == 0))

    def merged(self, later: Firsts, shift: int, *, by_arrival: bool) -> Firsts:
        """Return the first of both; ``later`` stands ``shift`` requests behind in the log."""
        both = Firsts(
            np.concatenate((self.key, later.key)),
            np.concatenate((self.request, later.request + np.int32(shift))),
            np.concatenate((self.arrival_us, later.arrival_us)),
            np.concatenate((self.place, later.place)),
            np.concatenate((self.count, later.count)),
            np.concatenate((self.follows, later.follows)),
        )
        times = both.arrival_us if by_arrival else np.zeros_like(both.arrival_us)
        return both.take(_earlier(both.key, times, len(self.key)))


@dataclass(slots=True)
class SeenText:
    """The state of the fold: rows are requests in log order, with tokens or without.

    ``by_log`` takes the order of the log, ``by_arrival`` that of arrival, equal times as logged; the two are one
    while the log stands ``in_order``. Both hold the same shingles.
    """

    level: int = 0
    by_log: Firsts = field(default_factory=Firsts.none)
    by_arrival: Firsts = field(default_factory=Firsts.none)
    in_order: bool = True
    first_us: int | None = None
    last_us: int | None = None
    requests: int = 0
    texts: list[NDArray[np.bool_]] = field(default_factory=list)

    def add(self, tokens: Ragged, namespaces: NDArray[np.uint64], arrival_us: NDArray[np.int64]) -> None:
        """Append the requests with these ``tokens`` (int32 ids).

        ``namespaces`` are digests (0: none); ``arrival_us`` is negative where it is unknown.
        """
        start = 0
        while start < len(tokens):
            reach = np.searchsorted(tokens.offsets, tokens.offsets[start] + _STRETCH_TOKENS, side="right") - 1
            stop = max(int(reach), start + 1)
            rows = slice(start, stop)
            offsets = tokens.offsets[start : stop + 1]
            self.merge(_stretch(tokens.values, offsets, namespaces[rows], arrival_us[rows], self.level))
            start = stop

    def add_without_text(self, arrival_us: NDArray[np.int64]) -> None:
        """Append requests of which only block ids are known: their text is no first sight of anything."""
        self.merge(_rows(arrival_us, has_text=False))

    def merge(self, later: SeenText) -> None:
        """Append ``later``, the stretch that follows in the log."""
        if not later.requests:
            return
        level = max(self.level, later.level)
        ordered = self.in_order and later.in_order and _follows(self.last_us, later.first_us)
        pairs = [(self.by_log, later.by_log, False)]
        if not ordered:
            pairs.append((self.by_arrival, later.by_arrival, True))
        kept = []
        for mine, theirs, by_arrival in pairs:
            one = mine if level == self.level else mine.at_level(level)
            other = theirs if level == later.level else theirs.at_level(level)
            kept.append(one.merged(other, self.requests, by_arrival=by_arrival))
        self.level, self.in_order = level, ordered
        self.by_log, self.by_arrival = kept[0], kept[-1]
        self.first_us = later.first_us if self.first_us is None else self.first_us
        self.last_us = later.last_us
        self.requests += later.requests
        self.texts += later.texts
        self._shrink()

    def _shrink(self) -> None:
        while len(self.by_log.key) > BUDGET_SHINGLES and self.level < 63:
            self.level += 1
            shared = self.by_arrival is self.by_log
            self.by_log = self.by_log.at_level(self.level)
            self.by_arrival = self.by_log if shared else self.by_arrival.at_level(self.level)

    def has_text(self, order: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Return for each request, in replay order, whether its tokens were known."""
        known = np.concatenate(self.texts) if self.texts else np.empty(0, dtype=np.bool_)
        return known if order is None else known[order]

    def cold_starts(
        self, order: NDArray[np.int64] | None, hit_tokens: NDArray[np.int64], counted: NDArray[np.bool_]
    ) -> int:
        """Return at how many tokens a shingle begins that no earlier request of the namespace carries.

        ``order`` is that of the replay (``profile.replay_order``; ``None``: the log's). Only tokens behind the first
        ``hit_tokens`` of ``counted`` requests count (both in replay order). Exact at level 0, else an estimate.
        """
        firsts = self.by_log if order is None else self.by_arrival
        row = firsts.request.astype(np.int64)
        if order is not None:
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            row = place[row]
        firsts, row = firsts.take(np.flatnonzero(counted[row])), row[counted[row]]
        # What lies wholly within the hits was seen before. So a first sight begins at most 4 tokens in front of them.
        over = np.clip(hit_tokens[row] - firsts.place, 0, SHINGLE_TOKENS - 1)
        again = firsts.follows & ((1 << np.maximum(over - 1, 0)) - 1)
        hit = np.where(over > 0, 1 + _BITS[again], 0)
        return int(np.maximum(firsts.count - hit, 0).sum()) << self.level


def _follows(last_us: int | None, first_us: int | None) -> bool:
    return last_us is None or first_us is None or last_us <= first_us


def _rows(arrival_us: NDArray[np.int64], *, has_text: bool) -> SeenText:
    if not len(arrival_us):
        return SeenText()
    return SeenText(
        in_order=bool((np.diff(arrival_us) >= 0).all()),
        first_us=int(arrival_us[0]),
        last_us=int(arrival_us[-1]),
        requests=len(arrival_us),
        texts=[np.full(len(arrival_us), has_text)],
    )


def _stretch(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    namespaces: NDArray[np.uint64],
    arrival_us: NDArray[np.int64],
    level: int,
) -> SeenText:
    state = _rows(arrival_us, has_text=True)
    state.level = level
    logged = np.arange(len(arrival_us))
    state.by_log = _firsts(tokens, offsets, namespaces, arrival_us, logged, level)
    state.by_arrival = state.by_log
    if not state.in_order:
        arrived = np.argsort(arrival_us, kind="stable")
        state.by_arrival = _firsts(tokens, offsets, namespaces, arrival_us, arrived, level)
    return state


def _firsts(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    namespaces: NDArray[np.uint64],
    arrival_us: NDArray[np.int64],
    order: NDArray[np.int64],
    level: int,
) -> Firsts:
    """Return the first request of each shingle of some requests that come in ``order``."""
    key, request, place = _kept(tokens, offsets, namespaces, order, np.uint64((1 << level) - 1))
    slots = np.full(1 << (2 * len(key)).bit_length(), -1, dtype=np.int32)
    count, follows = np.zeros(len(key), dtype=np.int32), np.zeros(len(key), dtype=np.uint8)
    _gather(key, request, place, slots, count, follows)
    first = np.flatnonzero(count)
    first = first[np.argsort(key[first])]
    rows = request[first]
    return Firsts(key[first], rows, arrival_us[rows], place[first], count[first], follows[first])


@kernel
def _kept(
    tokens: NDArray[np.int32],
    offsets: NDArray[np.int64],
    namespaces: NDArray[np.uint64],
    order: NDArray[np.int64],
    mask: np.uint64,
) -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.int32]]:
    """Return key, request and place of each shingle whose key ends in the zero bits of ``mask``."""
    most = offsets[-1] - offsets[0]
    key = np.empty(most, dtype=np.uint64)
    request, place = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    kept = 0
    for row in order:
        seed = mix64(namespaces[row])
        for token in range(offsets[row], offsets[row + 1] - 4):
            hashed = mix64(shingle_at(tokens, token) ^ seed)
            if not hashed & mask:
                key[kept], request[kept], place[kept] = hashed, row, token - offsets[row]
                kept += 1
    return key[:kept].copy(), request[:kept].copy(), place[:kept].copy()


@kernel
def _gather(
    key: NDArray[np.uint64],
    request: NDArray[np.int32],
    place: NDArray[np.int32],
    slots: NDArray[np.int32],
    count: NDArray[np.int32],
    follows: NDArray[np.uint8],
) -> None:
    """Count each shingle of its first request at its first place; other places keep a count of 0."""
    mask = np.uint64(len(slots) - 1)
    for index in range(len(key)):
        slot = ((key[index] * _SPREAD) >> np.uint64(20)) & mask
        while slots[slot] >= 0 and key[slots[slot]] != key[index]:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = index
        first = slots[slot]
        if request[first] == request[index]:
            count[first] += 1
            ahead = place[index] - place[first]
            if 0 < ahead < 4:
                follows[first] |= np.uint8(1 << (ahead - 1))


@kernel
def _earlier(key: NDArray[np.uint64], times: NDArray[np.int64], parted: int) -> NDArray[np.int64]:
    """Merge two sorted runs of keys, the second from ``parted`` on; of equal keys the earlier stays, else the first."""
    rows = np.empty(len(key), dtype=np.int64)
    one, other, kept = 0, parted, 0
    while one < parted or other < len(key):
        if other == len(key) or (one < parted and key[one] < key[other]):
            rows[kept] = one
            one += 1
        elif one == parted or key[other] < key[one]:
            rows[kept] = other
            other += 1
        else:
            rows[kept] = other if times[other] < times[one] else one
            one += 1
            other += 1
        kept += 1
    return rows[:kept].copy()
