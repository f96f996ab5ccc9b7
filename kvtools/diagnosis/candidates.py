"""Candidates: what varies in the sections of a log in front of stable text, each with the moves that would fix it.

A candidate is a value, or values on neighbouring lines that vary together, or lines that change places; the same one in
several templates is one candidate. What it may gain is bounded here, so that only what can pay is replayed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.diagnosis.no_values import byte_forms, is_class, one_form_of
from kvtools.normalize.hoist import Moves
from kvtools.table import digest64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvtools.fields import Learned
    from kvtools.fields.catalogue import Kind
    from kvtools.normalize.forms import OneForm

HEAD_CHARS = 24
LEFT_CHARS, RIGHT_CHARS = 12, 8
"""Stable text on both sides that makes two places the same one in two templates of a cluster."""

MAIN_ROUTE_SHARE = 0.9
"""A template belongs to a route that sends this share of its requests; else it belongs to none."""

MAX_PER_CLUSTER = 6
"""Candidates of one cluster that are replayed, alone and together."""

EXAMPLES = 3

FIRST_SECTIONS = ("system", "prompt")
"""Sections with which a prompt begins."""


@dataclass(frozen=True, slots=True)
class Varying:
    """One value that varies: its name and kind, how many distinct values were seen, and some of them."""

    name: str
    kind: Kind
    distinct: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One place of a cluster that varies in front of stable text.

    ``place`` is the least character of its section at which it stands; ``bound_tokens`` the most that its fix can
    gain; ``forms`` make the texts one that differ in their bytes alone (then there are no moves).
    """

    role: str
    route: str | None
    fields: tuple[Varying, ...]
    kind: str
    place: int
    moves: tuple[Moves, ...]
    forms: tuple[OneForm, ...]
    bound_tokens: int
    context: tuple[str, str]

    @property
    def finding_id(self) -> str:
        """A name made of place and surroundings: the same on every run and in any order of the log."""
        parts = (self.role, self.route or "", self.kind, *(f.name for f in self.fields), *self.context)
        return f"{digest64(chr(0).join(parts)):016x}"[:8]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Sections that begin with the same stable text, in one route: their candidates in the order of their places."""

    role: str
    route: str | None
    head: str
    requests: int
    texts: int
    candidates: tuple[Candidate, ...]

    @property
    def cluster_id(self) -> str:
        """A name made of the stable text."""
        return f"{digest64(chr(0).join((self.role, self.route or '', self.head))):016x}"[:8]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is needed to say how much a fix can gain.

    ``count_tokens`` counts texts in tokens; ``block_size`` is in tokens; ``scale`` is what a sampled text stands
    for; ``every_request``: each request can gain, not only each new text (a limited cache may have lost what it
    had); ``least`` is the smallest gain of interest in tokens.
    """

    count_tokens: Callable[[Sequence[str]], Sequence[int]]
    block_size: int
    scale: int
    every_request: bool
    least: float


def clusters_of(learned: Sequence[Learned], bounds: Bounds) -> list[Cluster]:
    """Return the clusters that have a candidate worth a replay, the largest first."""
    by_head: dict[tuple[str, str | None, str], list[Learned]] = {}
    for one in learned:
        head = next((text for text in one.template.literals if text.strip()), "")[:HEAD_CHARS]
        by_head.setdefault((one.template.role, main_route(one), head), []).append(one)
    clusters = []
    for (role, route, head), members in by_head.items():
        candidates = _rolled_up(members, route, bounds)
        if candidates:
            requests = sum(one.requests for one in members) * bounds.scale
            texts = sum(len(one.texts) for one in members) * bounds.scale
            clusters.append(Cluster(role, route, head, requests, texts, tuple(candidates)))
    return sorted(clusters, key=lambda c: (-c.requests, c.role, c.route or "", c.head))


def main_route(learned: Learned) -> str | None:
    """Return the route that nearly all requests with this template come from."""
    routes: Counter[str | None] = Counter()
    for text in learned.texts:
        routes.update(text.routes)
    route, requests = max(routes.items(), key=lambda item: (item[1], item[0] or ""))
    return route if requests >= MAIN_ROUTE_SHARE * routes.total() else None


def _rolled_up(members: Sequence[Learned], route: str | None, bounds: Bounds) -> list[Candidate]:
    same: dict[tuple[object, ...], list[Candidate]] = {}
    for one in sorted(members, key=lambda m: (-m.requests, m.template.literals)):
        for candidate in _of_template(one, route, bounds):
            key = (candidate.kind, tuple(f.name for f in candidate.fields), candidate.context)
            same.setdefault(key, []).append(candidate)
    merged = [_merged(candidates) for candidates in same.values()]
    worth = [c for c in merged if c.bound_tokens >= bounds.least]
    worth = sorted(worth, key=lambda c: (-c.bound_tokens, c.place, c.finding_id))[:MAX_PER_CLUSTER]
    return sorted(worth, key=lambda c: (c.place, c.finding_id))


