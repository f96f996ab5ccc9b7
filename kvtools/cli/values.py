"""Values of options that click has no type for."""

from __future__ import annotations

import click

_LARGEST_COUNT = (1 << 31) - 1


def at_least_one(text: str) -> int:
    """Return a whole number of 1 or more that 31 bits hold.

    ``click.IntRange`` would print its upper limit, which is nobody's business, into the help page.

    Raises:
        click.BadParameter: ``text`` is none.
    """
    if text.isdecimal() and len(text) <= len(str(_LARGEST_COUNT)) and 1 <= int(text) <= _LARGEST_COUNT:
        return int(text)
    raise click.BadParameter(f"{text!r} is not a whole number of 1 or more (and below 2**31).")


def block_counts(text: str) -> tuple[int, ...]:
    """Return numbers that commas separate.

    Raises:
        click.BadParameter: one of them is no number.
    """
    try:
        return tuple(int(part.replace("_", "")) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of block counts such as 500,2000,8000.") from None


_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def duration_s(text: str) -> float:
    """Return ``90s``, ``30m``, ``1h`` or ``2d`` in seconds.

    Raises:
        click.BadParameter: it is none of these.
    """
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * _SECONDS[unit]
    except (ValueError, KeyError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise click.BadParameter(f"{text!r} is not a length of time such as 90s, 30m, 1h or 2d.")
    return seconds


def column_mapping(text: str) -> dict[str, str]:
    """Return ``prompt=request_json.messages,arrival_us=ts`` as columns and their sources.

    Raises:
        click.BadParameter: an entry has no ``=``, or a column is named twice.
    """
    pairs = [entry.strip().partition("=") for entry in text.split(",")]
    columns = {column.strip(): source.strip() for column, _, source in pairs}
    if len(columns) < len(pairs) or not all(columns) or not all(columns.values()):
        raise click.BadParameter(
            f"{text!r} is not a list such as prompt=request_json.messages,arrival_us=ts."
        )
    return columns


def section_names(text: str) -> tuple[str, ...]:
    """Return the names of two or more sections that commas separate.

    Raises:
        click.BadParameter: there are fewer than two.
    """
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2 or not all(names):
        raise click.BadParameter(f"{text!r} does not name two sections or more, such as A,B.")
    return names


def comma_list(text: str) -> tuple[str, ...]:
    """Return the entries that commas separate.

    Raises:
        click.BadParameter: one of them is empty.
    """
    entries = tuple(entry.strip() for entry in text.split(","))
    if not all(entries):
        raise click.BadParameter(f"{text!r} has an empty entry; write A,B.")
    return entries


def name_and_value(text: str) -> tuple[str, str]:
    """Return ``NAME=VALUE`` as a pair.

    Raises:
        click.BadParameter: it has no ``=``.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r}: write NAME=VALUE.")
    return name, value
