"""The report of ``kvtools rules`` on a terminal: the rules, what nginx leaves out, the next burst, the files."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from kvtools.report.numbers import counted, percent

if TYPE_CHECKING:
    from kvtools.report.rules import ForecastFigures, RulesReport

_SHOWN_CHARS = 160
_TRACE_LIMIT_US = 10**14  # as in kvtools.report.numbers: below it, times count from the start of a trace


def render_rules(report: RulesReport) -> str:
    """Return the report as text."""
    lines = [f"Rules from {counted(report.requests, 'request')}{_missing(report)}:"]
    for place, rule in enumerate(report.rules, 1):
        when = rule.when if len(rule.when) <= _SHOWN_CHARS else f"{rule.when[:_SHOWN_CHARS]}…"
        decides = f"decides {rule.requests:,}, moves {rule.moved:,}"
        lines.append(f" {place}  {rule.label} if {when}   {rule.name}, {decides}")
    lines.append(f"    {report.default} otherwise")
    lines += ["", *_trust(report), *_nginx(report), f"Next cold burst: {_burst(report)}.", ""]
    lines += [f"wrote {path}" for path in report.files]
    return "\n".join(lines) + "\n"


def _missing(report: RulesReport) -> str:
    parts = []
    if report.left_out:
        parts.append(f"{report.left_out:,} without a prompt left out")
    if report.rejected:
        parts.append(f"{report.rejected:,} rejected: --rejects FILE lists them")
    return f" ({'; '.join(parts)})" if parts else ""


def _trust(report: RulesReport) -> list[str]:
    if report.n_classes == 1:
        return [f"One class: {report.reason}. The rules above are the fixed ones; none was learnt."]
    learnt, later = percent(report.fidelity), percent(report.fidelity_holdout)
    return [
        f"The learnt rules follow the classes: {learnt} where learnt, {later} on the last 30 % of the time."
    ]


def _nginx(report: RulesReport) -> list[str]:
    kept = len(report.rules) - len(report.not_in_nginx)
    lines = [f"nginx.conf follows {kept} of {counted(len(report.rules), 'rule')}."]
    lines += [f"  not rule {one.place} ({one.name}): {one.reason}" for one in report.not_in_nginx]
    return lines


def _burst(report: RulesReport) -> str:
    found = report.forecast
    if found.probability is None or found.next_from_us is None or found.next_until_us is None:
        return found.reason
    chance = "below 0.1 %" if found.probability < 0.001 else percent(found.probability)
    return (
        f"{_moment(found.next_from_us, report.utc_offset_min)} to "
        f"{_moment(found.next_until_us, report.utc_offset_min)}, {chance} in each {found.window_s:g} s; "
        f"{found.reason} (Brier {_score(found.brier)} against {_score(found.brier_baseline)}){_now(found)}"
    )


def _now(found: ForecastFigures) -> str:
    verdict = "better" if found.now_beats_baseline else "no better"
    return f"; right after a burst or a rest, {verdict} (Brier {_score(found.now_brier)})"


def _score(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4f}"


def _moment(time_us: int, utc_offset_min: int) -> str:
    seconds = time_us // 1_000_000
    if time_us < _TRACE_LIMIT_US:
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} of the trace"
    zone = timezone(timedelta(minutes=utc_offset_min))
    moment = datetime.fromtimestamp(seconds, zone)
    return f"{moment:%a %d %b %Y %H:%M:%S} {f'{moment:%z}' if utc_offset_min else 'UTC'}"