def _of_template(learned: Learned, route: str | None, bounds: Bounds) -> list[Candidate]:
    template = learned.template
    behind = _stable_behind(learned, bounds)
    found = []
    units = _units(learned)
    for unit in units:
        first, last = unit[0], unit[-1]
        rules = byte_forms(learned, unit)
        # Where a whole text is one text in several forms, ``form_clusters`` tells it. A class is computed once per
        # value as long as the cache keeps everything.
        selects = not rules and not bounds.every_request and is_class(learned, unit)
        if selects or (rules and len(units) == 1):
            continue
        fields = () if rules else tuple(_varying(learned, gap) for gap in unit)
        each = learned.requests if bounds.every_request else len(learned.texts)
        found.append(
            Candidate(
                role=template.role,
                route=route,
                fields=fields,
                kind=rules[0] if rules else _kind(learned, unit),
                place=template.place_of(first),
                moves=() if rules else (Moves(template, unit),),
                forms=(one_form_of(learned, rules),) if rules else (),
                bound_tokens=behind[last] * each * bounds.scale,
                context=(
                    template.literals[first][-LEFT_CHARS:],
                    template.literals[last + 1][:RIGHT_CHARS],
                ),
            )
        )
    return found


def _kind(learned: Learned, unit: tuple[int, ...]) -> str:
    gaps = [learned.template.gaps[gap] for gap in unit]
    if any(gap.shape == "section" for gap in gaps):
        return "permuted_block"
    return gaps[0].kind.name if len(gaps) == 1 else "fields"


def _units(learned: Learned) -> list[tuple[int, ...]]:
    """Group the gaps that can move: values on neighbouring lines, or divided by blanks alone, vary together."""
    template = learned.template
    units: list[tuple[int, ...]] = []
    for number, gap in enumerate(template.gaps):
        if gap.shape == "text":
            continue
        between = template.literals[number]
        if (
            units
            and units[-1][-1] == number - 1
            and template.gaps[number - 1].run == gap.run
            and (between.count("\n") == 1 or not between.strip())
            and "section" not in (gap.shape, template.gaps[number - 1].shape)
        ):
            units[-1] = (*units[-1], number)
        else:
            units.append((number,))
    return units


def _stable_behind(learned: Learned, bounds: Bounds) -> list[int]:
    """Return for each gap the tokens behind it that other texts of the template have too, up to free text.

    Free text that recurs (a passage) counts as shared. What is shared from the beginning of a prompt and is under one
    block is never reused.
    """
    gaps = learned.template.gaps
    repeated = [_repeated(learned, gap) for gap in range(len(gaps))]
    counts = bounds.count_tokens([*learned.template.literals, *repeated])
    literals, texts = counts[: len(gaps) + 1], counts[len(gaps) + 1 :]
    behind = [0] * len(gaps)
    for gap in range(len(gaps) - 1, -1, -1):
        last = gap + 1 == len(gaps)
        through = last or gaps[gap + 1].shape != "text" or bool(repeated[gap + 1])
        behind[gap] = literals[gap + 1] + (0 if last or not through else texts[gap + 1] + behind[gap + 1])
    if gaps and literals[0] + behind[0] < bounds.block_size and learned.template.role in FIRST_SECTIONS:
        return [0] * len(gaps)
    return behind


def _repeated(learned: Learned, gap: int) -> str:
    """Return a typical value of free text that recurs (a passage), else nothing."""
    if learned.template.gaps[gap].shape != "text":
        return ""
    values = Counter(values[gap] for values in learned.values)
    if 2 * len(values) > len(learned.values):
        return ""
    return min(value for value, count in values.items() if count == max(values.values()))


def _varying(learned: Learned, gap: int) -> Varying:
    values = Counter(values[gap] for values in learned.values)
    of = learned.template.gaps[gap]
    examples = tuple(sorted(values, key=lambda value: (-values[value], digest64(value)))[:EXAMPLES])
    return Varying(of.name, of.kind, len(values), examples)


def _merged(candidates: Sequence[Candidate]) -> Candidate:
    first = candidates[0]
    fields = tuple(
        Varying(
            field.name,
            field.kind,
            sum(candidate.fields[number].distinct for candidate in candidates),
            field.examples,
        )
        for number, field in enumerate(first.fields)
    )
    return Candidate(
        role=first.role,
        route=first.route,
        fields=fields,
        kind=first.kind,
        place=min(candidate.place for candidate in candidates),
        moves=tuple(moves for candidate in candidates for moves in candidate.moves),
        forms=tuple(form for candidate in candidates for form in candidate.forms),
        bound_tokens=sum(candidate.bound_tokens for candidate in candidates),
        context=first.context,
    )
