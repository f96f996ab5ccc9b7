"""From a report and a budget to the checks: pure, and exact where figures are ratios of counts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kvtools.errors import InputError, UsageError
from kvtools.gate.budget import LIMITS, NEEDED
from kvtools.gate.measured import (
    Figure,
    Measured,
    StableHead,
    class_figure,
    coverage_of,
    log_figure,
    rate,
    route_figure,
)
from kvtools.report.check import Check
from kvtools.report.numbers import counted, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kvtools.gate.budget import Budget, Limit, LimitKind
    from kvtools.report.model import Report


_EQUAL, _MOST_DIGITS = 1e-9, 8


def judge(measured: Measured, budget: Budget, baseline: Report | None = None) -> tuple[Check, ...]:
    """Return a check for each limit of ``budget``, those of the whole log first, in the order of ``LIMITS``.

    Raises:
        UsageError: there is no limit, or one on the drop without a baseline.
        InputError: there is too little to judge, a limit's figure cannot be measured, or a route or class is missing.
    """
    if not budget.judges():
        raise UsageError("no limit is set, so that nothing can fail: give one, such as --min-hit-rate 0.6.")
    if budget.demands("max-drop") and baseline is None:
        raise UsageError("max-drop is a limit against a baseline: name one with --baseline FILE.")
    needed = enough(measured.report, budget)
    checks = [*_whole(measured, budget, baseline), *_routes(measured, budget, baseline)]
    return (*checks, *_classes(measured, budget), *needed)


def enough(report: Report, budget: Budget) -> list[Check]:
    """Return the checks that there is enough to judge.

    Raises:
        InputError: there is not; that is no failed gate, and never a pass.
    """
    found = {"min-requests": Fraction(report.requests), "min-coverage": coverage_of(report)}
    checks = []
    for name in NEEDED:
        limit = budget.limit(name)
        if limit is None:  # pragma: no cover - both have a default
            continue
        check = _check(LIMITS[name], None, Figure(found[name]), limit)
        if check.status == "fail":
            more = "give a longer log" if name == "min-requests" else "--rejects FILE lists what was rejected"
            raise InputError(f"too little to judge: {check.message}; {more}, or set --{name}.")
        checks.append(check)
    return checks


def _whole(measured: Measured, budget: Budget, baseline: Report | None) -> Iterator[Check]:
    for name, kind in LIMITS.items():
        limit = budget.log.get(name)
        if limit is None or name in NEEDED:
            continue
        if name == "min-stable-prefix":
            yield from _heads(measured, limit)
        else:
            found = _known(log_figure(name, measured, baseline), name, limit, "")
            yield _check(
                kind, None, found, limit, _rates(measured.report, baseline), _gap(name, measured.report)
            )


def _heads(measured: Measured, limit: Limit) -> Iterator[Check]:
    """One check per template; a template of one request says nothing about what its requests share."""
    kind = LIMITS["min-stable-prefix"]
    if not any(head.requests > 1 for head in measured.heads.values()):
        _known(Figure(None, "it takes two requests with text or token ids"), kind.name, limit, "")
    for scope, head in measured.heads.items():
        if head.requests > 1:
            yield _check(kind, scope, Figure(Fraction(head.tokens)), limit)
        else:
            yield _one_request(kind, scope, head, limit)


def _one_request(kind: LimitKind, scope: str | None, head: StableHead, limit: Limit) -> Check:
    return Check(
        name=kind.name, title=kind.title, scope=scope, status="n/a", measured=None, limit=limit.value, unit=kind.unit,
        baseline=None, limit_from=limit.source, gates=True,
        message=f"{_of(scope)}{kind.title} not known: {counted(head.requests, 'request')}",
    )  # fmt: skip


def _routes(measured: Measured, budget: Budget, baseline: Report | None) -> Iterator[Check]:
    for route, limits in sorted(budget.routes.items()):
        for name, limit in _ordered(limits):
            found = route_figure(name, route, measured, baseline)
            rates = _rates(measured.report, baseline, route)
            yield _check(LIMITS[name], route, _known(found, name, limit, f" of route {route}"), limit, rates)


def _classes(measured: Measured, budget: Budget) -> Iterator[Check]:
    for heat_class, limits in sorted(budget.classes.items()):
        for name, limit in _ordered(limits):
            found = class_figure(name, heat_class, measured)
            yield _check(
                LIMITS[name], heat_class, _known(found, name, limit, f" of class {heat_class}"), limit
            )


def _ordered(limits: Mapping[str, Limit]) -> list[tuple[str, Limit]]:
    return [(name, limits[name]) for name in LIMITS if name in limits]


def _known(found: Figure, name: str, limit: Limit, whose: str) -> Figure:
    if found.value is None:
        title = LIMITS[name].title
        raise InputError(
            f"{limit.source}: {title}{whose} cannot be measured ({found.why}); leave the limit out."
        )
    return found


def _rates(
    report: Report, baseline: Report | None, route: str | None = None
) -> tuple[Fraction | None, Fraction | None]:
    """Return the hit rate now and in the baseline, of a route or of all."""
    return _rate_of(report, route), None if baseline is None else _rate_of(baseline, route)


def _rate_of(report: Report, route: str | None) -> Fraction | None:
    if route is not None:
        found = next((one.cache for one in report.routes if one.route == route), None)
        return None if found is None else rate(found.hit_tokens, found.queried_tokens)
    return None if report.cache is None else rate(report.cache.hit_tokens, report.cache.queried_tokens)


def _gap(name: str, report: Report) -> str:
    """Say what an unlimited cache would hit, where this one hits less: that gap is capacity, not prompts."""
    cache, ceiling = report.cache, report.ceiling
    if name != "min-hit-rate" or cache is None or ceiling is None or cache.capacity_blocks is None:
        return ""
    if ceiling.hit_tokens <= cache.hit_tokens:
        return ""
    size = counted(cache.capacity_blocks, "block")
    return (
        f"; {percent(ceiling.hit_rate)} without a limit: the gap is the capacity of {size}, not the prompts"
    )


def _check(
    kind: LimitKind,
    scope: str | None,
    found: Figure,
    limit: Limit,
    rates: tuple[Fraction | None, Fraction | None] = (None, None),
    more: str = "",
) -> Check:
    value = found.value if found.value is not None else Fraction(0)
    bound = Fraction(str(limit.value))
    holds = value >= bound if kind.at_least else value <= bound
    whole = kind.unit in ("tokens", "requests")
    before = rates[1] if kind.name in ("max-drop", "min-hit-rate") else None
    return Check(
        name=kind.name,
        title=kind.title,
        scope=scope,
        status="pass" if holds else "fail",
        measured=int(value) if whole else float(value),
        limit=limit.value,
        unit=kind.unit,
        baseline=None if before is None else float(before),
        message=_of(scope) + _message(kind, value, limit, rates) + more,
        limit_from=limit.source,
        gates=True,
    )


def _of(scope: str | None) -> str:
    return "" if scope is None else f"{scope}: "


def _message(
    kind: LimitKind, value: float | Fraction, limit: Limit, rates: tuple[Fraction | None, Fraction | None]
) -> str:
    bound = limit.value
    if kind.unit == "points":
        now, before = (None if part is None else float(part) for part in rates)
        change = "dropped" if value > 0 else "rose" if value < 0 else "changed"
        points = _apart(abs(100 * float(value)), 100 * bound, 1)
        return f"hit rate {percent(now)}, baseline {percent(before)} ({change} {points} points, limit {100 * bound:g})"
    if kind.unit in ("tokens", "requests"):
        unit = " tokens" if kind.unit == "tokens" else ""
        return f"{kind.title} {int(value):,}{unit} (limit {int(bound):,})"
    if "jaccard" in kind.name:
        return f"{kind.title} {_apart(float(value), bound, 2)} (limit {bound:g})"
    return f"{kind.title} {_apart(100 * float(value), 100 * bound, 1)} % (limit {100 * bound:g} %)"


def _apart(value: float, bound: float, digits: int) -> str:
    """Return the value with so many digits that it does not read like a limit that it only comes near to."""
    shown = f"{value:.{digits}f}"
    while float(shown) == round(bound, 9) and abs(value - bound) > _EQUAL and digits < _MOST_DIGITS:
        digits += 1
        shown = f"{value:.{digits}f}"
    return shown
