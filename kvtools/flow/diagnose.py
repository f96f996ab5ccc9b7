"""Diagnosis: a sample of the log's texts says what may break the prefix; a second pass says what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.diagnosis.apart import Apart
from kvtools.diagnosis.byte_forms import form_clusters
from kvtools.diagnosis.candidates import FIRST_SECTIONS, Bounds, clusters_of
from kvtools.diagnosis.history import BrokenTurns, HistoryFinding, causes_of, priced, turns_of
from kvtools.diagnosis.ranking import RANKED_SHARE, Ranked, ranked
from kvtools.diagnosis.rekeyed import keyed_again, prompts_of
from kvtools.diagnosis.trials import Fixes, Trials, rewriting_of
from kvtools.diagnosis.whatif import Prompted, WhatIf
from kvtools.fields import SectionSample, grouped, learn_group
from kvtools.fields.catalogue import Catalogue
from kvtools.flow.section_order import GatheredChats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.diagnosis.candidates import Cluster
    from kvtools.diagnosis.history import Cause
    from kvtools.diagnosis.turns import Turn
    from kvtools.diagnosis.whatif import Outcome
    from kvtools.flow.intake import Intake
    from kvtools.model import CacheSpec
    from kvtools.profile import Keyed, RequestColumns
    from kvtools.readers import Chunk
    from kvtools.sessions import Sessions

MAX_CLUSTERS = 56
MAX_FORM_CLUSTERS = 8
"""Clusters that are replayed, those that can gain most; a request knows its clusters by the bits of a word."""


@dataclass(slots=True)
class Gathered:
    """What the first pass keeps for the diagnosis: texts, and which requests of each chunk have a prompt.

    Without a ``catalogue`` of kinds no diagnosis is wanted, and nothing is kept.
    """

    catalogue: Catalogue | None
    sample: SectionSample = field(default_factory=SectionSample)
    chats: GatheredChats = field(default_factory=GatheredChats)
    apart: Apart = field(default_factory=Apart)
    rows: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def has_text(self) -> bool:
        """Whether any request had text to look at."""
        return bool(self.sample.texts) or self.sample.level > 0

    def add(self, chunk: Chunk, keyed: Keyed) -> None:
        """Take in a chunk of the first pass."""
        if self.catalogue is None:
            return
        self.sample.add(chunk.requests, keyed.rows)
        self.chats.add(chunk.requests, keyed.rows)
        self.apart.add(chunk.requests, keyed)
        self.rows.append(keyed.rows)


def diagnosis_catalogue(patterns: Path | None) -> Catalogue:
    """Return the kinds of values that are known, with those of a file of the user's.

    Raises:
        InputError: the file is missing or not TOML.
        UsageError: a pattern in it is wrong.
    """
    return Catalogue.bundled() if patterns is None else Catalogue.bundled().extended(patterns)


def whatif_of(
    requests: RequestColumns, order: NDArray[np.int64] | None, spec: CacheSpec, measure_from: float
) -> WhatIf:
    """Return the log as it was, for replays with other prompts. ``requests`` are in log order."""
    return WhatIf(
        prompt_tokens=requests.prompt_tokens,
        keys=requests.keys,
        samples=requests.samples,
        skip_lookup=requests.skip_lookup,
        order=np.arange(len(requests.prompt_tokens)) if order is None else order,
        spec=spec,
        measure_from=measure_from,
    )


def diagnose(
    intake: Intake, gathered: Gathered, whatif: WhatIf, sessions: Sessions
) -> tuple[Ranked, list[HistoryFinding]]:
    """Return what breaks the prefixes of a log, each cause with its replayed gain.

    ``sessions`` are in replay order. The log is read once more, and again where fixes of two clusters meet in one
    request, or where turns of a conversation do not extend each other.
    """
    clusters = _clusters(intake, gathered, whatif)
    trials = Trials.of(clusters, intake.keying)
    broken = BrokenTurns.of(whatif.keys, sessions, whatif.order)
    wanted = broken.requests()
    turns: dict[int, Turn] = {}
    if clusters or len(wanted):
        for table, rows, first in second_pass(intake, gathered.rows):
            trials.add(table, rows, first)
            mine = wanted[(wanted >= first) & (wanted < first + len(rows))]
            turns.update(zip(mine.tolist(), turns_of(table, rows[mine - first]), strict=True))

    def rewrite(fixes: Sequence[tuple[Cluster, Fixes]], numbers: NDArray[np.int64]) -> Prompted:
        return _rewritten(intake, gathered.rows, fixes, numbers)

    found = ranked(trials, whatif, rewrite)
    causes = causes_of(broken, turns, _explained(trials, found))
    return found, [_priced(intake, gathered.rows, cause, broken.every, found.now, whatif) for cause in causes]


def _explained(trials: Trials, found: Ranked) -> set[int]:
    """Return the requests in whose first section a fix worth advice, or one byte form, changes something."""
    advised = {
        f.cluster.cluster_id
        for f in found.findings
        if f.candidate.forms or (f.severity != "info" and f.candidate.role in FIRST_SECTIONS)
    }
    bits = sum(1 << n for n, cluster in enumerate(trials.clusters) if cluster.cluster_id in advised)
    touched = np.concatenate(trials.touched) if trials.touched else np.empty(0, dtype=np.uint64)
    return set(np.flatnonzero(touched & np.uint64(bits)).tolist())


def _priced(
    intake: Intake,
    rows: Sequence[NDArray[np.int64]],
    cause: Cause,
    every: int,
    now: Outcome,
    whatif: WhatIf,
) -> HistoryFinding:
    if every > 1 or not cause.whole:
        return priced(cause, every, now, None)
    numbers = np.array(sorted(cause.mended), dtype=np.int64)
    changes = []
    for table, kept, first in second_pass(intake, rows):
        mine = numbers[(numbers >= first) & (numbers < first + len(kept))]
        if len(mine):
            changed = [(number - first, cause.mended[number]) for number in mine.tolist()]
            changes.append(keyed_again(intake.keying, table, kept, first, changed))
    return priced(cause, every, now, whatif.replayed(changes))


def _clusters(intake: Intake, gathered: Gathered, whatif: WhatIf) -> list[Cluster]:
    sample = gathered.sample
    texts = list(sample.texts.values())
    # What a tool returned is data: a value in it has no other place.
    composed = [text for text in texts if text.role != "tool"]
    learned = [
        one
        for group in grouped(composed)
        for one in learn_group(group, gathered.catalogue or Catalogue.bundled())
    ]
    bounds = Bounds(
        count_tokens=lambda them: intake.tokenizer.encode(list(them)).lengths().tolist(),
        block_size=whatif.spec.block_size,
        scale=sample.scale,
        every_request=whatif.spec.capacity_blocks is not None,
        least=RANKED_SHARE * float(whatif.prompt_tokens.sum()),
    )
    found = sorted(
        clusters_of(learned, bounds),
        key=lambda c: -max(candidate.bound_tokens for candidate in c.candidates),
    )
    return found[:MAX_CLUSTERS] + form_clusters(texts, sample.scale)[:MAX_FORM_CLUSTERS]


def second_pass(
    intake: Intake, rows: Sequence[NDArray[np.int64]]
) -> Iterator[tuple[pd.DataFrame, NDArray[np.int64], int]]:
    """Yield each chunk's table once more, with the requests that have a prompt and the number of the first."""
    first, tables = 0, intake.again()
    for kept in rows:
        table = next(tables, None)
        if table is None or (len(kept) and len(table) <= kept[-1]):
            break
        yield table, kept, first
        first += len(kept)
    for _ in tables:
        pass  # only at its end does the pass say that a file has changed


def _rewritten(
    intake: Intake,
    rows: Sequence[NDArray[np.int64]],
    fixes: Sequence[tuple[Cluster, Fixes]],
    numbers: NDArray[np.int64],
) -> Prompted:
    """Return some requests with all these fixes at once."""
    rewriting, parts = rewriting_of(fixes), []
    for table, kept, first in second_pass(intake, rows):
        mine = numbers[(numbers >= first) & (numbers < first + len(kept))] - first
        if len(mine):
            prompts = prompts_of(table, kept[mine])
            changed = [
                (at, prompt.rewritten(rewriting)) for at, prompt in zip(mine.tolist(), prompts, strict=True)
            ]
            parts.append(keyed_again(intake.keying, table, kept, first, changed))
    return Prompted.joined(parts)
