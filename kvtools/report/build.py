"""From the finished profile and the replayed cache to the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools import __version__
from kvtools.model import share
from kvtools.report.coverage import coverage
from kvtools.report.model import (
    SCHEMA_VERSION,
    Cache,
    CacheNeed,
    CurvePoint,
    Hits,
    Input,
    PromptTokens,
    Report,
    Route,
    RouteHits,
    Settings,
    Similarity,
)
from kvtools.report.sessions import session_figures
from kvtools.report.shape import histograms, over_time, prefix_tree
from kvtools.report.traffic import Answer, answers, period_of, traffic_figures
from kvtools.similarity.consecutive import JaccardSum

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from kvtools.cache import CacheStudy
    from kvtools.profile import LogProfile, PrefixSimilarity, RequestColumns
    from kvtools.report.compare import Compare
    from kvtools.report.findings import Diagnosis
    from kvtools.report.model import Demand
    from kvtools.report.section_order import SectionOrder
    from kvtools.report.sessions import SessionFigures
    from kvtools.report.verdict import MissFigures, VerdictFigures

NEEDS = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of the ceiling's hits for which the smallest cache is named."""

_SMALLEST_CURVE_BLOCKS = 16
_NO_SECTIONS = "no chat begins with two system messages, and no RAGPulse trace stands beside its lengths"
_FEW = 2
"""Of two requests, every shingle is carried by half: a share of variable text says nothing there."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reading:
    """What was read, and how. ``findings_missing`` says why there are no findings, or not all; empty: all are there."""

    inputs: list[Input]
    settings: Settings
    skipped_files: Sequence[str]
    profile: LogProfile
    section_order: SectionOrder | None = None
    findings_missing: str = "no request has a prompt, token ids or block ids"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Findings(Reading):
    """All that the rooms before this one worked out of the requests with a prompt."""

    requests: RequestColumns
    ids: NDArray[np.int32]
    prefix: PrefixSimilarity
    study: CacheStudy
    observed: Compare | None
    demand: Demand | None
    diagnosis: Diagnosis | None
    misses: MissFigures
    verdict: VerdictFigures


def build_report(found: Findings, curve_blocks: Sequence[int] | None = None) -> Report:
    """Return the report. ``curve_blocks`` are the cache sizes to print (default: powers of two)."""
    study, profile, requests = found.study, found.profile, found.requests
    variable = profile.sample.variable_tokens()
    everything = np.ones(len(requests.prompt_tokens), dtype=np.bool_)
    sessions = session_figures(requests, study.result, found.ids)
    # Ceiling and curve are about every request, also those that a smaller cache refuses.
    queried = int(study.queried.sum())
    return msgspec.structs.replace(
        traffic_report(found, _supported(found, sessions)),
        requests=len(requests.prompt_tokens),
        period=period_of(requests.arrival_us, profile.utc_offset_min or 0),
        prompt_tokens=_lengths(requests.prompt_tokens),
        variable_share=_variable_share(variable, len(requests.prompt_tokens)),
        variable_share_requests=profile.sample.requests,
        similarity=_similarity(found, everything, None),
        routes=_routes(found, variable),
        cache=_cache(study),
        ceiling=Hits(hit_tokens=study.ceiling_tokens(everything), hit_rate=study.ceiling_rate(everything)),
        unique_blocks=study.curve.unique_blocks,
        cache_needed=[
            CacheNeed(share_of_ceiling=part, capacity_blocks=study.curve.blocks_for(part)) for part in NEEDS
        ],
        curve=[
            CurvePoint(capacity_blocks=size, hit_tokens=hits, hit_rate=share(hits, queried))
            for size in (curve_blocks or curve_sizes(study.curve.unique_blocks))
            for hits in [study.curve.at(size)]
        ],
        over_time=over_time(requests, study.result, profile.utc_offset_min or 0),
        prefix_tree=prefix_tree(requests, found.ids, study.result, profile.route_names),
        observed=found.observed,
        demand=found.demand,
        sessions=sessions,
        verdict=found.verdict,
        misses=found.misses,
        findings=None if found.diagnosis is None else found.diagnosis.findings,
        clusters=[] if found.diagnosis is None else found.diagnosis.clusters,
        reachable=None if found.diagnosis is None else found.diagnosis.reachable,
        cost_basis=None if found.diagnosis is None else found.diagnosis.cost_basis,
    )


def traffic_report(reading: Reading, supported: AbstractSet[str] = frozenset()) -> Report:
    """Return the report on requests of which no prompt is known; ``supported`` names further answers."""
    profile = reading.profile
    columns = profile.traffic.columns()
    traffic = traffic_figures(columns, profile.utc_offset_min or 0)
    return Report(
        schema_version=SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=reading.inputs,
        settings=reading.settings,
        coverage=coverage(profile.counts, reading.skipped_files),
        answers=[*answers(traffic, profile.prompts, supported), *_answers_of_findings(reading)],
        traffic=traffic,
        requests=0,
        period=None,
        prompt_tokens=None,
        variable_share=None,
        variable_share_requests=0,
        similarity=None,
        routes=[],
        cache=None,
        ceiling=None,
        unique_blocks=None,
        cache_needed=[],
        curve=[],
        over_time=[],
        histograms=histograms(columns.prompt_tokens, columns.arrival_us),
        prefix_tree=[],
        observed=None,
        demand=None,
        sessions=None,
        verdict=None,
        misses=None,
        findings=None,
        clusters=[],
        reachable=None,
        section_order=reading.section_order,
        cost_basis=None,
    )


def _answers_of_findings(reading: Reading) -> list[Answer]:
    """Return whether the log supports findings and an order of sections. Part of the findings is no support."""
    ordered = reading.section_order is not None
    return [
        Answer(name="findings", supported=not reading.findings_missing, why=reading.findings_missing),
        Answer(name="section_order", supported=ordered, why="" if ordered else _NO_SECTIONS),
    ]


def _supported(found: Findings, sessions: SessionFigures | None) -> set[str]:
    """Return the answers that take more than a prompt and are there."""
    there = {
        "similarity_of_text": found.profile.has_text,
        "routes": bool(found.profile.route_names),
        "conversations": sessions is not None,
        "predicted_against_reported": found.observed is not None,
        "demand_in_flight": found.demand is not None,
    }
    return {name for name, is_there in there.items() if is_there}


def _variable_share(variable: dict[int, tuple[int, int]], requests: int) -> float | None:
    if requests <= _FEW:
        return None
    return share(sum(part for part, _ in variable.values()), sum(whole for _, whole in variable.values()))


def curve_sizes(unique_blocks: int) -> list[int]:
    """Return powers of two from 16 blocks up to the first that holds every block of the log."""
    sizes = [_SMALLEST_CURVE_BLOCKS]
    while sizes[-1] < unique_blocks:
        sizes.append(2 * sizes[-1])
    return sizes


def _lengths(tokens: NDArray[np.int64]) -> PromptTokens:
    return PromptTokens(
        total=int(tokens.sum()),
        mean=float(tokens.mean()),
        std=float(tokens.std()),
        p50=float(np.percentile(tokens, 50)),
        p95=float(np.percentile(tokens, 95)),
        max=int(tokens.max()),
    )


def _similarity(found: Findings, rows: NDArray[np.bool_], route: int | None) -> Similarity:
    text = JaccardSum()
    for group, run in found.profile.text.runs.items():
        if group.route == route:
            text.include(run.total)
    prefix = found.prefix
    consecutive = prefix.consecutive if route is None else prefix.consecutive_in_route
    nearest = prefix.nearest[rows]
    nearest = nearest[~np.isnan(nearest)]
    consecutive = consecutive[rows]
    known = consecutive[~np.isnan(consecutive)]
    return Similarity(
        jaccard_consecutive=text.mean,
        prefix_jaccard_consecutive=float(known.mean()) if len(known) else None,
        nearest_prefix_p50=float(np.percentile(nearest, 50)) if len(nearest) else None,
        nearest_prefix_p90=float(np.percentile(nearest, 90)) if len(nearest) else None,
    )


def _routes(found: Findings, variable: dict[int, tuple[int, int]]) -> list[Route]:
    """Return the named routes, the one with the most prompt tokens first."""
    study, requests = found.study, found.requests
    routes = []
    for digest, name in found.profile.route_names.items():
        rows = requests.route == np.uint64(digest)
        hit, queried = study.hits(rows)
        routes.append(
            Route(
                route=name,
                requests=int(rows.sum()),
                prompt_tokens=_lengths(requests.prompt_tokens[rows]),
                variable_share=share(*variable[digest]) if digest in variable and rows.sum() > _FEW else None,
                similarity=_similarity(found, rows, digest),
                cache=RouteHits(queried_tokens=queried, hit_tokens=hit, hit_rate=share(hit, queried)),
                ceiling=Hits(hit_tokens=study.ceiling_tokens(rows), hit_rate=study.ceiling_rate(rows)),
            )
        )
    return sorted(routes, key=lambda route: (-route.prompt_tokens.total, route.route))


def _cache(study: CacheStudy) -> Cache:
    result = study.result
    return Cache(
        model=result.spec.model,
        block_size=result.spec.block_size,
        capacity_blocks=result.spec.capacity_blocks,
        rules=result.spec.rules,
        outputs=result.spec.outputs,
        start_state=result.start_state,
        queried_tokens=result.total_queried_tokens,
        hit_tokens=result.total_hit_tokens,
        hit_rate=result.hit_rate,
        evictions=result.evictions or 0,
        refused_requests=int(result.refused.sum()),
    )
