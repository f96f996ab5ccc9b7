"""The figures of hot and cold. Each is defined in docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from kvtools.heat.features import UNKNOWN, rhythm, uncached_tokens
from kvtools.heat.study import COLD, HOT
from kvtools.model import share
from kvtools.report.heat_forecast import ForecastFigures, forecast_figures
from kvtools.report.traffic import Interarrival, Lengths, interarrival, lengths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kvtools.heat.features import HeatColumns
    from kvtools.heat.forecast import Forecast
    from kvtools.heat.study import HeatStudy

WINDOW_S = 5
"""Article B watches the share of hot requests over the last 5 s."""

HOT_SHARE_LIMIT = 0.7
COLD_SHARE_LIMIT = 0.15
LATENCY_LIMITS_MS = {"live chat": (80, 200), "search": (120, 300), "summaries": (150, 500)}
"""Article B's limits per scenario, in ms: P50 and P99."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of the logged latency in ms, of the ``requests`` of which it was logged."""

    requests: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


class GroupFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How the groups of a class's requests arrive (route, else first block): p50 over the requests.

    ``interval_s``: median gap; ``interval_cv``: its coefficient of variation, ``None`` where groups are too small;
    ``burst_share``: gaps inside bursts (0..1), mean over the requests; ``per_minute``: requests.
    """

    interval_s: float
    interval_cv: float | None
    burst_share: float
    per_minute: float


class ClassFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One class (``hot``, ``cold``, or ``all`` where there is one), after the rules; shares are of all classes."""

    name: str
    requests: int
    request_share: float
    token_share: float | None
    uncached_token_share: float | None
    hit_rate: float | None
    variable_share: float | None
    jaccard_consecutive: float | None
    prefix_jaccard_consecutive: float | None
    prompt_tokens: Lengths | None
    output_tokens: Lengths | None
    interarrival_s: Interarrival | None
    latency: Latency | None
    group: GroupFigures | None = None
    turn: Lengths | None = None
    reuse_blocks: Lengths | None = None


class RuleFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: its conditions and label, the requests it decides, and those it gives another class than the model."""

    name: str
    when: str
    label: str
    requests: int
    moved: int


class LatencyLimit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the hot requests keep article B's limits for a scenario (ms)."""

    scenario: str
    p50_ms: float
    p99_ms: float
    met: bool


class HeatFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How the classes were found, how far they and the rules on arrival can be trusted, and article B's lines."""

    n_classes: int
    method: str
    reason: str
    valley: float | None
    stability: float | None
    rules: list[RuleFigures]
    default: str
    fidelity: float | None
    fidelity_holdout: float | None
    rules_stability: float | None
    hot_share_5s_p50: float | None
    windows_below_70_share: float | None
    cold_share: float | None
    cold_share_limit: float
    latency_limits: list[LatencyLimit]
    forecast: ForecastFigures | None = None


class ClassSimilarity(msgspec.Struct, frozen=True, kw_only=True):
    """What a class's prompts have in common (0..1)."""

    variable_share: float | None = None
    jaccard_consecutive: float | None = None
    prefix_jaccard_consecutive: float | None = None


def heat_figures(study: HeatStudy, coming: tuple[Forecast, float] | None = None) -> HeatFigures:
    """Return how the classes were found and what article B watches; ``coming``: a forecast, and its windows' s."""
    model, thresholds = study.model, study.thresholds
    has_classes = bool((study.final != -1).any())
    windows = _hot_shares(study) if has_classes else np.empty(0)
    cold = float((study.final == COLD).mean()) if has_classes else None
    return HeatFigures(
        n_classes=model.n_classes,
        method=model.method,
        reason=model.reason,
        valley=model.valley,
        stability=model.stability,
        rules=[
            RuleFigures(
                name=one.rule.name,
                when=" and ".join(map(str, one.rule.when)),
                label=one.rule.label,
                requests=one.requests,
                moved=one.moved,
            )
            for one in study.moved
        ],
        default=study.rules.default,
        fidelity=None if thresholds is None else thresholds.fidelity,
        fidelity_holdout=None if thresholds is None else thresholds.fidelity_holdout,
        rules_stability=None if thresholds is None else thresholds.stability,
        hot_share_5s_p50=float(np.median(windows)) if len(windows) else None,
        windows_below_70_share=float((windows < HOT_SHARE_LIMIT).mean()) if len(windows) else None,
        cold_share=cold,
        cold_share_limit=COLD_SHARE_LIMIT,
        latency_limits=_latency_limits(_latency(study.columns.latency_us[study.final == HOT])),
        forecast=None if coming is None else forecast_figures(*coming),
    )


