"""The order of a prompt's sections that reuses most, and the moves that lead to it.

What is fixed in one section keeps all sections behind it from being shared as soon as it varies, so a section that
varies belongs behind those that do not. Which order reuses most is not guessed from that: orders are searched, and
the current, the best and the advised one are replayed request by request (``sectioned`` states how hits are counted,
which is not vLLM's block rule).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtools.diagnosis.partition import Partition
from kvtools.errors import UsageError
from kvtools.model import share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvtools.diagnosis.partition import Groups
    from kvtools.diagnosis.sectioned import SectionedLog

MAX_EXHAUSTIVE_SECTIONS = 7
"""All orders of so many sections are tried; of more, those that a local search comes by."""

MAX_REPLAYED_SECTIONS = 5
"""The same where a content stands in several sections, so that each order has to be replayed by itself."""

MIN_GAIN_SHARE = 0.001
"""A further move is advised where it raises the hit rate by so much: 0.1 point, as for any other finding."""

Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A section that goes behind (or in front of) others; ``past`` are those it passes, in the current order."""

    section: str
    past: tuple[str, ...]
    behind: bool

    @property
    def sentence(self) -> str:
        """``move A behind B, C and D``."""
        *others, last = self.past
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"move {self.section} {'behind' if self.behind else 'in front of'} {listed}"


@dataclass(frozen=True, slots=True)
class OrderStep:
    """The best order that is ``len(moves)`` moves away from the current one; ``hit_rate`` is replayed (0..1)."""

    order: tuple[str, ...]
    moves: tuple[Move, ...]
    hit_rate: float | None


@dataclass(frozen=True, slots=True)
class SectionOrder:
    """What the search found.

    ``steps``: the current order (no move), then for each number of moves the best order, as far as it beats all orders
    with fewer moves; the last one is the best of all. ``tried`` orders were compared; ``exhaustive`` says that
    these are all that the constraints allow. ``keep_order`` are the constraints.
    """

    steps: tuple[OrderStep, ...]
    tried: int
    exhaustive: bool
    keep_order: tuple[tuple[str, ...], ...]

    @property
    def current(self) -> tuple[str, ...]:
        """The sections in the order in which the log holds them."""
        return self.steps[0].order

    @property
    def best(self) -> tuple[str, ...]:
        """The order with the highest hit rate; of equal ones that with the fewest moves."""
        return self.steps[-1].order

    @property
    def hit_rate_current(self) -> float | None:
        """Replayed hit rate of the current order (0..1), ``None`` for an empty log."""
        return self.steps[0].hit_rate

    @property
    def hit_rate_best(self) -> float | None:
        """Replayed hit rate of the best order (0..1), ``None`` for an empty log."""
        return self.steps[-1].hit_rate

    @property
    def advised(self) -> OrderStep:
        """The step to take, as ``advised_step`` chooses it."""
        return advised_step(self.steps)


def advised_step(steps: Sequence[OrderStep]) -> OrderStep:
    """Return the step to take: more moves than the step before only where they gain at least 0.1 point (each)."""
    taken = steps[0]
    for step in steps[1:]:
        more = len(step.moves) - len(taken.moves)
        if (step.hit_rate or 0.0) - (taken.hit_rate or 0.0) >= MIN_GAIN_SHARE * more:
            taken = step
    return taken


def best_section_order(log: SectionedLog, keep_order: Sequence[Sequence[str]] = ()) -> SectionOrder:
    """Search the order of sections that reuses most.

    ``keep_order``: groups of labels; the sections of a group keep the relative order that the log has. Up to
    7 sections (5 where an id stands in several sections) every allowed order is tried. Beyond, the search starts
    from the current order, makes the single move (one section to any other place) that gains most, and again until no
    single move gains: its result may not be the best of all, and says so (``exhaustive`` is false). Of equal orders
    the one with the fewest moves is chosen, then the one that leaves more of the front as it is. The same log gives
    the same answer whatever the order of its requests.

    Raises:
        UsageError: ``keep_order`` names a section that the log does not have.
    """
    search = _Search(log, _before(log.sections, keep_order))
    most = MAX_REPLAYED_SECTIONS if search.partition is None else MAX_EXHAUSTIVE_SECTIONS
    exhaustive = len(log.sections) <= most
    if exhaustive:
        search.walk((), search.partition.start() if search.partition else None)
    else:
        search.climb(tuple(range(len(log.sections))))
    return SectionOrder(
        tuple(_step(log, order) for order in search.frontier()),
        search.tried,
        exhaustive,
        tuple(tuple(group) for group in keep_order),
    )


