"""The budget: which figures are held against which limits, and where each limit was set."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvtools.report.check import Unit

Scope: TypeAlias = Literal["log", "route", "class"]

DEFAULT_MIN_REQUESTS = 30
DEFAULT_MIN_COVERAGE = 0.5
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class LimitKind:
    """What a limit is about.

    ``at_least``: the figure must not be below the limit; otherwise not above it. ``scopes`` say for what it can be
    set. Shares and points (differences of shares) are 0..1; tokens and requests are whole numbers from ``least``.
    """

    name: str
    title: str
    unit: Unit
    at_least: bool
    scopes: tuple[Scope, ...]
    least: int = 0


_EVERYWHERE: tuple[Scope, ...] = ("log", "route", "class")

_KINDS = (
    LimitKind("min-hit-rate", "hit rate", "share", at_least=True, scopes=_EVERYWHERE),
    LimitKind("max-drop", "drop of the hit rate", "points", at_least=False, scopes=("log", "route")),
    LimitKind("max-tokens-lost", "tokens lost", "tokens", at_least=False, scopes=("log",)),
    LimitKind(
        "min-stable-prefix", "stable prefix", "tokens", at_least=True, scopes=("log", "route"), least=1
    ),
    LimitKind("max-variable-share", "variable text", "share", at_least=False, scopes=_EVERYWHERE),
    LimitKind("min-jaccard", "Jaccard of consecutive text", "share", at_least=True, scopes=_EVERYWHERE),
    LimitKind(
        "min-prefix-jaccard", "Jaccard of consecutive prefixes", "share", at_least=True, scopes=_EVERYWHERE
    ),
    LimitKind("max-cold-share", "cold requests", "share", at_least=False, scopes=("log",)),
    LimitKind("min-requests", "requests", "requests", at_least=True, scopes=(), least=1),
    LimitKind("min-coverage", "coverage", "share", at_least=True, scopes=()),
)

LIMITS: Mapping[str, LimitKind] = {kind.name: kind for kind in _KINDS}
"""All limits by name: what an option, a key of the configuration and a check are called."""

NEEDED = ("min-requests", "min-coverage")
"""What a log has to hold to be judged at all."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A number, and where it was set: an option, a file with its key, ``default``."""

    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits by name: of the whole log, and of single routes and classes."""

    log: Mapping[str, Limit] = field(default_factory=dict)
    routes: Mapping[str, Mapping[str, Limit]] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, Limit]] = field(default_factory=dict)

    def limit(self, name: str) -> Limit | None:
        """Return the limit of the whole log, ``None`` where there is none."""
        if name in self.log:
            return self.log[name]
        defaults = {"min-requests": DEFAULT_MIN_REQUESTS, "min-coverage": DEFAULT_MIN_COVERAGE}
        return Limit(defaults[name], DEFAULT) if name in defaults else None

    def judges(self) -> bool:
        """Return whether there is anything to fail."""
        return bool(set(self.log) - set(NEEDED)) or any(self.routes.values()) or any(self.classes.values())

    def demands(self, name: str) -> bool:
        """Return whether the limit is set anywhere."""
        held = (self.log, *self.routes.values(), *self.classes.values())
        return any(name in limits for limits in held)

    def over(self, other: Budget) -> Budget:
        """Return this budget, with what it does not say taken from ``other``."""
        return Budget(
            {**other.log, **self.log},
            _over(self.routes, other.routes),
            _over(self.classes, other.classes),
        )


def _over(
    ours: Mapping[str, Mapping[str, Limit]], theirs: Mapping[str, Mapping[str, Limit]]
) -> dict[str, dict[str, Limit]]:
    names = dict.fromkeys((*theirs, *ours))
    return {name: {**theirs.get(name, {}), **ours.get(name, {})} for name in names}


def limit_of(name: str, value: object, source: str, scope: Scope = "log") -> Limit:
    """Return a limit that is what its kind wants.

    Raises:
        UsageError: it is no number, out of its range, or cannot be set for ``scope``.
    """
    kind = LIMITS[name]
    if scope not in kind.scopes and not (scope == "log" and name in NEEDED):
        raise UsageError(f"{source}: {name} is of the whole log, not of a {scope}; set it there.")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{source}: {name} is {_shown(value)}; write a number.")
    if kind.unit in ("share", "points"):
        if not math.isfinite(value) or not 0 <= value <= 1:
            raise UsageError(
                f"{source}: {name} is {value:g}; write a share from 0 to 1, such as 0.6 for 60 %."
            )
        return Limit(float(value), source)
    if value != value or value in (math.inf, -math.inf) or value != int(value) or value < kind.least:  # noqa: PLR0124 - NaN
        raise UsageError(f"{source}: {name} is {value:g}; write a whole number of {kind.least} or more.")
    return Limit(int(value), source)


def _shown(value: object) -> str:
    return {str: "text", bool: "true or false", list: "a list", dict: "a table"}.get(type(value), "no number")
