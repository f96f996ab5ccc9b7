"""The classes of a log as one answer: the model's, the rules over it, and the thresholds that stand for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kvtools.heat.forecast import Forecast, forecast
from kvtools.heat.model import HeatModel
from kvtools.heat.rules import ARTICLE_B, HEADER, OVER_8192_TOKENS, RuleSet
from kvtools.heat.thresholds import Arrived, Thresholds, learn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.heat.features import HeatColumns
    from kvtools.heat.rules import Rule

HOT, COLD, NONE = 1, 0, -1
"""Codes of a class; ``NONE`` where the log has only one and no rule says more."""


FORECAST_WINDOW_S = 15.0
"""Article B warms up 10-15 s ahead of a cold burst."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A rule, the requests it decides, and how many of them it gives another class than the model's."""

    rule: Rule
    requests: int
    moved: int


@dataclass(frozen=True, slots=True, eq=False)
class HeatStudy:
    """``label``: the model's class of each request; ``final``: after the rules over it (``HOT``, ``COLD``, ``NONE``).

    ``rules``: all rules in their order, for use on arriving requests, where the thresholds stand for the model.
    """

    columns: HeatColumns
    model: HeatModel
    label: NDArray[np.int64]
    final: NDArray[np.int64]
    moved: tuple[Moved, ...]
    thresholds: Thresholds | None
    rules: RuleSet


def study_heat(columns: HeatColumns, *, article_b: bool = False, seed: int = 0) -> HeatStudy:
    """Find the classes of a log, apply the rules over the model in their order, and learn its thresholds.

    ``article_b`` adds the rule that prompts over 1,000 tokens are cold. With one class the model says nothing: the
    rules alone decide, and who passes none has no class.
    """
    model = HeatModel(seed).fit(columns)
    two = model.n_classes == 2
    label = model.labels_ if two else np.full(len(columns), NONE, dtype=np.int64)
    arrived = Arrived.of(columns)
    fixed = (OVER_8192_TOKENS, *((ARTICLE_B,) if article_b else ()), *HEADER)
    final, moved, free = label.copy(), [], np.ones(len(columns), dtype=np.bool_)
    for rule in fixed:
        taken = free & arrived.fitting(rule)
        code = HOT if rule.label == "hot" else COLD
        moved.append(Moved(rule, int(taken.sum()), int((label[taken] != code).sum())))
        final[taken] = code
        free &= ~taken
    thresholds = learn(columns, arrived, label == HOT, seed) if two else None
    learnt = thresholds.rules if thresholds else ()
    for rule in learnt:
        taken = free & arrived.fitting(rule)
        code = HOT if rule.label == "hot" else COLD
        moved.append(Moved(rule, int(taken.sum()), int((label[taken] != code).sum())))
        free &= ~taken
    rules = RuleSet((*fixed, *learnt), thresholds.default if thresholds else "hot")
    return HeatStudy(columns, model, label, final, tuple(moved), thresholds, rules)


def next_cold_burst(study: HeatStudy, utc_offset_min: int) -> Forecast:
    """Return when cold requests come in a burst next; days begin at midnight of the zone."""
    if not study.columns.timed:
        return Forecast("no forecast: the log has no clock")
    return forecast(study.columns.arrival_us, study.final == COLD, FORECAST_WINDOW_S, utc_offset_min)