class _Search:
    """Best hits by number of moves, over the orders that were tried."""

    def __init__(self, log: SectionedLog, before: list[set[int]]) -> None:
        # Requests that part at one section can meet again behind it only where sections share content.
        self.partition = None if log.shares_content else Partition(log)
        self.tried = 0
        self._log = log
        self._before = before
        self._count = len(log.sections)
        self._best: dict[int, tuple[int, Order]] = {}
        self._hits: dict[Order, int] = {}

    def walk(self, order: Order, groups: Groups | None) -> None:
        """Try every allowed order that begins with ``order``, by which ``groups`` begin alike."""
        if len(order) == self._count:
            self._note(order, self._replayed(order) if groups is None else groups.hit_length)
        for section in range(self._count):
            if section not in order and self._before[section] <= set(order):
                longer = self.partition.extend(groups, section) if self.partition and groups else None
                self.walk((*order, section), longer)

    def climb(self, order: Order) -> None:
        """Try single moves away from ``order``, take the best, and again until none gains."""
        hits = self._try(order)
        while True:
            found, best = max(
                ((self._try(near), near) for near in self._near(order)),
                key=lambda pair: (pair[0], -len(moved_places(pair[1])), tuple(-place for place in pair[1])),
                default=(hits, order),
            )
            if found <= hits:
                return
            hits, order = found, best

    def frontier(self) -> Iterator[Order]:
        """Yield for each number of moves the best order, where it beats those with fewer moves."""
        most = -1
        for moves in sorted(self._best):
            hits, order = self._best[moves]
            if hits > most:
                yield order
                most = hits

    def _near(self, order: Order) -> Iterator[Order]:
        for section in order:
            rest = [other for other in order if other != section]
            for place in range(len(order)):
                near = (*rest[:place], section, *rest[place:])
                if near != order and self._allowed(near):
                    yield near

    def _allowed(self, order: Order) -> bool:
        return all(self._before[section] <= set(order[:place]) for place, section in enumerate(order))

    def _try(self, order: Order) -> int:
        if order not in self._hits:
            self._hits[order] = self._replayed(order)
            self._note(order, self._hits[order])
        return self._hits[order]

    def _replayed(self, order: Order) -> int:
        return int(self._log.hits(order).sum())

    def _note(self, order: Order, hits: int) -> None:
        self.tried += 1
        moves = len(moved_places(order))
        known, best = self._best.get(moves, (-1, order))
        if hits > known or (hits == known and order < best):
            self._best[moves] = hits, order


def moved_places(order: Sequence[int]) -> tuple[int, ...]:
    """Return the fewest sections to take out and put back elsewhere to come from 0, 1, 2, … to ``order``.

    That is all but a longest rising run. Of several such sets it is the one that moves the sections that stand first
    now: ``system part behind passages`` and not ``passages in front of system part``.
    """
    left = list(order)
    rising = _longest_rising(left)
    moved: list[int] = []
    for section in range(len(order)):
        without = [other for other in left if other != section]
        if len(order) - len(moved) > rising and _longest_rising(without) == rising:
            left = without
            moved.append(section)
    return tuple(moved)


def _longest_rising(order: Sequence[int]) -> int:
    longest: list[int] = []
    for place, section in enumerate(order):
        longest.append(1 + max((longest[i] for i in range(place) if order[i] < section), default=0))
    return max(longest, default=0)


def _before(sections: Sequence[str], keep_order: Sequence[Sequence[str]]) -> list[set[int]]:
    """Return for each section those that have to stand before it."""
    before: list[set[int]] = [set() for _ in sections]
    for group in keep_order:
        unknown = [label for label in group if label not in sections]
        if unknown:
            raise UsageError(
                f"there is no section {unknown[0]!r} to keep in order: name some of {', '.join(sections)}."
            )
        places = sorted(sections.index(label) for label in group)
        for nth, place in enumerate(places):
            before[place].update(places[:nth])
    return before


def _step(log: SectionedLog, order: Order) -> OrderStep:
    moved = moved_places(order)
    stay = [section for section in sorted(order) if section not in moved]
    at = {section: place for place, section in enumerate(order)}
    moves = []
    for section in moved:
        past = [other for other in stay if (other < section) != (at[other] < at[section])]
        moves.append(
            Move(
                log.sections[section], tuple(log.sections[other] for other in past), behind=past[0] > section
            )
        )
    return OrderStep(
        tuple(log.sections[section] for section in order),
        tuple(moves),
        share(int(log.hits(order).sum()), log.total_length),
    )
