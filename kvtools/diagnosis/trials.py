"""Trials: the log's prompts as the fixes of one cluster would make them, alone and together, as block keys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.diagnosis.rekeyed import keyed_again, prompts_of
from kvtools.diagnosis.whatif import Prompted
from kvtools.normalize import Moves, OneForm, Rewriting

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.diagnosis.candidates import Cluster
    from kvtools.fields import SectionTemplate
    from kvtools.profile import Keying

MEMO_TEXTS = 1 << 14

Fixes = frozenset[int]
"""Candidates of one cluster, by their place in it."""


def trial_sets(candidates: int) -> list[Fixes]:
    """Return the sets of fixes that are tried: each alone, the first k together, all but one, all.

    The first k together because a prefix is broken by its first fault: the next one shows only then.
    """
    everything = frozenset(range(candidates))
    sets = [frozenset({one}) for one in range(candidates)]
    sets += [frozenset(range(k)) for k in range(2, candidates)]
    sets += [everything - {one} for one in range(candidates)] if candidates > 2 else []
    sets.append(everything)
    return list(dict.fromkeys(fixes for fixes in sets if fixes))


def rewriting_of(fixes: Sequence[tuple[Cluster, Fixes]]) -> Rewriting:
    """Return what makes these fixes: moves of one template are made at once."""
    gaps: dict[SectionTemplate, list[int]] = {}
    forms: list[OneForm] = []
    for cluster, chosen in fixes:
        for candidate in (cluster.candidates[one] for one in sorted(chosen)):
            forms.extend(candidate.forms)
            for one in candidate.moves:
                gaps.setdefault(one.template, []).extend(one.gaps)
    moves = tuple(Moves(template, tuple(sorted(numbers))) for template, numbers in gaps.items())
    return Rewriting(moves, tuple(forms))


@dataclass(slots=True)
class Trial:
    """One set of fixes of one cluster: which requests it changes, and into what."""

    cluster: int
    fixes: Fixes
    rewriting: Rewriting
    parts: list[Prompted] = field(default_factory=list)

    def prompted(self) -> Prompted:
        """Return all changed requests."""
        return Prompted.joined(self.parts)


@dataclass(slots=True)
class Trials:
    """All trials of a log; ``add`` takes the log chunk by chunk, in the order of the first pass.

    ``touched`` has a bit per cluster for each request that it changes.
    """

    clusters: Sequence[Cluster]
    keying: Keying
    trials: list[Trial]
    touched: list[NDArray[np.uint64]] = field(default_factory=list)
    _known: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, clusters: Sequence[Cluster], keying: Keying) -> Trials:
        """Set up a trial for each set of fixes of each cluster."""
        trials = [
            Trial(number, fixes, rewriting_of([(cluster, fixes)]))
            for number, cluster in enumerate(clusters)
            for fixes in trial_sets(len(cluster.candidates))
        ]
        return cls(clusters, keying, trials)

    def add(self, table: pd.DataFrame, rows: NDArray[np.int64], first: int) -> None:
        """Try every fix on the requests ``rows`` of a chunk; the first of them is request ``first`` of the log."""
        prompts = prompts_of(table, rows)
        bits = np.array([self._bits(prompt.texts) for prompt in prompts], dtype=np.uint64)
        self.touched.append(bits)
        for trial in self.trials:
            mine = np.flatnonzero(bits & np.uint64(1 << trial.cluster))
            if len(mine):
                changed = [(index, prompts[index].rewritten(trial.rewriting)) for index in mine.tolist()]
                trial.parts.append(keyed_again(self.keying, table, rows, first, changed))

    def _bits(self, texts: Sequence[tuple[str, str]]) -> int:
        bits = 0
        for text in texts:
            known = self._known.get(text)
            if known is None:
                known = self._clusters_of(*text)
                if len(self._known) >= MEMO_TEXTS:
                    self._known.clear()
                self._known[text] = known
            bits |= known
        return bits

    def _clusters_of(self, role: str, text: str) -> int:
        bits, seen = 0, set()
        for trial in self.trials:
            if trial.cluster not in seen and len(trial.fixes) == len(self.clusters[trial.cluster].candidates):
                seen.add(trial.cluster)
                if trial.rewriting.text(role, text) != text:
                    bits |= 1 << trial.cluster
        return bits
