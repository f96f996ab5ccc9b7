"""What to send before the next burst of cold requests, where their forecast is worth more than none."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import numpy as np

from kvtools.flow.arrivals import first_hits
from kvtools.flow.warmup_lines import Written, item_id
from kvtools.heat.forecast import PERIODS_S, Forecast, forecast
from kvtools.heat.log import HeatLog
from kvtools.profile import LogProfile, map_chunk
from kvtools.report.heat_forecast import forecast_figures
from kvtools.report.numbers import counted, percent
from kvtools.report.warmup import Ahead, AheadItem
from kvtools.warmup.ahead import Asked, asked_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvtools.flow.warmup_log import WarmupLog
    from kvtools.model import CacheSpec
    from kvtools.profile import Keyed
    from kvtools.readers import Chunk

LONGEST_S = 900.0
"""Windows of a forecast are 15 minutes at most."""

_TRACE_LIMIT_US = 10**14  # as in kvtools.report.numbers: below it, times count from the start of a trace
_US = 1_000_000


@dataclass(slots=True)
class Bursts:
    """Gathers what classes and their forecast take, chunk by chunk."""

    profile: LogProfile = field(default_factory=LogProfile)
    heat: HeatLog = field(default_factory=HeatLog)

    def add(self, chunk: Chunk, keyed: Keyed, dropped: int) -> None:
        """Take the next chunk."""
        self.profile.merge(map_chunk(chunk, keyed, dropped))
        self.heat.add(chunk.requests, keyed)

    def forecast(self, window_s: float, spec: CacheSpec) -> Forecast:
        """Return the next burst of cold requests; a request's class is that of ``analyze`` in an unlimited cache."""
        from kvtools.heat.study import COLD, study_heat  # noqa: PLC0415 - loads scikit-learn

        requests = self.profile.requests()
        columns = self.heat.with_prompts(requests, first_hits(requests, spec.block_size, spec.rules))
        if not columns.timed:
            return Forecast("no forecast: the log has no clock")
        cold = study_heat(columns).final == COLD
        return forecast(columns.arrival_us, cold, window_s, self.profile.utc_offset_min or 0)


def ahead_of(
    bursts: Bursts, log: WarmupLog, lines: Sequence[Written], stop: int, window_s: float, spec: CacheSpec
) -> Ahead:
    """Return which of ``lines`` to send before the next burst: none where the forecast beats no baseline.

    A line is sent where the same window of more than half of the earlier periods asked for its prefix, in the first
    ``stop`` requests.
    """
    found = bursts.forecast(window_s, spec)
    offset = bursts.profile.utc_offset_min or 0
    asked = Asked(0, np.zeros(0, np.int64), 0, np.zeros(0, np.int64))
    if found.beats_baseline and lines and found.next_from_us is not None and found.next_until_us is not None:
        asked = asked_before(
            log.history, log.arrival_us, stop, [line.prefix for line in lines],
            (found.next_from_us, found.next_until_us), PERIODS_S[found.period or "hour"][0] * _US,
        )  # fmt: skip
    chosen = np.flatnonzero(asked.wanted).tolist()
    return Ahead(
        conclusion=_conclusion(found, window_s, len(chosen), asked, offset),
        forecast=forecast_figures(found, window_s),
        utc_offset_min=offset,
        send_at_us=_send_at(found, window_s) if chosen else None,
        periods=asked.periods,
        items=[AheadItem(id=item_id(place), asked_periods=int(asked.asked[place])) for place in chosen],
        later_periods=asked.later,
        later_asked_share=asked.held,
    )


def _send_at(found: Forecast, window_s: float) -> int:
    return (found.next_from_us or 0) - round(window_s * _US)


def _conclusion(found: Forecast, window_s: float, lines: int, asked: Asked, offset_min: int) -> str:
    if not found.beats_baseline or found.probability is None:
        return f"Ahead of a burst nothing is sent: {found.reason}."
    chance = percent(found.probability)
    if not lines:
        begin = _clock(found.next_from_us or 0, offset_min)
        return (
            f"A cold burst is likely from {begin} on ({chance} in each {window_s:g} s), but no line's prefix was asked "
            "for in more than half of the same windows before: nothing is sent ahead of it."
        )
    return (
        f"Send {counted(lines, 'line')} at {_clock(_send_at(found, window_s), offset_min)}, {window_s:g} s before a "
        f"cold burst is likely ({chance} in each {window_s:g} s): their prefixes were asked for in more than half of "
        f"the same windows of {asked.periods:,} earlier {found.period}s."
    )


def _clock(time_us: int, offset_min: int) -> str:
    """Return a moment to the second as every language reads it; of a trace, the time since its zero."""
    seconds = time_us // _US
    if time_us < _TRACE_LIMIT_US:
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} of the trace"
    moment = datetime.fromtimestamp(seconds, timezone(timedelta(minutes=offset_min)))
    return f"{moment:%Y-%m-%d %H:%M:%S} {f'{moment:%z}' if offset_min else 'UTC'}"
