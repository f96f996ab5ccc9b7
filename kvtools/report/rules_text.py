"""The report of ``kvtools rules`` on a terminal: the rules, what nginx leaves out, the next burst, the files."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from kvtools.report.numbers import counted, day, percent
from kvtools.report.words import in_english, phrase, say, spoken, told

if TYPE_CHECKING:
    from kvtools.report.heat_forecast import ForecastFigures
    from kvtools.report.rules import RulesReport

_SHOWN_CHARS = 160
_TRACE_LIMIT_US = 10**14  # as in kvtools.report.numbers: below it, times count from the start of a trace


def render_rules(report: RulesReport, lang: str = "en") -> str:
    """Return the report as text in ``lang``."""
    with spoken(lang):
        return "\n".join(_lines(report)) + "\n"


def _lines(report: RulesReport) -> list[str]:
    requests = counted(report.requests, "request")
    lines = [say("Rules from {requests}{missing}:", requests=requests, missing=_missing(report))]
    for place, rule in enumerate(report.rules, 1):
        when = rule.when if len(rule.when) <= _SHOWN_CHARS else f"{rule.when[:_SHOWN_CHARS]}…"
        decides = say(
            "decides {requests}, moves {moved}", requests=f"{rule.requests:,}", moved=f"{rule.moved:,}"
        )
        said = say("{label} if {when}", label=told(rule.label), when=say(" and ").join(when.split(" and ")))
        lines.append(f" {place}  {said}   {rule.name}{say(', ')}{decides}")
    lines.append("    " + say("{label} otherwise", label=told(report.default)))
    coming = say("Next cold burst: {burst}.", burst=burst(report.forecast, report.utc_offset_min))
    lines += ["", *_trust(report), *_nginx(report), coming, ""]
    return lines + [say("wrote {path}", path=path) for path in report.files]


def _missing(report: RulesReport) -> str:
    parts = []
    if report.left_out:
        parts.append(say("{count} without a prompt left out", count=f"{report.left_out:,}"))
    if report.rejected:
        parts.append(say("{count} rejected: --rejects FILE lists them", count=f"{report.rejected:,}"))
    return f" ({say('; ').join(parts)})" if parts else ""


def _trust(report: RulesReport) -> list[str]:
    if report.n_classes == 1:
        sentence = phrase("One class: {reason}. The rules above are the fixed ones; none was learnt.")
        return [say(sentence, reason=told(report.reason))]
    learnt, later = percent(report.fidelity), percent(report.fidelity_holdout)
    sentence = (
        "The learnt rules follow the classes: {learnt} where learnt, {later} on the last 30 % of the time."
    )
    return [say(sentence, learnt=learnt, later=later)]


def _nginx(report: RulesReport) -> list[str]:
    kept = len(report.rules) - len(report.not_in_nginx)
    lines = [
        say("nginx.conf follows {kept} of {rules}.", kept=kept, rules=counted(len(report.rules), "rule"))
    ]
    for one in report.not_in_nginx:
        reason = say("; ").join(map(told, one.reason.split("; ")))
        lines.append(
            "  " + say("not rule {place} ({name}): {reason}", place=one.place, name=one.name, reason=reason)
        )
    return lines


def burst(found: ForecastFigures, utc_offset_min: int) -> str:
    """Return when the next cold burst is likely, how sure that is, and whether it is worth more than no forecast."""
    if found.probability is None or found.next_from_us is None or found.next_until_us is None:
        return told(found.reason)
    chance = say("below 0.1 %") if found.probability < 0.001 else percent(found.probability)
    return say(
        "{begin} to {end}, {chance} in each {window} s; {reason} (Brier {score} against {baseline}){now}",
        begin=_moment(found.next_from_us, utc_offset_min),
        end=_moment(found.next_until_us, utc_offset_min),
        chance=chance,
        window=f"{found.window_s:g}",
        reason=told(found.reason),
        score=_score(found.brier),
        baseline=_score(found.brier_baseline),
        now=_now(found),
    )


def _now(found: ForecastFigures) -> str:
    verdict = say("better") if found.now_beats_baseline else say("no better")
    sentence = phrase("; right after a burst or a rest, {verdict} (Brier {score})")
    return say(sentence, verdict=verdict, score=_score(found.now_brier))


def _score(value: float | None) -> str:
    return say("n/a") if value is None else f"{value:.4f}"


def _moment(time_us: int, utc_offset_min: int) -> str:
    seconds = time_us // 1_000_000
    if time_us < _TRACE_LIMIT_US:
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return say("{clock} of the trace", clock=clock)
    zone = timezone(timedelta(minutes=utc_offset_min))
    moment = datetime.fromtimestamp(seconds, zone)
    date = f"{moment:%a %d %b %Y}" if in_english() else day(moment)
    return f"{date} {moment:%H:%M:%S} {f'{moment:%z}' if utc_offset_min else 'UTC'}"