def class_figures(study: HeatStudy, similar: Mapping[int, ClassSimilarity]) -> list[ClassFigures]:
    """Return the figures of each class that has requests, hot first; ``similar`` by the code of the class."""
    columns = study.columns
    if study.model.n_classes == 1:
        everyone = np.ones(len(columns), dtype=np.bool_)
        return [_class_figures(study, "all", everyone, similar.get(-1, ClassSimilarity()))]
    return [
        _class_figures(study, name, study.final == code, similar.get(code, ClassSimilarity()))
        for name, code in (("hot", HOT), ("cold", COLD))
        if (study.final == code).any()
    ]


def _class_figures(
    study: HeatStudy, name: str, rows: NDArray[np.bool_], similar: ClassSimilarity
) -> ClassFigures:
    columns = study.columns
    known = columns.prompt_tokens != UNKNOWN
    tokens = np.where(known, columns.prompt_tokens, 0)
    work = np.nan_to_num(uncached_tokens(columns))
    hits = rows & (columns.hit_tokens != UNKNOWN)
    arrivals = columns.arrival_us[rows]
    return ClassFigures(
        name=name,
        requests=int(rows.sum()),
        request_share=float(rows.mean()),
        token_share=share(int(tokens[rows].sum()), int(tokens.sum())),
        uncached_token_share=share(int(work[rows].sum()), int(work.sum())),
        hit_rate=share(int(columns.hit_tokens[hits].sum()), int(tokens[hits].sum())),
        variable_share=similar.variable_share,
        jaccard_consecutive=similar.jaccard_consecutive,
        prefix_jaccard_consecutive=similar.prefix_jaccard_consecutive,
        prompt_tokens=lengths(columns.prompt_tokens[rows]),
        output_tokens=lengths(columns.output_tokens[rows]),
        interarrival_s=interarrival(np.sort(arrivals[arrivals != UNKNOWN])),
        latency=_latency(columns.latency_us[rows]),
        group=_group_figures(columns, rows),
        turn=lengths(columns.turn[rows]),
        reuse_blocks=lengths(columns.reuse_blocks[rows]),
    )


def _group_figures(columns: HeatColumns, rows: NDArray[np.bool_]) -> GroupFigures | None:
    beat = rhythm(columns)
    if beat is None or not rows.any():
        return None
    variation = beat.cv[rows]
    variation = variation[~np.isnan(variation)]
    return GroupFigures(
        interval_s=float(np.median(beat.interval_s[rows])),
        interval_cv=float(np.median(variation)) if len(variation) else None,
        burst_share=float(beat.burst_share[rows].mean()),
        per_minute=float(np.median(beat.per_minute[rows])),
    )


def _latency(latency_us: NDArray[np.int64]) -> Latency | None:
    known = latency_us[latency_us != UNKNOWN]
    if not len(known):
        return None
    p50, p90, p99 = (float(value) for value in np.percentile(known, [50, 90, 99]) / 1e3)
    return Latency(requests=len(known), p50_ms=p50, p90_ms=p90, p99_ms=p99)


def _latency_limits(hot: Latency | None) -> list[LatencyLimit]:
    if hot is None:
        return []
    return [
        LatencyLimit(scenario=name, p50_ms=p50, p99_ms=p99, met=bool(hot.p50_ms <= p50 and hot.p99_ms <= p99))
        for name, (p50, p99) in LATENCY_LIMITS_MS.items()
    ]


def _hot_shares(study: HeatStudy) -> NDArray[np.float64]:
    """Return the share of hot requests in each window of 5 s in which any arrived; nothing without a clock."""
    if not study.columns.timed:
        return np.empty(0)
    _, window = np.unique((study.columns.times_s() // WINDOW_S).astype(np.int64), return_inverse=True)
    hot = np.bincount(window, weights=study.final == HOT)
    shares: NDArray[np.float64] = hot / np.bincount(window)
    return shares
