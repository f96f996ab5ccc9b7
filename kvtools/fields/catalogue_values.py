"""What the sampled values of one field say together: how fine a time really is, and what is left without a pattern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kvtools.fields.patterns import GRANULARITIES, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.patterns import Granularity

_CLOCK = re.compile(
    r"(?<!\d)(?P<hour>\d{1,2}) ?[:\uff1a时時点點] ?(?P<minute>\d{1,2})"
    r"(?: ?[:\uff1a分] ?(?P<second>\d{1,2}(?:[.,]\d+)?))?"
    r" ?(?P<half>[AaPp]\.?[Mm])?"
)
_EPOCH = re.compile(r"(?:\[TS:)?(?P<seconds>1\d{9})(?P<rest>(?:\d{3}){0,3}|\.\d+)\]?")
_COMPACT = re.compile(r"\d{8}[T_-]?(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})?[\d.,]*Z?")
_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?%?")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]{4,}")
_DAY_S = 86_400
_STEPS: dict[Granularity, int] = {"second": 60, "minute": 3600, "hour": _DAY_S}


def nearly_all(part: int, whole: int) -> bool:
    """Return whether ``part`` of ``whole`` values are enough to speak for the field: nine in ten."""
    return part * 10 >= whole * 9


def seen_granularity(values: Sequence[str], finest: Granularity) -> Granularity:
    """Return how fine the times in ``values`` are, at most ``finest``, which their form allows.

    A time whose seconds are 0 in all values is one of minutes, and so on upwards. A single value shows nothing.
    """
    if len(set(values)) < 2:
        return finest
    times = [_second_of_day(value) for value in values]
    for granularity in GRANULARITIES[GRANULARITIES.index(finest) :]:
        if granularity == "day" or any(time is None or time % _STEPS[granularity] for time in times):
            return granularity
    return finest


def plain_kind(values: Sequence[str]) -> Kind:
    """Return ``number``, ``hex`` or ``text``: what can be said of values that no pattern and no label names."""
    if nearly_all(sum(bool(_NUMBER.fullmatch(value)) for value in values), len(values)):
        return Kind("number")
    together = "".join(values)
    if (
        nearly_all(sum(bool(_HEX.fullmatch(value)) for value in values), len(values))
        and any(character.isdecimal() for character in together)
        and any(character.isalpha() for character in together)
    ):
        return Kind("hex")
    return Kind("text")


def _second_of_day(value: str) -> float | None:
    """Return the seconds since midnight that a time shows; ``None`` where it shows no clock."""
    epoch = _EPOCH.fullmatch(value)
    if epoch:
        rest = epoch["rest"]
        fraction = float(rest) if rest.startswith(".") else int(rest or 0) / 10 ** len(rest)
        return int(epoch["seconds"]) % _DAY_S + fraction
    clock = _COMPACT.fullmatch(value) or _CLOCK.search(value)
    if clock is None:
        return None
    hour = int(clock["hour"])
    half = clock.groupdict().get("half")
    if half:
        hour = hour % 12 + (12 if half[0] in "Pp" else 0)
    return hour * 3600 + int(clock["minute"]) * 60 + float((clock["second"] or "0").replace(",", "."))
