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

    ``requests`` carry it; ``fixed`` is the replay with this fix alone. ``gain`` (0..1) and ``lost_tokens`` are the
    larger of both, never below 0; ``together`` says that only the others of the cluster make it pay.
    """

    candidate: Candidate
    cluster: Cluster
    requests: int
    fixed: Outcome
    gain: float
    severity: Severity
    lost_tokens: int = 0
    together: bool = False

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
            requests = len(changes[number, frozenset({place})])
            finding = _finding(candidate, cluster, requests, _Gains.of(place, fixes, mine, now))
            gain = finding.gain
            found.append((_points(best[number].outcome, now) if place in fixes else gain, finding))
    found.sort(key=lambda of: (-of[0], of[1].cluster.cluster_id, -of[1].gain, of[1].finding_id))
    order = sorted(best, key=lambda number: -_points(best[number].outcome, now))
    paying = [(number, best[number].fixes) for number in order if best[number].fixes]
    steps = _combined(paying, changes, trials, whatif, rewrite)
    return Ranked(now, tuple(f for _, f in found), tuple(best[number] for number in order), tuple(steps))


def _points(outcome: Outcome, other: Outcome) -> float:
    """Return how much higher the hit rate is (0..1), at most 0 where no fewer tokens are computed.

    A placeholder and the block of values are new tokens that all requests share: they hit, and nothing is saved.
    """
    higher = (outcome.hit_rate or 0.0) - (other.hit_rate or 0.0)
    return higher if outcome.computed_tokens < other.computed_tokens else min(higher, 0.0)


def _best_set(outcomes: Mapping[Fixes, Outcome], now: Outcome) -> Fixes:
    """Return the set with the highest hit rate, where each fix of it pays for itself."""

    def worth(fixes: Fixes) -> tuple[float, int]:
        return _points(outcomes[fixes], now) - RANKED_SHARE * len(fixes), -len(fixes)

    best = max(sorted(outcomes, key=sorted), key=worth)
    return best if worth(best)[0] > 0 else frozenset()


@dataclass(frozen=True, slots=True)
class _Gains:
    """What a fix gains alone, and what it adds to the best set of its cluster: hit rate (0..1) and hit tokens."""

    fixed: Outcome
    alone: tuple[float, int]
    added: tuple[float, int]

    @classmethod
    def of(cls, place: int, fixes: Fixes, outcomes: Mapping[Fixes, Outcome], now: Outcome) -> _Gains:
        alone = outcomes[frozenset({place})]
        if place not in fixes:
            return cls(alone, _difference(alone, now), (0.0, 0))
        without = fixes - {place}
        # Where the others of the set were not tried by themselves, all others were: they reach no less.
        others = now if not without else outcomes.get(without) or outcomes[_everything(outcomes) - {place}]
        return cls(alone, _difference(alone, now), _difference(outcomes[fixes], others))


def _everything(outcomes: Mapping[Fixes, Outcome]) -> Fixes:
    return frozenset().union(*outcomes)


def _difference(outcome: Outcome, other: Outcome) -> tuple[float, int]:
    return _points(outcome, other), outcome.hit_tokens - other.hit_tokens


def _finding(candidate: Candidate, cluster: Cluster, requests: int, gains: _Gains) -> Finding:
    gain, lost = max(gains.alone, gains.added)
    together = gains.added[0] > max(gains.alone[0], 0.0) and gains.alone[0] < RANKED_SHARE
    return Finding(
        candidate,
        cluster,
        requests,
        gains.fixed,
        max(gain, 0.0),
        severity_of(gain),
        max(lost, 0),
        together,
    )


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
