"""Hot or cold for a request that has just arrived: rules as data, the first that fits decides.

It loads no numpy, no pandas and no scikit-learn, and keeps nothing of what it has seen: one object may serve many
threads of a gateway.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from kvtools.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

Label: TypeAlias = Literal["hot", "cold"]
Op: TypeAlias = Literal["<=", ">", "in", "not_in"]

NAMES = ("route", "request_type")
"""Features that are compared with names (``in``, ``not_in``), letter for letter; all others with a bound."""

DISK_CACHE_TOKENS = 8192
"""Prompts longer than this are cold whoever sends them, and are candidates for a disk cache (article's rule)."""

BUSINESS_TOKENS = 1000
"""The article's stricter rule, off unless asked for: longer prompts are cold even where the business is critical."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class Arriving(msgspec.Struct, forbid_unknown_fields=True):
    """What is known of a request when it arrives; ``None`` is not known.

    ``prompt_tokens``: length of the prompt. ``recent_interval_s``, ``recent_interval_cv``: mean gap in seconds between
    the last 8 arrivals of the route, and its coefficient of variation. ``known_prefix_share``: part of the prompt that
    was seen before (0..1). ``turn``: place in its conversation, 1 is the first. ``request_type``: the header
    ``X-Request-Type``. ``priority``: vLLM's number, where the smallest is the most urgent.
    """

    route: str | None = None
    prompt_tokens: int | None = None
    recent_interval_s: float | None = None
    recent_interval_cv: float | None = None
    known_prefix_share: float | None = None
    turn: int | None = None
    request_type: str | None = None
    priority: int | None = None


Test: TypeAlias = Callable[[Arriving], bool]

_READ: dict[str, Callable[[Arriving], Any]] = {
    feature: attrgetter(feature) for feature in Arriving.__struct_fields__
}


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One test on a feature of ``Arriving``: a number against a bound, or a name against a list of names.

    Raises:
        ValueError: the feature is unknown, or ``op`` and ``value`` do not fit it.
    """

    feature: str
    op: Op
    value: float | tuple[str, ...]

    def __post_init__(self) -> None:
        if self.feature not in _READ:
            raise ValueError(f"there is no feature {self.feature!r}; take one of {', '.join(_READ)}")
        if self.op not in get_args(Op):
            raise ValueError(f"there is no comparison {self.op!r}; take one of {', '.join(get_args(Op))}")
        is_name = self.feature in NAMES
        if is_name != (self.op in {"in", "not_in"}):
            ops = "in, not_in" if is_name else "<=, >"
            raise ValueError(f"{self.feature} is not compared by {self.op}; take one of {ops}")
        if isinstance(self.value, tuple):
            if not is_name or not self.value or not all(self.value):
                raise ValueError(f"{self.feature} {self.op} takes {_wanted(is_name)}")
        elif is_name or not math.isfinite(self.value):
            raise ValueError(f"{self.feature} {self.op} takes {_wanted(is_name)}")

    def test(self) -> Test:
        """Return the function that tells whether a request passes; what is not known (or an empty name) never does."""
        read, value = _READ[self.feature], self.value
        if not isinstance(value, tuple):
            if self.op == "<=":
                return lambda request: (known := read(request)) is not None and known <= value
            return lambda request: (known := read(request)) is not None and known > value
        names = frozenset(value)
        if self.op == "in":
            return lambda request: read(request) in names
        return lambda request: bool(known := read(request)) and known not in names

    def holds(self, request: Arriving) -> bool:
        """Tell whether the request passes."""
        return self.test()(request)

    def __str__(self) -> str:
        if isinstance(self.value, tuple):
            return f"{self.feature} {self.op.replace('_', ' ')} {', '.join(map(_shown, self.value))}"
        return f"{self.feature} {self.op} {self.value:.10g}"


def _shown(name: str) -> str:
    """Return a name on one line, whatever a log put into it."""
    return name if name.isprintable() else ascii(name)


def _wanted(is_name: bool) -> str:  # noqa: FBT001 - one of two words
    return "a list of names, none of them empty" if is_name else "a finite number"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label for the requests that pass all conditions of ``when`` (none: every request).

    ``name`` says where the rule comes from (``over-8192-tokens``, ``article-b``, ``header``, ``model-1``); several may
    share it. ``disk_cache``: the prompt is long enough to be kept on disk rather than in the KV cache.

    Raises:
        ValueError: the name has other characters than small letters, digits and hyphens, or the label is unknown.
    """

    name: str
    when: tuple[Condition, ...]
    label: Label
    disk_cache: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"a rule's name has 1 to 64 of a-z, 0-9 and hyphens, a hyphen never first: not {self.name[:64]!r}"
            )
        if self.label not in get_args(Label):
            raise ValueError(f"a rule's label is hot or cold, not {self.label!r}")

    def fits(self, request: Arriving) -> bool:
        """Tell whether all conditions hold."""
        return all(condition.holds(request) for condition in self.when)

    def __str__(self) -> str:
        conditions = " and ".join(map(str, self.when)) or "always"
        return f"{self.label} if {conditions}" + (" (disk cache)" if self.disk_cache else "")


OVER_8192_TOKENS = Rule(
    "over-8192-tokens", (Condition("prompt_tokens", ">", DISK_CACHE_TOKENS),), "cold", disk_cache=True
)
ARTICLE_B = Rule("article-b", (Condition("prompt_tokens", ">", BUSINESS_TOKENS),), "cold")
HEADER = (
    Rule("header", (Condition("request_type", "in", ("hot",)),), "hot"),
    Rule("header", (Condition("request_type", "in", ("cold",)),), "cold"),
)
"""What the sender says of itself in ``X-Request-Type``."""


class RuleSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules in their order: the first that fits decides; ``default`` where none does."""

    rules: tuple[Rule, ...]
    default: Label

    def __post_init__(self) -> None:
        if self.default not in get_args(Label):
            raise ValueError(f"the default label is hot or cold, not {self.default!r}")

    def fitted(self, request: Arriving) -> Rule | None:
        """Return the first rule that fits, ``None`` where none does."""
        for rule in self.rules:
            if rule.fits(request):
                return rule
        return None

    def label(self, request: Arriving) -> Label:
        """Return hot or cold."""
        rule = self.fitted(request)
        return self.default if rule is None else rule.label


class HeatRules:
    """A rule set at work in a service: ``HeatRules.load("rules.yaml").label(request)``, in a few microseconds."""

    def __init__(self, rules: RuleSet) -> None:
        """Take the rules."""
        self.rules = rules
        self._tests = [([condition.test() for condition in rule.when], rule) for rule in rules.rules]

    @classmethod
    def load(cls, path: str | PathLike[str]) -> HeatRules:
        """Return the rules of a file that ``kvtools rules`` wrote, or of one written by hand.

        Raises:
            InputError: the file cannot be read or is no rule file; the sentence names path and line.
        """
        from kvtools.heat.rules_file import read_rules  # noqa: PLC0415 - parses YAML, only here

        return cls(read_rules(path))

    def label(self, request: Arriving | Mapping[str, object]) -> Label:
        """Return hot or cold for a request, given as ``Arriving`` or as a mapping of its fields.

        Raises:
            UsageError: the mapping has a key or a type that ``Arriving`` has not.
        """
        rule = self.fitted(request)
        return self.rules.default if rule is None else rule.label

    def fitted(self, request: Arriving | Mapping[str, object]) -> Rule | None:
        """Return the rule that decides, ``None`` for the default.

        Raises:
            UsageError: as ``label``.
        """
        arriving = _arriving(request)
        for tests, rule in self._tests:
            for test in tests:
                if not test(arriving):
                    break
            else:
                return rule
        return None


def _arriving(request: Arriving | Mapping[str, object]) -> Arriving:
    if isinstance(request, Arriving):
        return request
    try:
        return msgspec.convert(request, Arriving)
    except msgspec.ValidationError as error:
        raise UsageError(f"request: {error}; give the fields of kvtools.heat.rules.Arriving.") from None
