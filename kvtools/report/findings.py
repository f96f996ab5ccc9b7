"""Findings as they stand in a report: what breaks the prefix, where, what it costs, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.diagnosis.ranking import severity_of
from kvtools.fields.mask import mask
from kvtools.report.cost import Cost, basis_sentence, cost_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.diagnosis.apart import ApartFinding
    from kvtools.diagnosis.candidates import Candidate
    from kvtools.diagnosis.history import HistoryFinding
    from kvtools.diagnosis.ranking import ClusterOutcome, Ranked
    from kvtools.diagnosis.ranking import Finding as RankedFinding
    from kvtools.report.cost import CostBasis


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One value that varies; ``examples`` are masked unless text was asked for."""

    name: str
    kind: str
    granularity: str | None
    distinct_values: int
    examples: list[str]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause. ``gain`` (0..1) is the hit rate that its fix adds: alone, or beside the others of its cluster.

    ``tokens_lost`` are the hit tokens of that gain, at least 0; ``only_together``: alone the fix is not worth advice.
    """

    id: str
    cluster: str
    route: str | None
    kind: str
    fields: list[Field]
    section: str
    position_chars: int | None
    granularity: str | None
    requests: int
    tokens_lost: int | None
    hit_rate_if_fixed: float | None
    gain: float
    only_together: bool
    severity: str
    fix: str
    cost_per_day: float | None
    cost_per_million_requests: float | None


class ClusterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Sections of one route that begin with the same stable text; ``texts`` are the distinct ones.

    ``fixes``: the findings of the cluster that pay together, and ``hit_rate_if_fixed`` their replay.
    """

    name: str
    id: str
    section: str
    route: str | None
    requests: int
    texts: int
    fixes: list[str]
    hit_rate_if_fixed: float | None


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """One step to the best combination: the findings fixed in it, and the hit rate of all steps up to here."""

    findings: list[str]
    hit_rate: float | None


