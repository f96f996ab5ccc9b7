"""The report of ``kvtools rules``: the rules, what nginx can do of them, and the next cold burst."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools import __version__
from kvtools.report.heat import RuleFigures, heat_figures
from kvtools.report.heat_forecast import ForecastFigures, forecast_figures
from kvtools.report.model import Input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.heat.forecast import Forecast
    from kvtools.heat.nginx import Snippet
    from kvtools.heat.study import HeatStudy

RULES_SCHEMA_VERSION = 1


class NotInNginx(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that nginx cannot express: its ``place`` in the rule set (from 1), and why."""

    place: int
    name: str
    when: str
    label: str
    reason: str


class RulesReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``kvtools rules`` found and wrote; shares are 0..1."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    requests: int
    rejected: int
    left_out: int
    utc_offset_min: int
    n_classes: int
    reason: str
    rules: list[RuleFigures]
    default: str
    fidelity: float | None
    fidelity_holdout: float | None
    rules_stability: float | None
    not_in_nginx: list[NotInNginx]
    forecast: ForecastFigures
    files: list[str]

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """Where the requests came from: see ``RulesReport``."""

    inputs: list[Input]
    rejected: int
    left_out: int
    utc_offset_min: int


def rules_report(
    log: Log, study: HeatStudy, snippet: Snippet, coming: tuple[Forecast, float], files: Sequence[str]
) -> RulesReport:
    """Return the report; ``coming``: the forecast and the seconds of its windows."""
    heat = heat_figures(study)
    forecast, window_s = coming
    return RulesReport(
        schema_version=RULES_SCHEMA_VERSION,
        kvtools_version=__version__,
        inputs=log.inputs,
        requests=len(study.columns),
        rejected=log.rejected,
        left_out=log.left_out,
        utc_offset_min=log.utc_offset_min,
        n_classes=heat.n_classes,
        reason=heat.reason,
        rules=heat.rules,
        default=heat.default,
        fidelity=heat.fidelity,
        fidelity_holdout=heat.fidelity_holdout,
        rules_stability=heat.rules_stability,
        not_in_nginx=[
            NotInNginx(
                place=one.place,
                name=one.rule.name,
                when=" and ".join(map(str, one.rule.when)),
                label=one.rule.label,
                reason=one.reason,
            )
            for one in snippet.left_out
        ],
        forecast=forecast_figures(forecast, window_s),
        files=list(files),
    )
