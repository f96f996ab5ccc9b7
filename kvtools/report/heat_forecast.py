"""The next burst of cold requests as figures. Each is defined in docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from kvtools.heat.forecast import Forecast


class ForecastFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The next cold burst: the fields of ``kvtools.heat.forecast.Forecast``, its windows ``window_s`` long."""

    window_s: float
    reason: str
    period: str | None
    burst_requests: int | None
    next_from_us: int | None
    next_until_us: int | None
    probability: float | None
    brier: float | None
    brier_baseline: float | None
    beats_baseline: bool | None
    now_probability: float | None
    now_brier: float | None
    now_beats_baseline: bool | None


def forecast_figures(forecast: Forecast, window_s: float) -> ForecastFigures:
    """Return the figures of a forecast whose windows are ``window_s`` seconds long."""
    shown = {
        name: getattr(forecast, name) for name in ForecastFigures.__struct_fields__ if name != "window_s"
    }
    return ForecastFigures(window_s=window_s, **shown)
