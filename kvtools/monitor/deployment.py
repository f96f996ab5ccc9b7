"""What the user says of the servers that are watched: which series are theirs, and which serve what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

import re2

from kvtools.errors import UsageError
from kvtools.report.heat import LATENCY_LIMITS_MS

Latency: TypeAlias = Literal["e2e", "ttft"]

WINDOW = "5m"
"""Over what counters are compared: twenty scrapes of Prometheus' usual 15 s."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = r'[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=|!=|=~|!~)\s*"(?:[^"\\\n]|\\.)*"'
_PATTERN = re.compile(r'[=!]~\s*"((?:[^"\\\n]|\\.)*)"')
_MATCHERS = re.compile(rf"\s*{_MATCHER}(?:\s*,\s*{_MATCHER})*\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A kind of traffic with article B's limit for its P99, and the label matchers of its series (empty: all)."""

    name: str
    selector: str = ""

    @property
    def p99_s(self) -> float:
        """The limit in seconds."""
        return LATENCY_LIMITS_MS[self.name][1] / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The servers that are watched.

    ``selector``: label matchers of all their series, ``textfile_selector`` of the textfile of their log. ``by``: the
    labels that make one service; its engines and pods are summed. ``hot``, ``cold``: label matchers of the servers that
    serve only such requests, since vLLM labels no request with its class. ``max_num_seqs``: vLLM's own setting, which
    it does not export. ``latency`` is what scenarios limit.

    Raises:
        UsageError: matchers, labels or scenarios that cannot be.
    """

    selector: str = ""
    textfile_selector: str = ""
    by: tuple[str, ...] = ("job", "model_name")
    hot: str | None = None
    cold: str | None = None
    max_num_seqs: int | None = None
    scenarios: tuple[Scenario, ...] = ()
    latency: Latency = "e2e"

    def __post_init__(self) -> None:
        given = [
            ("--selector", self.selector or None),
            ("--textfile-selector", self.textfile_selector or None),
        ]
        given += [("--hot", self.hot), ("--cold", self.cold)]
        given += [(f"--scenario {one.name}", one.selector or None) for one in self.scenarios]
        for option, matchers in given:
            if matchers is not None:
                _check(option, matchers)
        for label in self.by:
            if not _LABEL.fullmatch(label) or label == "le":
                raise UsageError(f"--by {label!r}: a label's name, such as job, other than le.")
        if self.latency != "e2e" and not self.scenarios:
            raise UsageError(f"--latency {self.latency}: says what --scenario limits; give one.")
        if (self.hot is None) != (self.cold is None):
            raise UsageError("--hot and --cold need each other: a share is of both classes.")


def _check(option: str, matchers: str) -> None:
    if not _MATCHERS.fullmatch(matchers):
        raise UsageError(
            f'{option} {matchers!r}: write label matchers such as job="vllm",model_name=~"shop.*".'
        )
    for pattern in _PATTERN.findall(matchers):
        quiet = re2.Options()
        quiet.log_errors = False
        try:
            re2.compile(pattern.replace("\\\\", "\\"), quiet)  # Prometheus' own syntax is that of RE2
        except re2.error:
            raise UsageError(f"{option}: {pattern!r} is no regular expression; correct it.") from None


def scenario(text: str) -> Scenario:
    """Return the scenario of ``NAME`` or ``NAME=MATCHERS``; a dash in a name is a space.

    Raises:
        UsageError: no such scenario.
    """
    name, _, selector = text.partition("=")
    known = name.replace("-", " ")
    if known not in LATENCY_LIMITS_MS:
        names = ", ".join(name.replace(" ", "-") for name in LATENCY_LIMITS_MS)
        raise UsageError(
            f"--scenario {text}: one of {names}, and where only some series serve it, NAME=MATCHERS."
        )
    return Scenario(name=known, selector=selector)
