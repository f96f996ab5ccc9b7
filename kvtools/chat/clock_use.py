"""Whether the date or time gets into prompts: the same conversation rendered at two clocks.

The second clock differs in every part that ``strftime`` can print; six more, each later by one unit, tell how
often the prompt changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.chat.probes import clock_probes, common_chars
from kvtools.errors import TemplateError

if TYPE_CHECKING:
    from kvtools.chat.probes import Probe
    from kvtools.chat.template import ChatTemplate

Granularity: TypeAlias = Literal["second", "minute", "hour", "day", "month", "year"]

AUDIT_CLOCK = datetime(2031, 5, 17, 8, 9, 10, tzinfo=UTC)
_LATER: tuple[tuple[Granularity, datetime], ...] = (
    ("second", AUDIT_CLOCK.replace(second=11)),
    ("minute", AUDIT_CLOCK.replace(minute=10)),
    ("hour", AUDIT_CLOCK.replace(hour=9)),
    ("day", AUDIT_CLOCK.replace(day=18)),
    ("month", AUDIT_CLOCK.replace(month=6)),
    ("year", AUDIT_CLOCK.replace(year=2032)),
)
_OTHER_CLOCK = datetime(1998, 11, 27, 19, 48, 57, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ClockUse:
    """How the date or time gets into prompts.

    ``granularity`` is the finest unit that changes the prompt; ``at_char`` the first character that differs, of
    ``of_chars``, in ``probe``; ``probes`` the probes that show it. ``pinned_by``: the ``chat_template_kwargs``
    that fixes it, if the template takes one.
    """

    granularity: Granularity
    at_char: int
    of_chars: int
    probes: tuple[str, ...]
    pinned_by: str | None

    @property
    def sentence(self) -> str:
        """One sentence: what changes when, where, and what to do."""
        if self.pinned_by:
            fix = f"pass a fixed {self.pinned_by} in chat_template_kwargs"
        elif all("no system message" in probe for probe in self.probes):
            fix = "send a system message, with which the template prints no date"
        else:
            fix = "serve an edited template that prints no date, or prints it behind what requests share"
        return (
            f"the prompt changes with each {self.granularity} from character {self.at_char:,} of {self.of_chars:,} "
            f"({self.probes[0]}): {fix}."
        )


def clock_use(template: ChatTemplate, variables: frozenset[str]) -> ClockUse | None:
    """Return how the clock gets into the prompts of ``template``, ``None`` where no probe shows it.

    ``template`` stands at ``AUDIT_CLOCK``; ``variables`` are the names that its text uses.
    """
    changed = []
    for probe in clock_probes():
        at = _differs(template, probe, _OTHER_CLOCK)
        if at is not None:
            changed.append((probe, at))
    if not changed:
        return None
    probe, (at_char, of_chars) = changed[0]
    finest: Granularity = next((unit for unit, clock in _LATER if _differs(template, probe, clock)), "year")
    return ClockUse(
        finest,
        at_char,
        of_chars,
        tuple(shown.shape for shown, _ in changed),
        next((name for name in sorted(variables) if _pins(template, probe, name)), None),
    )


def _differs(template: ChatTemplate, probe: Probe, clock: datetime) -> tuple[int, int] | None:
    """Return where the prompt differs at another clock and how long it is, ``None`` where it is equal or refused."""
    try:
        now = probe.render(template, len(probe.messages))
        then = probe.render(replace(template, clock=clock), len(probe.messages))
    except TemplateError:
        return None
    return (common_chars(now, then), len(now)) if now != then else None


def _pins(template: ChatTemplate, probe: Probe, name: str) -> bool:
    """Say whether a request that gives the variable ``name`` gets the same prompt at any clock."""
    if not any(word in name for word in ("date", "today", "time")) or name == "strftime_now":
        return False
    given = replace(probe, kwargs={**probe.kwargs, name: "1 January 2030"})
    try:
        given.render(template, len(given.messages))
    except TemplateError:
        return False
    return _differs(template, given, _OTHER_CLOCK) is None
