"""What ``normalize`` moves: the fixes that pay by replay, fields named by hand, or given templates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvtools.diagnosis.trials import rewriting_of
from kvtools.errors import ChangedInput, UsageError
from kvtools.fields import grouped, learn_group
from kvtools.flow.diagnose import Gathered, diagnose, whatif_of
from kvtools.model import CacheSpec
from kvtools.normalize import Moves, Rewriting
from kvtools.normalize.given_templates import read_templates
from kvtools.normalize.manifest import TemplateFile, template_name
from kvtools.normalize.modes import is_within
from kvtools.profile import LogProfile, map_chunk, replay_order
from kvtools.sessions import find_sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kvtools.diagnosis.candidates import Cluster
    from kvtools.diagnosis.ranking import Ranked
    from kvtools.diagnosis.trials import Fixes
    from kvtools.diagnosis.whatif import Outcome, WhatIf
    from kvtools.fields import Learned
    from kvtools.fields.catalogue import Catalogue
    from kvtools.flow.intake import Intake
    from kvtools.flow.sizing import CacheMemory
    from kvtools.normalize.modes import Within
    from kvtools.profile import RequestColumns


@dataclass(slots=True)
class Measured:
    """One pass over a log: its requests in replay order (``log`` or ``arrival``), as a what-if, and its hit rate."""

    profile: LogProfile
    order: str
    requests: RequestColumns
    whatif: WhatIf
    now: Outcome


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is moved. ``gains`` gives for a template's id the hit rate (0..1) that its moves alone reach."""

    moves: tuple[Moves, ...] = ()
    gains: dict[str, float | None] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    routes: dict[str, str | None] = field(default_factory=dict)

    def files(self, count_tokens: Callable[[str], int]) -> list[TemplateFile]:
        """Return the templates as ``--learn`` writes them; ``count_tokens`` counts what never changes in front."""
        return [
            TemplateFile(
                name=template_name(moves.template),
                moves=moves,
                route=self.routes.get(moves.template_id),
                requests=self.requests.get(moves.template_id),
                stable_tokens=count_tokens(_stable_head(moves)),
                hit_rate_if_moved=self.gains.get(moves.template_id),
            )
            for moves in self.moves
        ]

    @property
    def rewriting(self) -> Rewriting:
        """What makes these moves."""
        return Rewriting(self.moves)


def _stable_head(moves: Moves) -> str:
    """Return what stands in front of the first value once the others have moved: text that never changes."""
    head = [moves.template.literals[0]]
    for gap, mark in enumerate(moves.marks):
        if gap not in moves.gaps:
            break
        head += (mark, moves.template.literals[gap + 1])
    return "".join(head)


def given(directory: Path, within: Within) -> Chosen:
    """Return the moves of templates on disk.

    Raises:
        InputError: the folder holds none, or one that cannot be matched.
    """
    entries = [
        entry
        for entry in read_templates(directory)
        if entry.moves.gaps and is_within(entry.moves.template.role, within)
    ]
    return Chosen(
        tuple(entry.moves for entry in entries),
        {entry.moves.template_id: entry.hit_rate_if_moved for entry in entries},
        routes={entry.moves.template_id: entry.route for entry in entries},
    )


def measured(
    intake: Intake, gathered: Gathered, capacity_blocks: int | None, memory: CacheMemory | None
) -> Measured:
    """Read a log once and replay it.

    Raises:
        InputError: it has no request with a prompt.
    """
    profile = LogProfile()
    for chunk, keyed, dropped in intake.chunks():
        profile.merge(map_chunk(chunk, keyed, dropped))
        gathered.add(chunk, keyed)
    block_size, rules = intake.settled(profile.counts, profile.prompts)
    logged = profile.requests()
    order = replay_order(logged.arrival_us)
    capacity = memory.capacity_blocks(block_size) if memory else capacity_blocks
    whatif = whatif_of(logged, order, CacheSpec(block_size, capacity, rules), 0.0)
    requests = logged if order is None else logged.take(order)
    return Measured(profile, "log" if order is None else "arrival", requests, whatif, whatif.replayed())


def paying(intake: Intake, gathered: Gathered, log: Measured, within: Within) -> Chosen:
    """Return the moves of the best combination of fixes that ``analyze`` finds, in the messages ``within``.

    Raises:
        ChangedInput: a file changed while it was read.
    """
    sessions = find_sessions(log.requests, log.requests.session)
    ranked, _ = diagnose(intake, gathered, log.whatif, sessions)
    return _of_ranked(ranked, within)


def _of_ranked(ranked: Ranked, within: Within) -> Chosen:
    taken = {finding for step in ranked.steps for finding in step.findings}
    fixes: list[tuple[Cluster, Fixes]] = []
    chosen = Chosen()
    for outcome in ranked.clusters:
        cluster = outcome.cluster
        mine = frozenset(
            place
            for place, candidate in enumerate(cluster.candidates)
            if place in outcome.fixes and candidate.moves and candidate.finding_id in taken
        )
        if not mine or not is_within(cluster.role, within):
            continue
        fixes.append((cluster, mine))
        for moves in rewriting_of([(cluster, mine)]).moves:
            name = moves.template.template_id
            chosen.gains[name] = outcome.outcome.hit_rate
            chosen.requests[name] = cluster.requests
            chosen.routes[name] = cluster.route
    every = tuple(_with_equal_values(moves) for moves in rewriting_of(fixes).moves)
    return Chosen(every, chosen.gains, chosen.requests, chosen.routes)


def _with_equal_values(moves: Moves) -> Moves:
    """Return the moves with every place of a value that moves: it stands behind the text once."""
    gaps = moves.template.gaps
    names = {gaps[gap].name for gap in moves.gaps}
    return Moves(moves.template, tuple(n for n, gap in enumerate(gaps) if gap.name in names))


def named(gathered: Gathered, catalogue: Catalogue, fields: Sequence[str], within: Within) -> Chosen:
    """Return the moves of the fields that were named, by name or kind, wherever they vary.

    Raises:
        UsageError: a name fits no field of the log.
    """
    found: dict[str, int] = dict.fromkeys(fields, 0)
    every: dict[str, None] = {}
    moves = []
    for one in _learned(gathered, catalogue):
        if not is_within(one.template.role, within):
            continue
        gaps = []
        for number, gap in enumerate(one.template.gaps):
            if gap.shape == "text":
                continue
            every.setdefault(gap.name)
            for name in {gap.name, gap.kind.name} & set(found):
                found[name] += 1
                gaps.append(number)
        if gaps:
            moves.append((one, Moves(one.template, tuple(sorted(set(gaps))))))
    unknown = [name for name, times in found.items() if not times]
    if unknown:
        known = ", ".join(sorted(every)) or "none"
        raise UsageError(f"--fields {','.join(unknown)}: no such field varies in the log; it has {known}.")
    return Chosen(
        tuple(move for _, move in moves),
        requests={move.template.template_id: one.requests * gathered.sample.scale for one, move in moves},
    )


def _learned(gathered: Gathered, catalogue: Catalogue) -> list[Learned]:
    texts = [text for text in gathered.sample.texts.values() if text.role != "tool"]
    return [one for group in grouped(texts) for one in learn_group(group, catalogue)]


__all__ = ["ChangedInput", "Chosen", "Measured", "given", "measured", "named", "paying"]
