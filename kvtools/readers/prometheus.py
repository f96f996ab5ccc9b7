"""A page of vLLM's ``/metrics``: totals of the prefix cache and how it is set up, and no request at all.

``read_snapshot`` reads it; as a reader the format only says in one sentence that such a file is no request log.

Names by version: first ``vllm:gpu_prefix_cache_queries`` and ``_hits``, then ``vllm:prefix_cache_queries`` and
``_hits``, and for a while both on one page; Prometheus clients append ``_total``. The first versions count blocks,
later ones tokens: the ``# HELP`` line tells. ``vllm:external_prefix_cache_*`` counts a cache behind a KV connector, of
which a hit is what it holds *beyond* the engine's own (``Scheduler.schedule`` asks it for what the engine did not
have and records ``num_external_computed_tokens``): the two add up and never overlap.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.errors import InputError
from kvtools.readers.document import chunks, rejected
from kvtools.readers.records import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kvtools.readers.base import Chunk, ReadOptions
    from kvtools.readers.sources import Opened, Source

Labels: TypeAlias = tuple[tuple[str, str], ...]
Unit: TypeAlias = Literal["tokens", "blocks"]

_SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(?P<value>\S+)'
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r'\\([\\"n])')
_HELP = re.compile(r"# HELP (?P<name>\S+) (?P<text>.*)")
_LOCAL = ("vllm:prefix_cache", "vllm:gpu_prefix_cache")
_EXTERNAL = ("vllm:external_prefix_cache",)
_PAGE = re.compile(rb"^# (?:HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]* ", re.MULTILINE)
_PREEMPTIONS = "vllm:num_preemptions"
_CONFIG = "vllm:cache_config_info"
_NO_LOG = "a metrics page of Prometheus holds totals, not requests; name the log of the requests instead"


@dataclass(frozen=True, slots=True)
class CacheTotals:
    """Totals of one engine (one set of labels) since it started, in the unit of the snapshot."""

    labels: Labels
    queried: int
    hit: int

    @property
    def hit_rate(self) -> float | None:
        """Hits over queries (0..1), ``None`` before the first query."""
        return self.hit / self.queried if self.queried else None


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """What the server says of its cache; ``None`` where it does not. ``block_size`` in tokens."""

    block_size: int | None = None
    num_gpu_blocks: int | None = None
    enable_prefix_caching: bool | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The prefix-cache counters of one page, by engine; empty where it has none.

    ``unit`` is what they count, ``None`` where the page does not say. ``external`` is the cache behind a KV connector.
    ``preemptions`` of all engines since they started, ``None`` where the page does not count them.
    """

    local: tuple[CacheTotals, ...]
    external: tuple[CacheTotals, ...]
    unit: Unit | None
    preemptions: int | None = None
    config: CacheConfig = CacheConfig()

    @property
    def queried(self) -> int:
        """What was looked up in the engines' own caches: all that was asked."""
        return sum(totals.queried for totals in self.local)

    @property
    def local_hit(self) -> int:
        """What the engines' own caches held."""
        return sum(totals.hit for totals in self.local)

    @property
    def external_hit(self) -> int:
        """What the external cache held beyond that."""
        return sum(totals.hit for totals in self.external)

    @property
    def local_hit_rate(self) -> float | None:
        """Hits over queries of all engines (0..1), a ratio of sums; ``None`` before the first query."""
        return self.local_hit / self.queried if self.queried else None

    @property
    def hit_rate(self) -> float | None:
        """Local and external hits over all that was asked (0..1), ``None`` before the first query."""
        return (self.local_hit + self.external_hit) / self.queried if self.queried else None


def read_snapshot(text: str) -> Snapshot:
    """Return the prefix-cache counters of a metrics page, and the settings of the cache.

    A counter that stands there with and without ``_total`` is one counter, not two.

    Raises:
        InputError: hits exceed queries: a rate above 1 means swapped names or another unit, and is never clipped.
    """
    samples, units = _series(text)
    name, local = _first_family(samples, _LOCAL)
    _, external = _first_family(samples, _EXTERNAL)
    preempted = samples.get(_PREEMPTIONS)
    snapshot = Snapshot(
        local,
        external,
        units.get(f"{name}_queries"),
        None if preempted is None else int(sum(preempted.values())),
        _config(samples.get(_CONFIG, {})),
    )
    for totals in (*local, *external):
        _check(totals.hit, totals.queried)
    if local:
        _check(snapshot.local_hit + snapshot.external_hit, snapshot.queried)
    return snapshot


def _series(text: str) -> tuple[dict[str, dict[Labels, float]], dict[str, Unit]]:
    """Return the values by name (without ``_total``) and labels, and the units that the names are documented with."""
    samples: dict[str, dict[Labels, float]] = {}
    units: dict[str, Unit] = {}
    for line in text.split("\n"):
        if helped := _HELP.match(line):
            words = helped["text"].lower()
            unit: Unit | None = "tokens" if "token" in words else "blocks" if "block" in words else None
            if unit:
                units[helped["name"].removesuffix("_total")] = unit
        elif sample := _SAMPLE.match(line):
            name, value = sample["name"].removesuffix("_total"), _number(sample["value"])
            if value is not None and ("prefix_cache_" in name or name in (_PREEMPTIONS, _CONFIG)):
                samples.setdefault(name, {})[_labels(sample["labels"] or "")] = value
    return samples, units


def _config(infos: Mapping[Labels, float]) -> CacheConfig:
    """Return the settings that the first engine carries as labels of its info metric."""
    labels = dict(next(iter(infos), ()))
    caching = {"True": True, "False": False}.get(labels.get("enable_prefix_caching", ""))
    return CacheConfig(_integer(labels.get("block_size")), _integer(labels.get("num_gpu_blocks")), caching)


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else None


def _first_family(
    samples: Mapping[str, Mapping[Labels, float]], prefixes: tuple[str, ...]
) -> tuple[str, tuple[CacheTotals, ...]]:
    """Return the counters under the first name that has both: a page can carry an old name beside the new one."""
    for prefix in prefixes:
        queries, hits = samples.get(f"{prefix}_queries", {}), samples.get(f"{prefix}_hits", {})
        both = sorted(queries.keys() & hits.keys())
        if both:
            return prefix, tuple(CacheTotals(key, int(queries[key]), int(hits[key])) for key in both)
    return "", ()


def _check(hit: int, queried: int) -> None:
    if hit > queried:
        raise InputError(
            f"the metrics page counts {hit:,} hits of {queried:,} queries in the prefix cache: more than all; "
            "check that its lines come from one scrape of one server."
        )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _labels(text: str) -> Labels:
    unescaped = (
        (key, _ESCAPE.sub(lambda m: {"n": "\n"}.get(m[1], m[1]), value))
        for key, value in _LABEL.findall(text)
    )
    return tuple(sorted(unescaped))


class PrometheusReader:
    """Recognises a metrics page, to say that it is no log."""

    name = "prometheus"

    def sniff(self, head: bytes) -> bool:
        """Return whether the file begins with the comments of a metrics page (``# HELP``, ``# TYPE``)."""
        return bool(_PAGE.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()))

    def read(self, file: Opened, source: Source, options: ReadOptions) -> Iterator[Chunk]:  # noqa: ARG002 - a page is not read
        """Yield one reject for a page that lies among other files.

        Raises:
            InputError: the page was named by itself.
        """
        if source.explicit:
            raise InputError(f"{source.name}: {_NO_LOG}.")
        return chunks([rejected(1, Rejected("no_log", _NO_LOG))], source, options)


READER = PrometheusReader()
