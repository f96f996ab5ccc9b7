"""Pages of ``/metrics`` as text: the samples that say how the prefix cache did, with the time of each.

Both text forms are read: that of Prometheus (times in ms) and OpenMetrics (times in s). A file may hold many pages,
one after another, each behind a line ``# time 2026-07-15T08:00:00Z`` (or seconds since the epoch), or carry a time on
every sample, as ``promtool tsdb dump-openmetrics`` writes them. Names with ``vllm_`` for ``vllm:``, as exporters that
allow no colon write them, are the same metrics.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.monitor import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Labels: TypeAlias = tuple[tuple[str, str], ...]
Unit: TypeAlias = Literal["tokens", "blocks"]

EXTERNAL_QUERIES = ("vllm:external_prefix_cache_queries_total",)
CACHED_BY_SOURCE = ("vllm:prompt_tokens_cached_by_source_total",)
CONFIG = ("vllm:cache_config_info",)

FAMILIES: dict[str, tuple[str, ...]] = {
    "queries": names.QUERIES,
    "hits": names.HITS,
    "external_queries": EXTERNAL_QUERIES,
    "external_hits": names.EXTERNAL_HITS,
    "by_source": CACHED_BY_SOURCE,
    "preemptions": names.PREEMPTIONS,
    "finished": names.FINISHED,
    "prompt_tokens": names.PROMPT_TOKENS,
    "kv_usage": names.KV_USAGE,
    "running": names.RUNNING,
    "waiting": names.WAITING,
    "config": CONFIG,
}
"""What is read, by what it is: its names in the order of preference, the newest first."""

_FIELDS = {
    one.removesuffix("_total"): (field, place)
    for field, spellings in FAMILIES.items()
    for place, one in enumerate(spellings)
} | {one.removesuffix("_total") + "_created": ("created", place) for place, one in enumerate(names.QUERIES)}

_SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"[ \t]+(?P<value>[^\s#]+)(?:[ \t]+(?P<time>[^\s#]+))?"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r'\\([\\"n])')
_HELP = re.compile(r"# HELP (?P<name>\S+) (?P<text>.*)")
_TIME = re.compile(r"#\s*time:?\s+(?P<time>\S+)\s*", re.IGNORECASE)
_MS_FROM = 1e11
"""Seconds since the epoch reach this in the year 5138: a greater number is ms."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. ``field`` is a key of ``FAMILIES``, or ``created``: when the counter began, in s since the epoch.

    ``name_place`` is the place of the name among its field's spellings; ``time_s`` is ``None`` where the page's counts.
    """

    field: str
    name_place: int
    labels: Labels
    value: float
    time_s: float | None = None


@dataclass(slots=True)
class Page:
    """The samples of one scrape. ``units`` of the queries, by the place of their name, where ``# HELP`` tells.

    ``unreadable`` counts samples of ours whose value is no finite number (``NaN``), or no number at all.
    """

    line: int
    time_s: float | None = None
    samples: list[Sample] = field(default_factory=list)
    units: dict[int, Unit] = field(default_factory=dict)
    unreadable: int = 0


def field_of(name: str) -> tuple[str, int] | None:
    """Return the field and the place of the spelling of a metric's name, ``None`` where it is none of ours."""
    if name.startswith("vllm_"):
        name = "vllm:" + name.removeprefix("vllm_")
    return _FIELDS.get(name.removesuffix("_total"))


def pages(text: str) -> Iterator[Page]:
    """Yield the pages of a text in its order; a page without a sample of ours is left out."""
    page = Page(1)
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            if timed := _TIME.fullmatch(line.rstrip()):
                if page.samples or page.unreadable:
                    yield page
                page = Page(number, moment(timed["time"]))
            elif helped := _HELP.match(line):
                _learn_unit(page, helped["name"], helped["text"].lower())
        elif found := _SAMPLE.match(line):
            _add(page, found)
    if page.samples or page.unreadable:
        yield page


def _learn_unit(page: Page, name: str, words: str) -> None:
    known = field_of(name)
    if known and known[0] == "queries" and ("token" in words or "block" in words):
        page.units[known[1]] = "tokens" if "token" in words else "blocks"


def _add(page: Page, found: re.Match[str]) -> None:
    known = field_of(found["name"])
    if known is None:
        return
    value, time = _number(found["value"]), _number(found["time"] or "")
    if value is None or value < 0:
        page.unreadable += 1
        return
    if time is not None and time >= _MS_FROM:
        time /= 1000
    page.samples.append(Sample(*known, labels_of(found["labels"] or ""), value, time))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def labels_of(text: str) -> Labels:
    """Return the labels between braces, sorted by name."""
    unescaped = (
        (key, _ESCAPE.sub(lambda m: {"n": "\n"}.get(m[1], m[1]), value))
        for key, value in _LABEL.findall(text)
    )
    return tuple(sorted(unescaped))


def moment(text: str) -> float | None:
    """Return seconds since the epoch of such a number (in s or ms) or an ISO 8601 time (UTC where it says no zone)."""
    number = _number(text)
    if number is not None:
        return number / 1000 if number >= _MS_FROM else number
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


_ISO_NAME = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[T_ -]?(\d\d)[:h-]?(\d\d)[:m-]?(\d\d)(?:[.,](\d{1,6}))?(Z|[+-]\d\d:?\d\d)?"
)
_EPOCH_NAME = re.compile(r"(?<!\d)(1\d{9}(?:\.\d{1,6})?|1\d{12})(?!\d)")


def time_in_name(name: str) -> tuple[float, str] | None:
    """Return the time that a file's name carries, and the name without it; ``None`` where it carries none.

    ``metrics-2026-07-15T08-00-00Z.prom``, ``a_20260715-080000.txt`` (UTC without a zone), ``pod-1-1784102400.prom``.
    """
    for pattern, parse in ((_ISO_NAME, _iso), (_EPOCH_NAME, lambda m: moment(m[1]))):
        for found in pattern.finditer(name):
            seconds = parse(found)
            if seconds is not None:
                return seconds, name[: found.start()] + name[found.end() :]
    return None


def _iso(found: re.Match[str]) -> float | None:
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    return moment(f"{year}-{month}-{day}T{hour}:{minute}:{second}.{fraction or '0':0<6}{zone or '+00:00'}")


def spellings(fields: Sequence[str]) -> str:
    """Return a regular expression of all names under which Prometheus may keep these fields."""
    known = [one.removesuffix("_total") for name in fields for one in FAMILIES[name]]
    tails = [re.escape(one.removeprefix("vllm:")) for one in known]
    return f"vllm[:_]({'|'.join(tails)})(_total|_created)?"
