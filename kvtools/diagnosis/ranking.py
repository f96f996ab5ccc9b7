"""Rank the findings by what their fix gains, and find the best combination: every figure is a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from kvtools.diagnosis.candidates import Candidate, Cluster
    from kvtools.diagnosis.trials import Fixes, Trials
    from kvtools.diagnosis.whatif import Outcome, Prompted, WhatIf

RANKED_SHARE = 0.001
"""A fix that gains a tenth of a point of hit rate is worth advice; less is information."""

HIGH_SHARE = 0.01

Severity = Literal["high", "medium", "info"]

Rewrite: TypeAlias = "Callable[[Sequence[tuple[Cluster, Fixes]], NDArray[np.int64]], Prompted]"


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause: what its fix alone would gain, and what it adds beside the other fixes of its cluster.

    ``requests`` carry it; ``fixed`` is the replay with this fix alone.
    """

    candidate: Candidate
    cluster: Cluster
    requests: int
    fixed: Outcome
    gain: float
    severity: Severity

    @property
    def finding_id(self) -> str:
        """The candidate's name."""
        return self.candidate.finding_id


@dataclass(frozen=True, slots=True)
class Step:
    """One step towards the best combination: the findings fixed in it, and the replay of all up to here."""

    findings: tuple[str, ...]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ClusterOutcome:
    """The fixes of one cluster that pay together, and their replay; no findings where none pays."""

    cluster: Cluster
    fixes: Fixes
    outcome: Outcome

    @property
    def findings(self) -> tuple[str, ...]:
        """The findings that are fixed, in the order of their places."""
        return tuple(self.cluster.candidates[one].finding_id for one in sorted(self.fixes))


@dataclass(frozen=True, slots=True)
class Ranked:
    """The findings, dearest first and those of one cluster together; the steps of the best combination."""

    now: Outcome
    findings: tuple[Finding, ...]
    clusters: tuple[ClusterOutcome, ...]
    steps: tuple[Step, ...]


def ranked(trials: Trials, whatif: WhatIf, rewrite: Rewrite) -> Ranked:
    """Replay every trial and return the findings in the order of their gain.

    ``rewrite`` makes several fixes at once in the requests that more than one of them changes.
    """
    now = whatif.replayed()
    changes = {(trial.cluster, trial.fixes): trial.prompted() for trial in trials.trials}
    outcomes = {key: whatif.replayed([change]) for key, change in changes.items()}
    best: dict[int, ClusterOutcome] = {}
    found: list[tuple[float, Finding]] = []
    for number, cluster in enumerate(trials.clusters):
        mine = {fixes: outcome for (owner, fixes), outcome in outcomes.items() if owner == number}
        fixes = _best_set(mine, now)
        best[number] = ClusterOutcome(cluster, fixes, mine[fixes] if fixes else now)
        for place, candidate in enumerate(cluster.candidates):
            alone = mine[frozenset({place})]
            gain = max(_points(alone, now), _adds(place, fixes, mine))
            requests = len(changes[number, frozenset({place})])
            finding = Finding(candidate, cluster, requests, alone, gain, severity_of(gain))
            found.append((_points(best[number].outcome, now) if place in fixes else gain, finding))
    found.sort(key=lambda of: (-of[0], of[1].cluster.cluster_id, -of[1].gain, of[1].finding_id))
    order = sorted(best, key=lambda number: -_points(best[number].outcome, now))
    paying = [(number, best[number].fixes) for number in order if best[number].fixes]
    steps = _combined(paying, changes, trials, whatif, rewrite)
    return Ranked(now, tuple(f for _, f in found), tuple(best[number] for number in order), tuple(steps))


def _points(outcome: Outcome, other: Outcome) -> float:
    """Return how much higher the hit rate is (0..1)."""
    return (outcome.hit_rate or 0.0) - (other.hit_rate or 0.0)


def _best_set(outcomes: Mapping[Fixes, Outcome], now: Outcome) -> Fixes:
    """Return the set with the highest hit rate, where each fix of it pays for itself."""

    def worth(fixes: Fixes) -> tuple[float, int]:
        return _points(outcomes[fixes], now) - RANKED_SHARE * len(fixes), -len(fixes)

    best = max(sorted(outcomes, key=sorted), key=worth)
    return best if worth(best)[0] > 0 else frozenset()


def _adds(place: int, fixes: Fixes, outcomes: Mapping[Fixes, Outcome]) -> float:
    """Return what a fix adds to the others of the best set (0..1), where that was tried."""
    without = fixes - {place}
    if place not in fixes or without not in outcomes:
        return 0.0
    return _points(outcomes[fixes], outcomes[without])


def severity_of(gain: float) -> Severity:
    """Return how much a gain of hit rate (0..1) matters."""
    if gain >= HIGH_SHARE:
        return "high"
    return "medium" if gain >= RANKED_SHARE else "info"


def _combined(
    best: Sequence[tuple[int, Fixes]],
    changes: Mapping[tuple[int, Fixes], Prompted],
    trials: Trials,
    whatif: WhatIf,
    rewrite: Rewrite,
) -> list[Step]:
    """Add the best sets one after another, the largest gain first; each step that pays stays."""
    steps: list[Step] = []
    kept: list[tuple[int, Fixes]] = []
    made: list[Prompted] = []
    reached = whatif.replayed()
    for number, fixes in best:
        mine = changes[number, fixes]
        taken = np.concatenate([change.numbers for change in made] or [mine.numbers[:0]])
        twice = np.intersect1d(taken, mine.numbers)
        step = [mine]
        if len(twice):
            step.append(rewrite([(trials.clusters[n], f) for n, f in (*kept, (number, fixes))], twice))
        outcome = whatif.replayed([*made, *step])
        if _points(outcome, reached) < RANKED_SHARE:
            continue
        kept.append((number, fixes))
        made += step
        reached = outcome
        candidates = trials.clusters[number].candidates
        steps.append(Step(tuple(candidates[one].finding_id for one in sorted(fixes)), outcome))
    return steps
