"""Numbers for people: units, and enough digits to act on."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from kvtools.report.words import in_english, say

_TRACE_LIMIT_US = 10**14
"""Arrivals below this (1973 as an epoch time) count from the start of a trace."""


def percent(part: float | None) -> str:
    """Return a share (0..1) as ``28.3 %``, ``n/a`` where it is unknown."""
    return say("n/a") if part is None else f"{100 * part:.1f} %"


def ratio(value: float | None) -> str:
    """Return a similarity (0..1) with two digits."""
    return say("n/a") if value is None else f"{value:.2f}"


def short(count: int) -> str:
    """Return a count as ``950``, ``5,000``, ``1.09 M`` or ``2.30 G``."""
    if count < 1_000_000:
        return f"{count:,}"
    return f"{count / 1e6:.2f} M" if count < 1_000_000_000 else f"{count / 1e9:.2f} G"


def counted(count: int, thing: str, things: str | None = None) -> str:
    """Return ``1 block``, ``2,000 blocks``; ``things`` where the plural is not the word with an s."""
    if count == 1 and in_english():
        return f"1 {thing}"
    return say(f"{{count}} {things or thing + 's'}", count=f"{count:,}")


def blocks(count: int) -> str:
    """Return a number of blocks as ``64``, ``2k``, ``16k`` or ``1M``: powers of two come out round."""
    for unit, name in ((1 << 20, "M"), (1 << 10, "k")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return f"{count:,}"


def period(first_us: int, last_us: int, utc_offset_min: int = 0) -> str:
    """Return the time a log covers, in its own zone, or a length where a trace counts from its own start."""
    if last_us < _TRACE_LIMIT_US:
        return say("{length} long", length=_length((last_us - first_us) // 1_000_000))
    zone = timezone(timedelta(minutes=utc_offset_min))
    first, last = (datetime.fromtimestamp(us // 1_000_000, zone) for us in (first_us, last_us))
    end = f"{last:%H:%M}" if first.date() == last.date() else minute(last)
    name = f"{first:%z}" if utc_offset_min else "UTC"
    return f"{minute(first)} - {end} {name}"


def minute(moment: datetime) -> str:
    """Return a moment to the minute, the date as people write it."""
    return f"{day(moment)} {moment:%H:%M}"


def day(moment: datetime) -> str:
    """Return a date as people write it."""
    if in_english():
        return f"{moment:%d %b %Y}"
    return say("{year}-{month}-{day}", year=moment.year, month=moment.month, day=moment.day)


def seconds(duration: float) -> str:
    """Return a duration in s as ``0.021 s``, ``4.5 s`` or ``130 s``: about two digits and no more."""
    return (
        f"{duration:.3f} s"
        if duration < 1
        else f"{duration:.1f} s"
        if duration < 100
        else f"{duration:,.0f} s"
    )


def _length(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def bars(shares: list[float]) -> str:
    """Return one bar character per value, scaled to the largest."""
    top = max(shares, default=0) or 1
    return "".join(" ▁▂▃▄▅▆▇█"[round(8 * value / top)] for value in shares)
