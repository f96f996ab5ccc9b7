"""Hits of a log that grows, request by request, in fixed memory."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.heat.rules import BUSINESS_TOKENS
from kvtools.model import share
from kvtools.monitor.rolling import RollingCache
from kvtools.readers.duplicates import Deduplicator
from kvtools.report.watch import Stretch
from kvtools.table import Ragged, integer_column, offsets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.profile import Keyed, Keying
    from kvtools.readers import Chunk

CAPACITY_BLOCKS = 1 << 20
"""Blocks that are remembered where nobody says how many: 16.8 M tokens in blocks of 16, about 24 MB."""

_REQUESTS_REMEMBERED = 50_000
"""Calls that are looked through for a repeated one: between so many and twice as many of the last."""

_QUERIED, _HIT, _COLD = range(3)


@dataclass(slots=True)
class _LastCalls:
    """Drops calls that were logged twice, as ``Deduplicator`` does, among the last of them."""

    _older: Deduplicator = field(default_factory=Deduplicator)
    _newer: Deduplicator = field(default_factory=Deduplicator)
    _seen: int = 0

    def first_time(self, chunk: Chunk) -> tuple[Chunk, int]:
        chunk, dropped = self._older.first_time(chunk)
        chunk, more = self._newer.first_time(chunk)
        self._seen += len(chunk.requests)
        if self._seen >= _REQUESTS_REMEMBERED:
            self._older, self._newer, self._seen = self._newer, Deduplicator(), 0
        return chunk, dropped + more


@dataclass(slots=True)
class Tally:
    """What was read and what hit. ``counts``: records by what became of them."""

    capacity_blocks: int
    recent_requests: int
    cache: RollingCache = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    last_reject: tuple[str, str] | None = None
    now: list[int] = field(default_factory=lambda: [0, 0, 0])
    total: list[int] = field(default_factory=lambda: [0, 0, 0])
    reported: list[int] = field(default_factory=lambda: [0, 0, 0])
    _recent: deque[tuple[int, int, int]] = field(init=False)
    _calls: _LastCalls = field(default_factory=_LastCalls)

    def __post_init__(self) -> None:
        self.cache = RollingCache(self.capacity_blocks)
        self._recent = deque(maxlen=self.recent_requests)

    def first_time(self, chunk: Chunk) -> Chunk:
        """Return the chunk without calls that were there before, with its records counted."""
        self.counts["read"] += chunk.records
        self._rejected(chunk.reject_rows())
        fresh, dropped = self._calls.first_time(chunk)
        self.counts["duplicates"] += dropped
        return fresh

    def add(self, fresh: Chunk, keyed: Keyed, keying: Keying) -> None:
        """Look up the requests of a chunk."""
        table, rows = fresh.requests, keyed.rows
        self._rejected(keyed.rejects)
        self.counts["not_sent"] += keyed.not_sent
        self.counts["without_prompt"] += len(table) - len(rows) - keyed.not_sent - len(keyed.rejects)
        if not len(rows):
            return
        self._report(
            integer_column(table, "prompt_tokens")[rows], integer_column(table, "cached_tokens")[rows]
        )
        skip = integer_column(table, "skip_lookup", 0)[rows] > 0
        samples = np.maximum(integer_column(table, "samples", 1)[rows], 1)
        hit = self._hits(keyed, keying, skip, samples)
        queried = np.where(skip, 0, keyed.prompt_tokens * samples)
        cold = keyed.prompt_tokens > BUSINESS_TOKENS
        self._recent.extend(zip(queried.tolist(), hit.tolist(), cold.tolist(), strict=True))
        for sums in (self.now, self.total):
            for place, value in enumerate((len(rows), queried.sum(), hit.sum())):
                sums[place] += int(value)

    def _hits(
        self, keyed: Keyed, keying: Keying, skip: NDArray[np.bool_], samples: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the hit tokens of each request; one for n answers is n lookups."""
        size, trace = keying.block_size or 1, keying.rules == "trace"
        listed = keyed.keys.lengths()
        limit = listed if trace else np.minimum(listed, (keyed.prompt_tokens - 1) // size)
        limit = np.where(skip, 0, np.maximum(limit, 0))
        owner = np.repeat(np.arange(len(samples)), samples)
        blocks = keyed.keys if len(owner) == len(samples) else keyed.keys.take(owner)
        found = self.cache.hits(Ragged(blocks.values.astype(np.uint64), blocks.offsets), limit[owner])
        tokens = found * size
        if trace:  # the last block holds what is left
            whole = (found == listed[owner]) & (found > 0)
            tokens = np.where(whole, keyed.prompt_tokens[owner], tokens)
        ends = offsets_of(samples)
        sums = np.concatenate(([0], np.cumsum(tokens)))
        hits: NDArray[np.int64] = sums[ends[1:]] - sums[ends[:-1]]
        return hits

    def _report(self, prompt: NDArray[np.int64], cached: NDArray[np.int64]) -> None:
        """Sum what the server said, of requests of which it said both: one side alone is no rate."""
        both = (prompt >= 0) & (cached >= 0)
        for place, value in enumerate((both.sum(), prompt[both].sum(), cached[both].sum())):
            self.reported[place] += int(value)

    def _rejected(self, rows: list[tuple[str, str, str]]) -> None:
        self.counts["rejected"] += len(rows)
        if rows:
            self.last_reject = (rows[-1][0], rows[-1][2])

    def stretches(self) -> tuple[Stretch, Stretch, Stretch, Stretch | None]:
        """Return this interval, the last requests, all, and what the server reported; the interval begins anew."""
        now, self.now = self.now, [0, 0, 0]
        recent = [len(self._recent), *(sum(one[place] for one in self._recent) for place in (_QUERIED, _HIT))]
        reported = _stretch(self.reported) if self.reported[0] else None
        return _stretch(now), _stretch(recent), _stretch(self.total), reported

    @property
    def cold_share(self) -> float | None:
        """Prompts over 1,000 tokens among the last requests: cold by article B's rule."""
        return share(sum(one[_COLD] for one in self._recent), len(self._recent))


def _stretch(sums: list[int]) -> Stretch:
    requests, queried, hit = sums
    return Stretch(requests=requests, queried=queried, hit=hit, hit_rate=share(hit, queried))
