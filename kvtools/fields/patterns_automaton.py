"""Many patterns in one pass over UTF-8: leftmost, then longest, then the order of the file.

RE2 finds where the leftmost and longest match of all patterns lies; a set says which patterns fit that piece, and the
first of them that fits in its surroundings names it. No pattern can make it backtrack: a pass is linear in the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import re2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.fields.patterns import Kind

_MEMORY = 64 << 20
"""Bytes that an automaton may grow to; RE2's own 8 MiB are too few for hundreds of Unicode classes."""


class Entry(NamedTuple):
    """An expression and the kind of what it finds; ``None`` for text that is no field."""

    regex: str
    kind: Kind | None


class Found(NamedTuple):
    """A match in bytes: ``start`` to ``end`` is the value, and ``entry`` the place of its pattern in the file."""

    start: int
    end: int
    entry: int


def _options(*, longest: bool) -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY
    options.longest_match = longest
    options.log_errors = False
    return options


def compile_regex(regex: str) -> Any:
    """Return ``regex`` compiled by RE2, as it runs on UTF-8."""
    return re2.compile(regex, _options(longest=False))


class TextRegex:
    """One expression compiled by RE2 that takes any text, lone surrogates too (they match nothing)."""

    def __init__(self, regex: str) -> None:
        self._compiled = compile_regex(regex)

    def search(self, text: str) -> Any:
        """Return the first match or ``None``."""
        return self._compiled.search(text.encode("utf-8", "surrogatepass"))

    def fullmatch(self, text: str) -> Any:
        """Return the match of all of ``text`` or ``None``."""
        return self._compiled.fullmatch(text.encode("utf-8", "surrogatepass"))


class Automaton:
    """All patterns of one tier, at least one, compiled together."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = tuple(entries)
        self._each = [compile_regex(entry.regex) for entry in entries]
        whole = "|".join(f"(?:{entry.regex})" for entry in entries)
        options = _options(longest=True)
        options.never_capture = True  # groups would send each match through RE2's slow engines
        self._any = re2.compile(whole, options)
        self._groups = [compiled.groups for compiled in self._each]
        self._which = re2.Set.FullMatchSet(_options(longest=True))
        for entry in entries:
            self._which.Add(entry.regex)
        self._which.Compile()

    def find(self, data: bytes, taken: Sequence[tuple[int, int]]) -> list[Found]:
        """Return the matches in ``data`` outside the byte ranges ``taken``, in order, none over another."""
        found = []
        position = place = 0
        while (match := self._any.search(data, position)) is not None:
            start, end = match.span()
            while place < len(taken) and taken[place][1] <= start:
                place += 1
            if place < len(taken) and taken[place][0] < end:
                # The leftmost match of all runs into a taken range: a shorter or later one may fit before it.
                free = max(position, taken[place - 1][1] if place else 0)
                match = self._any.search(data, free, taken[place][0]) if free < taken[place][0] else None
                if match is None:
                    position = taken[place][1]
                    continue
                start, end = match.span()
            found.append(self._named(data, start, end))
            position = end
        return found

    def fitting(self, value: bytes) -> list[int]:
        """Return the places in the file of all patterns that fit the whole ``value``, value groups included."""
        whole = (0, len(value))
        return [
            place
            for place in sorted(self._which.Match(value) or ())
            if self._value(place, value, *whole) == whole
        ]

    def _named(self, data: bytes, start: int, end: int) -> Found:
        """Return the value in ``start`` to ``end``, named by the first pattern that fits exactly there."""
        fitting = sorted(self._which.Match(data[start:end]) or ())
        if len(fitting) == 1 and not self._groups[fitting[0]]:
            return Found(start, end, fitting[0])
        # Seen alone, a piece may fit what its surroundings forbid, or the reverse: each is asked where it stands.
        for place in (*fitting, *range(len(self.entries))):
            value = self._value(place, data, start, end)
            if value is not None:
                return Found(*value, place)
        raise AssertionError("RE2 matched an alternation and none of its parts")

    def _value(self, place: int, data: bytes, start: int, end: int) -> tuple[int, int] | None:
        """Return where the value of pattern ``place`` lies if it fits ``start`` to ``end`` exactly."""
        match = self._each[place].fullmatch(data, start, end)
        if match is None:
            return None
        for group in range(self._groups[place], 0, -1):
            first, last = match.span(group)
            if 0 <= first < last:
                return first, last
        return start, end
