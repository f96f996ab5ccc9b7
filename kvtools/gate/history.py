"""A history of hit rates: the reports or baselines of one log after another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import TYPE_CHECKING

from kvtools.errors import InputError
from kvtools.gate.budget import DEFAULT_MIN_REQUESTS
from kvtools.gate.measured import rate
from kvtools.gate.series import LEAST_DROP, LEAST_SAMPLES, Sample, standings
from kvtools.report.check import Cause, Check, Place
from kvtools.report.numbers import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvtools.gate.series import Drop, Standing
    from kvtools.report.model import Report

WHOLE_LOG = "whole log"
NAME, TITLE, RULE = "history", "hit rate against its own past", "hit-rate-fell"


@dataclass(frozen=True, slots=True)
class Dated:
    """A sample, and where it stands."""

    sample: Sample
    place: Place


def samples_of(report: Report, path: str) -> Iterator[Dated]:
    """Yield the samples of a report: of the whole log, and of each route with enough requests to judge.

    What their prompts are made of: the stable text of each section, and the causes that were found.

    Raises:
        InputError: no prompt was looked up.
    """
    whole = None if report.cache is None else rate(report.cache.hit_tokens, report.cache.queried_tokens)
    if whole is None:
        raise InputError(f"{path}: no request has a prompt, so there is no hit rate; take it out.")
    place = Place(path=path, line=None)
    yield Dated(Sample(WHOLE_LOG, float(whole), _marks(report, None)), place)
    for one in report.routes:
        own = rate(one.cache.hit_tokens, one.cache.queried_tokens)
        if own is not None and one.requests >= DEFAULT_MIN_REQUESTS:
            yield Dated(Sample(f"route {one.route}", float(own), _marks(report, one.route)), place)


def _marks(report: Report, route: str | None) -> dict[str, str]:
    """Return digests of what prompts are made of, by words for it: ids only, no text of a prompt."""
    texts: dict[str, list[str]] = {}
    for cluster in report.clusters:
        if route in (None, cluster.route):
            name = f"stable text of {_whose(cluster.section, cluster.route, route)}"
            texts.setdefault(name, []).append(cluster.id)
    marks = {name: ",".join(sorted(ids)) for name, ids in sorted(texts.items())}
    for found in report.findings or ():
        if found.severity != "info" and route in (None, found.route):
            marks[f"{found.kind} in {_whose(found.section, found.route, route)}"] = "found"
    return marks


def _whose(section: str, route: str | None, asked: str | None) -> str:
    return section if route is None or asked is not None else f"{section} of route {route}"


def history_checks(dated: Sequence[Dated]) -> tuple[list[Check], list[Cause]]:
    """Return a check for each key, which fails where its newest sample fell, and the drop of each that fell last.

    Raises:
        InputError: no key has enough samples to judge; that is no pass.
    """
    samples = [one.sample for one in dated]
    found = standings(samples)
    if all(one.baseline is None and one.drop is None for one in found):
        raise InputError(
            f"too little to judge: it takes {LEAST_SAMPLES} samples of a key before the newest, and no key has "
            "them; give a longer history."
        )
    checks = [_check(one, dated) for one in found]
    return checks, [_cause(one.drop, dated, fell=one.fell) for one in found if one.drop is not None]


def _check(one: Standing, dated: Sequence[Dated]) -> Check:
    base = one.baseline
    newest = dated[-1].place.path
    gone = dated[one.index].place.path != newest
    known = base is not None and not gone
    return Check(
        name=NAME,
        title=TITLE,
        scope=one.key,
        status="n/a" if not known else "fail" if one.fell else "pass",
        measured=float(Fraction(base) - Fraction(one.rate)) if known and base is not None else None,
        limit=LEAST_DROP,
        unit="points",
        baseline=base if known else None,
        message=f"{one.key}: {_standing(one, dated, newest if gone else None)}",
        limit_from="default",
        gates=True,
    )


def _standing(one: Standing, dated: Sequence[Dated], gone_from: str | None) -> str:
    now = f"hit rate {percent(one.rate)}"
    if gone_from is not None:
        return f"not judged: no sample, or too few requests, in {gone_from}"
    before = (
        ""
        if one.drop is None or one.fell
        else f"; {_fall(one.drop)} at {_where(dated[one.drop.index].place)}"
    )
    if one.fell and one.drop is not None:
        return f"{now}, {_fall(one.drop)}"
    if one.baseline is None:
        return f"{now}, too few samples at this level to judge{before}"
    return f"{now}, median before {percent(one.baseline)}{before}"


def _fall(drop: Drop) -> str:
    points = 100 * (drop.baseline - drop.rate)
    why = f"changed there: {', '.join(drop.causes)}" if drop.causes else "nothing known changed there"
    return f"fell by {points:.1f} points from a median of {percent(drop.baseline)} ({drop.drop_class}; {why})"


def _where(place: Place) -> str:
    return place.path if place.line is None else f"{place.path}:{place.line}"


def _cause(drop: Drop, dated: Sequence[Dated], *, fell: bool) -> Cause:
    digest = blake2b(
        "\0".join((RULE, drop.key, *drop.causes)).encode("utf-8", "surrogatepass"), digest_size=16
    )
    return Cause(
        rule=RULE,
        message=f"{drop.key}: {_fall(drop)}",
        place=dated[drop.index].place,
        level="error" if fell else "note",
        fingerprint=digest.hexdigest(),
    )
