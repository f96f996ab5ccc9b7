"""The best limits of a policy under given latency limits: random search on the first part of a log, judged on the rest.

Random search (Bergstra and Bengio, 2012) with a seed: few parameters, a noisy and jumpy goal, nothing to differentiate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.plan.schedule_figures import ALL
from kvtools.plan.schedule_policies import DYNAMIC, HOTCOLD, PARTITIONED, cold_seats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kvtools.plan.schedule_figures import ClassFigures
    from kvtools.plan.schedule_policies import PolicyLimits

SEARCHED = {
    HOTCOLD: ("cold_seqs", "cold_timeout_s"),
    PARTITIONED: ("hot_reserve",),
    DYNAMIC: ("cold_seqs", "dynamic_timeout_s", "cold_step_tokens"),
}
"""What is drawn for each policy that has limits worth drawing."""

LOST_WEIGHT = 10.0
"""A lost request weighs as much as a class that is so many times over its limit: limits are not met by refusing."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best limits of ``tries``, and their score on the part they were chosen on (``score``: less is better)."""

    policy: str
    limits: PolicyLimits
    score: float
    tries: int

    def settings(self, max_num_seqs: int) -> dict[str, float]:
        """Return the limits that were searched, by name."""
        found = {name: getattr(self.limits, name) for name in SEARCHED[self.policy]}
        return {name: cold_seats(max_num_seqs) if value is None else value for name, value in found.items()}


def score(figures: Sequence[ClassFigures], limits_ms: Mapping[str, tuple[float, float]]) -> float:
    """Return how far over the limits the classes are, with what was lost; less is better.

    0 and less where every limit is kept; then the less latency the whole has, the lower.
    """
    over, lost, latency = 0.0, 0.0, 0.0
    for one in figures:
        if one.name == ALL:
            lost, latency = one.lost_share, one.latency_ms.p90 or np.inf
            continue
        for value, limit in zip((one.ttft_ms.p50, one.ttft_ms.p99), limits_ms[one.name], strict=True):
            over += np.inf if value is None and one.requests else max((value or 0.0) / limit - 1, 0.0)
    total = over + LOST_WEIGHT * lost
    return float(total if total > 0 else -1 / max(latency, 1e-9))


def search(
    policy: str,
    base: PolicyLimits,
    max_num_seqs: int,
    judge: Callable[[PolicyLimits], float],
    tries: int,
    seed: int,
) -> Found:
    """Return the best of ``tries`` limits, the given ones among them; ``judge`` returns a score, less is better."""
    chance = np.random.default_rng(seed)
    best, least = base, judge(base)
    for _ in range(tries - 1):
        # Every draw takes the same numbers, so that a policy's limits do not depend on another's.
        seats, wait, part, chunk = chance.random(4).tolist()
        drawn = {
            "cold_seqs": max(1, round(max_num_seqs**seats)),
            "cold_timeout_s": round(float(120.0**wait), 1),
            "dynamic_timeout_s": round(float(120.0**wait), 1),
            "hot_reserve": round(0.6 * part, 2),
            "cold_step_tokens": round(float(base.least_step_tokens * 32.0**chunk)),
        }
        candidate = replace(base, **{name: drawn[name] for name in SEARCHED[policy]})
        found = judge(candidate)
        if found < least:
            best, least = candidate, found
    return Found(policy, best, least, tries)
