"""What pipelines show of a verdict: each failed check and each cause as one result with a place and a fingerprint.

All text leaves here on one line and visible: line ends, control characters, marks that turn the direction of text and
halves of characters stand as escapes, so that no form has to carry what it cannot.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, NamedTuple

from kvtools.report.explain_text import printable

if TYPE_CHECKING:
    from kvtools.report.check import Check, Level, Place, Verdict

STDIN = "-"
_ORDER: dict[Level, int] = {"error": 0, "warning": 1, "note": 2}
_CHECKS = {
    "min-hit-rate": "The hit rate is below its limit.",
    "max-drop": "The hit rate fell further below the baseline's than its limit allows.",
    "max-tokens-lost": "The causes that were found cost more prompt tokens than the limit allows.",
    "min-stable-prefix": "The requests of a template or route begin with fewer equal tokens than the limit wants.",
    "max-variable-share": "More of the prompts' text varies than the limit allows.",
    "min-jaccard": "Consecutive requests have less text in common than the limit wants.",
    "min-prefix-jaccard": "Consecutive requests have less of their prefixes in common than the limit wants.",
    "max-cold-share": "More requests are cold than the limit allows.",
    "history": "The newest hit rate is at least 5 points below the median of those before it.",
}
_FRONT = (
    "A value that varies stands in front of text that requests share, so that nothing behind it is reused."
)
_CAUSES = {
    "placeholder-before-stable-text": _FRONT,
    "field-in-front": _FRONT,
    "hit-rate-fell": "The hit rate fell below the median of those before it.",
    "cache-too-small": "The cache evicts prefixes before they are asked for again.",
}


class Result(NamedTuple):
    """``rule`` is a stable id, ``what`` says in one sentence what it finds; ``place`` is ``None`` for no file."""

    rule: str
    what: str
    title: str
    message: str
    place: Place | None
    level: Level
    fingerprint: str


def results(verdict: Verdict) -> list[Result]:
    """Return the failed checks that gate, then the causes, the gravest first.

    A check stands where its first cause stands, else at the first input. Where the gate passed, causes are notes: a
    pipeline must not show errors for what it lets through. Fingerprints are unique, and do not depend on lines.
    """
    found = [_of_check(check, verdict) for check in verdict.checks if check.gates and check.status == "fail"]
    found += [
        Result(
            rule=printable(cause.rule),
            what=_CAUSES.get(cause.rule, "This breaks the prefix that requests share."),
            title="kvtools: what breaks the prefix",
            message=printable(cause.message),
            place=_named(cause.place),
            level="note" if verdict.passed else cause.level,
            fingerprint=cause.fingerprint,
        )
        for cause in verdict.causes
    ]
    seen = Counter[str]()
    unique = []
    for one in found:
        again, seen[one.fingerprint] = seen[one.fingerprint], seen[one.fingerprint] + 1
        unique.append(one._replace(fingerprint=_digest(one.fingerprint, str(again))) if again else one)
    return sorted(unique, key=lambda one: _ORDER[one.level])


def name_of(check: Check) -> str:
    """Return the check's title with what it is about, in visible text."""
    return printable(check.title if check.scope is None else f"{check.title} ({check.scope})")


def where(place: Place) -> str:
    """Return ``path:line`` in visible text."""
    return printable(place.path if place.line is None else f"{place.path}:{place.line}")


def posix(path: str) -> str:
    """Return a path with forward slashes, as pipelines want it on every system."""
    return PureWindowsPath(path).as_posix() if "\\" in path and PureWindowsPath(path).drive else path


def _of_check(check: Check, verdict: Verdict) -> Result:
    from kvtools.report.check import Place  # noqa: PLC0415 - light module otherwise

    inputs = [Place(path=one.path, line=None) for one in verdict.inputs]
    places = [cause.place for cause in verdict.causes] or inputs
    return Result(
        rule=printable(check.name),
        what=_CHECKS.get(check.name, "A figure does not keep its limit."),
        title=f"kvtools: {name_of(check)}",
        message=printable(check.message),
        place=_named(places[0]) if places else None,
        level="error",
        fingerprint=_digest(check.name, check.scope or ""),
    )


def _named(place: Place) -> Place | None:
    return None if place.path == STDIN else place


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()
