"""What a schedule means for each class: percentiles, throughput, hits, KV usage; and whether a split pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.model import share
from kvtools.plan.schedule_state import FINISHED, KILLED, REFUSED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.plan.schedule import Schedule

HOT, COLD, ALL = "hot", "cold", "all"


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of a time in ms; ``None`` where no request has one. A percentile is one of the values (nearest rank above)."""

    p50: float | None
    p90: float | None
    p99: float | None

    @classmethod
    def of(cls, times_us: NDArray[np.int64]) -> Percentiles:
        """Return the percentiles of times in µs."""
        if not len(times_us):
            return cls(None, None, None)
        values = np.quantile(times_us, (0.5, 0.9, 0.99), method="higher") / 1000
        return cls(*map(float, values))


@dataclass(frozen=True, slots=True)
class Usage:
    """KV usage over time, shares of 0..1: what is not exceeded for 5, 50 and 95 % of it, and the most at once."""

    p5: float
    p50: float
    p95: float
    most: float

    @property
    def swing(self) -> float:
        """The width between the 5th and the 95th percentile."""
        return self.p95 - self.p5


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class under one policy.

    ``finished`` complete, ``refused`` never let in, ``killed`` ended early, ``too_large`` can never run: together
    ``requests``. ``interrupted`` were preempted at least once, ``shortened`` got a shorter answer, ``promoted`` were
    cold and became hot, ``moved`` were served by a CPU. ``tier_hit_tokens``: what a second tier brought back. TTFT and
    latency are those of finished requests, from their first arrival.
    """

    policy: str
    name: str
    requests: int
    finished: int
    ttft_ms: Percentiles
    latency_ms: Percentiles
    throughput_tokens_s: float
    requests_s: float
    hit_rate: float | None
    refused: int
    interrupted: int
    killed: int
    shortened: int
    promoted: int
    too_large: int
    moved: int = 0
    tier_hit_tokens: int = 0
    usage: Usage | None = None

    @property
    def lost_share(self) -> float:
        """Requests refused or killed over all (0..1)."""
        return share(self.refused + self.killed, self.requests) or 0.0


def figures_of(done: Schedule, hot: NDArray[np.bool_], capacity: int | None) -> list[ClassFigures]:
    """Return the figures of hot, of cold (where there are any) and of all requests."""
    rows = {HOT: hot, COLD: ~hot, ALL: np.ones(len(hot), dtype=np.bool_)}
    span_s = max(span_us(done), 1) / 1e6
    return [
        _of_class(done, name, members, span_s, _usage(done, capacity) if name == ALL else None)
        for name, members in rows.items()
        if members.any() or name == ALL
    ]


def span_us(done: Schedule) -> int:
    """Return the µs from the first arrival to the last end, 0 without requests."""
    if not len(done.arrival_us):
        return 0
    return int(max(done.end_us.max(), done.arrival_us.max()) - done.arrival_us.min())


def _usage(done: Schedule, capacity: int | None) -> Usage | None:
    if capacity is None:
        return None
    return Usage(
        done.usage_quantile(0.05),
        done.usage_quantile(0.5),
        done.usage_quantile(0.95),
        done.most_blocks / capacity,
    )


def _of_class(
    done: Schedule, name: str, members: NDArray[np.bool_], span_s: float, usage: Usage | None
) -> ClassFigures:
    complete = members & (done.outcome == FINISHED)
    arrival = done.arrival_us[complete]
    return ClassFigures(
        policy=done.policy.name,
        name=name,
        requests=int(members.sum()),
        finished=int(complete.sum()),
        ttft_ms=Percentiles.of(done.first_us[complete] - arrival),
        latency_ms=Percentiles.of(done.end_us[complete] - arrival),
        throughput_tokens_s=float(done.tokens[complete].sum()) / span_s,
        requests_s=float(complete.sum()) / span_s,
        hit_rate=share(int(done.hit_tokens[members].sum()), int(done.queried_tokens[members].sum())),
        refused=int((members & (done.outcome == REFUSED)).sum()),
        interrupted=int((members & (done.interruptions > 0)).sum()),
        killed=int((members & (done.outcome == KILLED)).sum()),
        shortened=int((members & done.shortened).sum()),
        promoted=int((members & done.promoted).sum()),
        too_large=int((members & done.too_large).sum()),
        moved=int((members & done.moved).sum()),
        tier_hit_tokens=int(done.tier_hit_tokens[members].sum()),
        usage=usage,
    )