class Reachable(msgspec.Struct, frozen=True, kw_only=True):
    """The best combination of fixes, each step replayed."""

    hit_rate: float | None
    fixes: list[Fix]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Findings by gain, the clusters they belong to, and what their fixes reach together."""

    findings: list[Finding]
    clusters: list[ClusterFigures]
    reachable: Reachable
    cost_basis: str | None


_FIXES = {
    "permuted_block": "keep one order of these lines, or move them as a block to the end of the {section}",
    "line_ends": "write one form: line feeds only",
    "trailing_blanks": "write one form: no blanks before line ends",
    "blank_lines": "write one form: one blank line, not several",
    "no_break_spaces": "write one form: blanks for no-break spaces",
    "unicode_form": "write one form: Unicode NFC",
    "tool_order": "send the tools in one order, by name",
    "json_key_order": "write JSON with sorted keys",
}

_SECTIONS = {"system": "system message", "user": "user message", "tool": "tool message", "prompt": "prompt"}


def diagnosis_figures(
    found: Ranked,
    histories: Sequence[HistoryFinding] = (),
    apart: Sequence[ApartFinding] = (),
    *,
    show_text: bool,
    basis: CostBasis | None = None,
) -> Diagnosis:
    """Return the findings as figures; values are masked unless ``show_text``, money is ``None`` without a ``basis``."""
    names = cluster_names(found)
    now = found.now.hit_tokens
    return Diagnosis(
        findings=_by_gain(
            [_finding(f, names[f.cluster.cluster_id], basis, show_text=show_text) for f in found.findings],
            [_history(history, now, basis) for history in histories],
            [_apart(one, basis) for one in apart],
        ),
        clusters=[
            ClusterFigures(
                name=names[of.cluster.cluster_id],
                id=of.cluster.cluster_id,
                section=_SECTIONS.get(of.cluster.role, of.cluster.role),
                route=of.cluster.route,
                requests=of.cluster.requests,
                texts=of.cluster.texts,
                fixes=list(of.findings),
                hit_rate_if_fixed=of.outcome.hit_rate if of.fixes else None,
            )
            for of in _by_size(found)
        ],
        reachable=Reachable(
            hit_rate=found.steps[-1].outcome.hit_rate if found.steps else found.now.hit_rate,
            fixes=[Fix(findings=list(step.findings), hit_rate=step.outcome.hit_rate) for step in found.steps],
        ),
        cost_basis=None if basis is None else basis_sentence(basis),
    )


def _by_gain(
    findings: Sequence[Finding], histories: Sequence[Finding], apart: Sequence[Finding]
) -> list[Finding]:
    """Put what pays before what does not; in it what no text can mend first, then the prompts, then the histories."""
    groups = (apart, findings, histories)
    paying = [finding for group in groups for finding in group if finding.severity != "info"]
    rest = (findings, apart, histories)
    return [*paying, *(finding for group in rest for finding in group if finding.severity == "info")]


def _apart(found: ApartFinding, basis: CostBasis | None) -> Finding:
    cost = _cost(found.lost_tokens, basis)
    return Finding(
        id=found.finding_id,
        cluster="-",
        route=None,
        kind=found.kind,
        fields=[],
        section="user message" if found.kind == "image_before_text" else "request",
        position_chars=None,
        granularity=None,
        requests=found.requests,
        tokens_lost=found.lost_tokens,
        hit_rate_if_fixed=None if found.fixed is None else found.fixed.hit_rate,
        gain=found.gain,
        only_together=False,
        severity=found.severity,
        fix=found.sentence,
        cost_per_day=cost.per_day,
        cost_per_million_requests=cost.per_million_requests,
    )


def _history(found: HistoryFinding, now: int, basis: CostBasis | None) -> Finding:
    cause = found.cause
    lost = None if found.fixed is None else max(found.fixed.hit_tokens - now, 0)
    cost = _cost(lost, basis)
    return Finding(
        id=found.finding_id,
        cluster="-",
        route=None,
        kind=cause.kind,
        fields=[],
        section=_SECTIONS.get(cause.role, cause.role),
        position_chars=cause.place,
        granularity=None,
        requests=found.requests,
        tokens_lost=lost,
        hit_rate_if_fixed=None if found.fixed is None else found.fixed.hit_rate,
        gain=max(found.gain, 0.0),
        only_together=False,
        severity=severity_of(found.gain),
        fix=cause.detail,
        cost_per_day=cost.per_day,
        cost_per_million_requests=cost.per_million_requests,
    )


def _cost(lost: int | None, basis: CostBasis | None) -> Cost:
    return Cost(None, None) if basis is None or lost is None else cost_of(lost, basis)


def cluster_names(found: Ranked) -> dict[str, str]:
    """Name the clusters A, B, … Z, AA, … in the order in which they are listed."""
    return {of.cluster.cluster_id: _letters(number) for number, of in enumerate(_by_size(found))}


def _by_size(found: Ranked) -> list[ClusterOutcome]:
    return sorted(found.clusters, key=lambda of: (-of.cluster.requests, of.cluster.cluster_id))


def _letters(number: int) -> str:
    name = ""
    while number >= 0:
        name = chr(ord("A") + number % 26) + name
        number = number // 26 - 1
    return name


def _finding(f: RankedFinding, cluster: str, basis: CostBasis | None, *, show_text: bool) -> Finding:
    candidate = f.candidate
    cost = _cost(f.lost_tokens, basis)
    return Finding(
        id=f.finding_id,
        cluster=cluster,
        route=candidate.route,
        kind=candidate.kind,
        fields=[
            Field(
                name=field.name,
                kind=field.kind.name,
                granularity=field.kind.granularity,
                distinct_values=field.distinct,
                examples=[value if show_text else mask(value) for value in field.examples],
            )
            for field in candidate.fields
        ],
        section=_SECTIONS.get(candidate.role, candidate.role),
        position_chars=candidate.place,
        granularity=next((x.kind.granularity for x in candidate.fields if x.kind.granularity), None),
        requests=f.requests,
        tokens_lost=f.lost_tokens,
        hit_rate_if_fixed=f.fixed.hit_rate,
        gain=f.gain,
        only_together=f.together,
        severity=f.severity,
        fix=_fix(candidate),
        cost_per_day=cost.per_day,
        cost_per_million_requests=cost.per_million_requests,
    )


def _fix(candidate: Candidate) -> str:
    section = _SECTIONS.get(candidate.role, candidate.role)
    known = _FIXES.get(candidate.kind)
    if known is not None:
        return known.format(section=section)
    names = ", ".join(field.name for field in candidate.fields)
    return f"move {names} to the end of the {section}"
