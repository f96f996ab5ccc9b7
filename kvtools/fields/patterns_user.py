"""Patterns of the user's: full syntax (the module ``regex``), and a limit on the time of each search."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import regex

from kvtools.errors import UsageError
from kvtools.fields.patterns import Pattern
from kvtools.fields.patterns_labels import LabelRule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvtools.fields.patterns import Kind, PatternFile

SEARCH_SECONDS = 1.0
"""How long one pattern may search one text; a sound one takes milliseconds on the longest prompt."""


class UserFound(NamedTuple):
    """A match in characters; ``kind`` is ``None`` for text that the user declares to be no field."""

    start: int
    end: int
    kind: Kind | None


class UserPatterns:
    """The patterns and labels of one ``--patterns`` file, what each has matched so far, and which were stopped.

    ``stopped`` names what ran out of time once: it finds nothing any more.
    """

    def __init__(self, path: Path, file: PatternFile, *, seconds: float = SEARCH_SECONDS) -> None:
        self.stopped: list[str] = []
        self._seconds = seconds
        self.rules: list[LabelRule] = []
        self._patterns: list[tuple[Pattern, _Limited]] = []
        for pattern in file.patterns:
            if pattern.bare:
                raise UsageError(
                    f"--patterns {path}: pattern {pattern.name!r}, key bare is for the bundled file: "
                    "your patterns come before all labels, so leave it out."
                )
            _check(path, f"pattern {pattern.name!r}, key regex", pattern.regex)
            self._patterns.append((pattern, self._limited(pattern.name, pattern.regex)))
        for place, label in enumerate(file.labels, 1):
            name = f"label {place} ({label.kind.name})"
            for key in ("words", "value", "spaced", "fits"):
                _check(path, f"{name}, key {key}", getattr(label, key) or "")
            self.rules.append(LabelRule(label, partial(self._limited, name)))
            if label.value or label.spaced:
                self._patterns.append(
                    (Pattern(name, label.kind, label.regex()), self._limited(name, label.regex()))
                )
        self._silent = dict.fromkeys(pattern.name for pattern, _ in self._patterns)

    def unmatched(self) -> list[str]:
        """Return the names of what was never stopped and has matched nothing so far, in the order of the file."""
        return [name for name in self._silent if name not in self.stopped]

    def find(self, text: str) -> list[UserFound]:
        """Return the matches: leftmost, then longest, then the order of the file; none over another."""
        matches = []
        for place, (pattern, limited) in enumerate(self._patterns):
            for start, end in limited.spans(text):
                matches.append((start, -end, place, pattern))
                self._silent.pop(pattern.name, None)
        found = []
        reached = 0
        for start, negative_end, _, pattern in sorted(matches, key=lambda match: match[:3]):
            if start >= reached:
                reached = -negative_end
                found.append(UserFound(start, reached, pattern.kind if pattern.field else None))
        return found

    def fitting(self, value: str) -> list[Kind]:
        """Return the kinds of the patterns that fit the whole ``value``, in the order of the file."""
        whole = (0, len(value))
        return [
            pattern.kind
            for pattern, limited in self._patterns
            if pattern.field and whole in limited.spans(value)
        ]

    def _limited(self, name: str, expression: str) -> _Limited:
        return _Limited(name, regex.compile(expression), self._seconds, self.stopped)


class _Limited:
    """A compiled expression that gives up after ``seconds`` on one text, and is then dropped for the run."""

    def __init__(self, name: str, compiled: Any, seconds: float, stopped: list[str]) -> None:
        self._name = name
        self._compiled = compiled
        self._seconds = seconds
        self._stopped = stopped

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the values lie that it finds in ``text``, empty ones left out."""
        spans = self._run(
            lambda: [_value(match) for match in self._compiled.finditer(text, timeout=self._seconds)]
        )
        return [(start, end) for start, end in spans or () if start < end]

    def search(self, text: str) -> Any:
        """Return the first match or ``None``."""
        return self._run(lambda: self._compiled.search(text, timeout=self._seconds))

    def fullmatch(self, text: str) -> Any:
        """Return the match of all of ``text`` or ``None``."""
        return self._run(lambda: self._compiled.fullmatch(text, timeout=self._seconds))

    def _run(self, search: Callable[[], Any]) -> Any:
        if self._name in self._stopped:
            return None
        try:
            return search()
        except TimeoutError:
            self._stopped.append(self._name)
            return None


def _value(match: Any) -> tuple[int, int]:
    """Return where the last group lies that took part, else the whole match."""
    for group in range(match.re.groups, 0, -1):
        start, end = match.span(group)
        if 0 <= start < end:
            return start, end
    start, end = match.span()
    return start, end


def _check(path: Path, where: str, expression: str) -> None:
    try:
        regex.compile(expression)
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"--patterns {path}: {where} is no regular expression ({error}).") from None
