"""What is judged: a report, and the figures that only the gate asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvtools.report.model import Report


@dataclass(frozen=True, slots=True)
class StableHead:
    """What all requests of a template or route begin with, in tokens, and how many requests these are."""

    tokens: int
    requests: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A report with its stable heads: by template (or route, or ``None`` for the whole log), and by route."""

    report: Report
    heads: Mapping[str | None, StableHead] = field(default_factory=dict)
    route_heads: Mapping[str, StableHead] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, exact where it is a ratio of counts; ``why`` it is not known where it is ``None``."""

    value: float | Fraction | None
    why: str = ""


def coverage_of(report: Report) -> Fraction:
    """Return the share of records with a prompt among those that should have one: repeats and unsent ones do not."""
    held = report.coverage
    whole = report.requests + held.rejected + held.without_prompt
    return Fraction(report.requests, whole) if whole else Fraction(0)


def rate(hits: int, queried: int) -> Fraction | None:
    """Return a hit rate that does not round: 0.61 - 0.59 must not exceed a limit of 0.02."""
    return Fraction(hits, queried) if queried else None


def log_figure(name: str, measured: Measured, baseline: Report | None) -> Figure:
    """Return the figure of the whole log that the limit ``name`` is about."""
    report = measured.report
    similarity = report.similarity
    if report.cache is None:
        return Figure(None, "no request has a prompt")
    own = rate(report.cache.hit_tokens, report.cache.queried_tokens)
    if name == "min-hit-rate":
        return Figure(own, "no prompt was looked up")
    if name == "max-drop":
        return _drop(own, None if baseline is None or baseline.cache is None else
                     rate(baseline.cache.hit_tokens, baseline.cache.queried_tokens))  # fmt: skip
    if name == "max-tokens-lost":
        return Figure(tokens_lost(report), "the log has no text in which causes can be looked for")
    if name == "max-cold-share":
        return _cold(report)
    text, prefix = (None, None) if similarity is None else (
        similarity.jaccard_consecutive, similarity.prefix_jaccard_consecutive,
    )  # fmt: skip
    return _similar(name, report.variable_share, text, prefix)


def _cold(report: Report) -> Figure:
    if report.heat is None:
        return Figure(None, "hot and cold were not told apart")
    return Figure(report.heat.cold_share, report.heat.reason)


def _drop(own: Fraction | None, before: Fraction | None) -> Figure:
    if own is None or before is None:
        return Figure(
            None, "no prompt was looked up" if own is None else "the baseline has no hit rate for it"
        )
    return Figure(before - own)


def tokens_lost(report: Report) -> int | None:
    """Return the hit tokens that the fixes of all findings together would add, ``None`` where none were looked for."""
    if report.findings is None or report.reachable is None or report.cache is None:
        return None
    reached, now = report.reachable.hit_rate, report.cache.hit_rate
    if reached is None or now is None:
        return None
    return max(round((reached - now) * report.cache.queried_tokens), 0)


def route_figure(name: str, route: str, measured: Measured, baseline: Report | None) -> Figure:
    """Return the figure of one route.

    Raises:
        InputError: the log has no such route.
    """
    found = next((one for one in measured.report.routes if one.route == route), None)
    if found is None:
        known = ", ".join(one.route for one in measured.report.routes[:5]) or "none"
        raise InputError(f"no route {route} in the log, for which limits are set; it has {known}.")
    own = rate(found.cache.hit_tokens, found.cache.queried_tokens)
    if name == "min-hit-rate":
        return Figure(own, "no prompt was looked up")
    if name == "max-drop":
        before = next((one for one in (baseline.routes if baseline else ()) if one.route == route), None)
        return _drop(
            own, None if before is None else rate(before.cache.hit_tokens, before.cache.queried_tokens)
        )
    if name == "min-stable-prefix":
        head = measured.route_heads.get(route)
        return Figure(
            head.tokens if head and head.requests > 1 else None, "it takes two requests with tokens"
        )
    return _similar(name, found.variable_share, found.similarity.jaccard_consecutive,
                    found.similarity.prefix_jaccard_consecutive)  # fmt: skip


def class_figure(name: str, heat_class: str, measured: Measured) -> Figure:
    """Return the figure of one class.

    Raises:
        InputError: the log has no such class.
    """
    found = next((one for one in measured.report.classes if one.name == heat_class), None)
    if found is None:
        known = ", ".join(one.name for one in measured.report.classes) or "none"
        raise InputError(f"no class {heat_class} in the log, for which limits are set; it has {known}.")
    if name == "min-hit-rate":
        return Figure(found.hit_rate, "no prompt was looked up")
    return _similar(name, found.variable_share, found.jaccard_consecutive, found.prefix_jaccard_consecutive)


def _similar(name: str, variable: float | None, text: float | None, prefix: float | None) -> Figure:
    held = {"max-variable-share": variable, "min-jaccard": text, "min-prefix-jaccard": prefix}
    return Figure(held[name], "there is no text, or too few requests")
