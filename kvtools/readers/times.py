"""Times as logs write them, to microseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import numpy as np

# An epoch number says its unit by its size: seconds reach 1e11 in the year 5138, and a thousand times
# that many milliseconds are the same day.
_UNIT_LIMITS = ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1))
_LARGEST = 9e18
_LEAST_WITH_ZONE = len("2026-07-15T08:00+08:00")
_COMPACT_DATE = 8
_COMPACT_TIME = 14
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class BadTime(ValueError):  # noqa: N818 - names what it is
    """A value that stands where a time should and is none."""


def arrival_us(value: Any) -> int | None:
    """Return the time as microseconds since the epoch, or ``None`` for ``None`` and empty text.

    Takes ISO 8601 and RFC 2822 text and epoch numbers (or their text) in seconds, milliseconds,
    microseconds or nanoseconds; the size of the number says which. A time without zone is UTC.

    Raises:
        BadTime: for anything else.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise BadTime(f"a time is text or a number, not {type(value).__name__}")
    if isinstance(value, str):
        return _from_text(value.strip())
    return _from_number(value)


def arrivals_us(values: list[Any]) -> list[int | None]:
    """Return ``arrival_us`` of each value; numbers of seconds are reckoned together.

    Raises:
        BadTime: one of them is no time.
    """
    limit, factor = _UNIT_LIMITS[0]
    if set(map(type, values)) == {float}:
        seconds = np.array(values, dtype=np.float64)
        if (np.abs(seconds) < limit).all():  # not of NaN
            times: list[int | None] = np.rint(seconds * factor).astype(np.int64).tolist()
            return times
    return list(map(arrival_us, values))


def utc_offset_min(value: Any) -> int | None:
    """Return the zone of a written ISO 8601 time as minutes east of UTC, ``None`` where it names none."""
    if not isinstance(value, str) or len(value) < _LEAST_WITH_ZONE or value[-6] not in "+-":
        return None
    try:
        offset = datetime.fromisoformat(value.strip()).utcoffset()
    except ValueError:
        return None
    return None if offset is None else round(offset / timedelta(minutes=1))


def _from_text(text: str) -> int:
    # ISO's compact forms are numbers too. A count of anything since 1970 has neither 8 digits (August 1970) nor
    # 14 (the year 2286), and fromisoformat would take 1712011512345 for a day of the year 1712.
    readings = (_from_number_text, _from_iso)
    if text[4:5] == "-" or (text.isdecimal() and len(text) in (_COMPACT_DATE, _COMPACT_TIME)):
        readings = (_from_iso, _from_number_text)
    for reading in readings:
        try:
            return reading(text)
        except (ValueError, OverflowError):
            pass
    try:
        return _since_epoch(parsedate_to_datetime(text))
    except (ValueError, TypeError, IndexError, OverflowError):
        raise BadTime(f"not a time: {text[:40]!r}") from None


def _from_number_text(text: str) -> int:
    return _from_number(int(text) if text.removeprefix("-").isdecimal() else float(text))


def _from_iso(text: str) -> int:
    compact = text.isdecimal() and len(text) == _COMPACT_TIME
    return _since_epoch(datetime.fromisoformat(f"{text[:8]}T{text[8:]}" if compact else text))


def _since_epoch(moment: datetime) -> int:
    # Integer arithmetic: float seconds lose the microsecond.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def _from_number(number: float) -> int:
    if not -_LARGEST < number < _LARGEST:
        raise BadTime(f"not a time: {str(number)[:40]}")
    for limit, factor in _UNIT_LIMITS:
        if abs(number) < limit:
            return round(number * factor)
    return round(number / 1000)


def duration_us(value: Any, unit_us: int) -> int | None:
    """Return a duration of ``value`` units as microseconds, or ``None`` where it is no finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    scaled = value * unit_us
    return round(scaled) if 0 <= scaled < _LARGEST else None
