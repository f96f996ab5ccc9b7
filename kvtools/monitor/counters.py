"""Counters of engines over time: what each came to between two scrapes, whatever happened in between.

An *engine* is one set of labels (``engine``, ``model_name``, ``pod``, ``instance``, …): counters are subtracted engine
by engine and then summed, never averaged. A counter that fell, that has another name than before, or whose ``_created``
time changed began anew at 0: what it shows then is its increase (what it counted between the scrape before and
its end is lost, to every reader). Where one counter of an engine began anew, all of them did.

Names by version: see ``kvtools.monitor.names``. Sources in vLLM 0.32: ``vllm/v1/metrics/loggers.py`` (all names),
``vllm/v1/core/sched/scheduler.py`` (a lookup is recorded once per admission, and not for a request that resumes after a
preemption), ``vllm/v1/core/block_pool.py`` (``get_usage``: blocks that requests hold, over all blocks).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from kvtools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kvtools.monitor.exposition import Labels, Page, Sample, Unit

_APART = {"source": "by_source", "finished_reason": "finished"}
"""Labels that part one engine's counter instead of naming an engine, and whose they are."""

_MANY = 4
"""So many stretches between scrapes show how far apart they are meant to be."""

_LATE = 1.5
_CAPACITY = ("num_gpu_blocks", "block_size", "enable_prefix_caching")


@dataclass(slots=True)
class Scrape:
    """What one engine said at one time. Counters are whole numbers; a field that is missing was not there."""

    time_s: float
    values: dict[str, float] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    by_source: dict[str, float] = field(default_factory=dict)

    def count(self, name: str) -> int:
        """Return a counter, 0 where it is not there."""
        return round(self.values.get(name, 0))

    def add(self, sample: Sample) -> None:
        """Take in one value; of two spellings the newer one counts, and sets of a label that parts are summed."""
        name = sample.field
        if name == "by_source":
            source = dict(sample.labels).get("source", "")
            self.by_source[source] = self.by_source.get(source, 0) + sample.value
            return
        place = self.places.get(name)
        if place is None or sample.name_place < place:
            self.places[name], self.values[name] = sample.name_place, sample.value
        elif sample.name_place == place and name in _APART.values():
            self.values[name] += sample.value

    @property
    def usable(self) -> bool:
        """Whether hits and queries both stand there, under names of one version."""
        return (
            "queries" in self.values
            and "hits" in self.values
            and self.places["queries"] == self.places["hits"]
        )


@dataclass(frozen=True, slots=True)
class Increase:
    """What one engine counted from one scrape to the next; in tokens (or blocks, as the page says).

    ``queried`` and ``hit`` are of the engine's own cache, ``external_hit`` what a KV connector held beyond it.
    ``prompt_tokens`` and ``finished`` requests are ``None`` where the page does not count them.
    """

    engine: int
    from_s: float
    to_s: float
    queried: int
    hit: int
    external_hit: int
    preemptions: int
    prompt_tokens: int | None
    finished: int | None
    by_source: Mapping[str, int]
    began_anew: bool = False


@dataclass(slots=True)
class Engine:
    """One engine: its labels, its usable scrapes in order of time, and what is known of its cache.

    ``missing_scrapes`` would have fitted into gaps between them; ``unusable`` scrapes lacked hits or queries.
    ``left_out`` was counted before the first scrape by an engine that came later than others.
    """

    labels: Labels
    scrapes: list[Scrape]
    increases: list[Increase]
    config: dict[str, str]
    unusable: int = 0
    left_out: int = 0
    resets_s: list[float] = field(default_factory=list)

    @property
    def missing_scrapes(self) -> int:
        """How many scrapes would have fitted into the gaps between those that are there."""
        gaps = [b.time_s - a.time_s for a, b in pairwise(self.scrapes)]
        if len(gaps) < _MANY:
            return 0
        usual = median(gaps)
        return sum(round(gap / usual) - 1 for gap in gaps if gap > _LATE * usual)


@dataclass(slots=True)
class Counted:
    """All engines, the unit of their counters (``None``: the pages do not say) and what could not be read."""

    engines: list[Engine]
    unit: Unit | None
    unreadable: int

    @property
    def increases(self) -> list[Increase]:
        """What all engines counted, in order of time."""
        return sorted(
            (one for engine in self.engines for one in engine.increases),
            key=lambda one: (one.to_s, one.engine),
        )

    @property
    def first_s(self) -> float:
        """The time of the first usable scrape."""
        return min(engine.scrapes[0].time_s for engine in self.engines)

    @property
    def last_s(self) -> float:
        """The time of the last usable scrape."""
        return max(engine.scrapes[-1].time_s for engine in self.engines)


def engine_labels(labels: Labels) -> Labels:
    """Return what names the engine among a sample's labels."""
    return tuple((name, value) for name, value in labels if name not in _APART)


def counted(found: Iterable[tuple[Page, Labels]]) -> Counted:
    """Return what engines counted on pages; a page comes with the labels that its file stands for.

    Raises:
        InputError: no page has the counters, they count blocks on one page and tokens on another, or hits exceed
            queries.
    """
    by_engine: dict[Labels, dict[float, Scrape]] = defaultdict(dict)
    configs: dict[Labels, dict[str, str]] = {}
    units: set[Unit] = set()
    unreadable = 0
    for page, own in found:
        unreadable += page.unreadable
        seen = {sample.name_place for sample in page.samples if sample.field == "queries"}
        units |= {page.units[place] for place in seen & page.units.keys() if place == min(seen)}
        for sample in page.samples:
            if sample.field == "config":
                labels = dict(sample.labels)
                key = _config_key(labels, own)
                configs[key] = {name: labels[name] for name in _CAPACITY if name in labels}
                continue
            time_s = sample.time_s if sample.time_s is not None else page.time_s
            if time_s is None:
                raise InputError(
                    f"line {page.line}: a page without a time; put a line '# time 2026-07-15T08:00:00Z' before it."
                )
            scrapes = by_engine[(*own, *engine_labels(sample.labels))]
            scrapes.setdefault(time_s, Scrape(time_s)).add(sample)
    if len(units) > 1:
        raise InputError(
            "some pages count blocks and others tokens (the first versions of vLLM counted blocks): "
            "they cannot be summed; analyze them apart."
        )
    engines = _engines(by_engine, configs)
    if not engines:
        raise InputError(
            "no prefix-cache counters (vllm:prefix_cache_queries, vllm:prefix_cache_hits) found; "
            "name pages of vLLM's /metrics."
        )
    return Counted(engines, next(iter(units), None), unreadable)


def _config_key(labels: Mapping[str, str], own: Labels) -> Labels:
    """Return what a config metric has in common with its engine's counters: engine, and what a scraper added."""
    common = ("cluster", "container", "engine", "host", "instance", "job", "namespace", "node", "pod")
    return (*own, *((name, labels[name]) for name in common if name in labels))


def _engines(
    by_engine: Mapping[Labels, Mapping[float, Scrape]], configs: Mapping[Labels, dict[str, str]]
) -> list[Engine]:
    engines = []
    for labels, by_time in sorted(by_engine.items()):
        scrapes = [by_time[time] for time in sorted(by_time)]
        usable = [scrape for scrape in scrapes if scrape.usable]
        if usable:
            config = next((one for key, one in configs.items() if set(key) <= set(labels)), {})
            engines.append(Engine(labels, usable, [], config, len(scrapes) - len(usable)))
    start = min((engine.scrapes[0].time_s for engine in engines), default=0.0)
    for place, engine in enumerate(engines):
        _subtract(engine, place, start)
    return engines


def _subtract(engine: Engine, place: int, start_s: float) -> None:
    first = engine.scrapes[0]
    created = first.values.get("created")
    if created is not None and start_s < created <= first.time_s:
        # It began within the range: all that it shows was counted since.
        engine.increases.append(increase(place, Scrape(created), first))
    elif first.time_s > start_s:
        engine.left_out = first.count("queries")
    for before, after in pairwise(engine.scrapes):
        anew = began_anew(before, after)
        engine.increases.append(increase(place, Scrape(before.time_s) if anew else before, after, anew=anew))
        if anew:
            engine.resets_s.append(after.time_s)
    check(engine.increases)


def began_anew(before: Scrape, after: Scrape) -> bool:
    """Return whether the engine's counters started again at 0 between two scrapes."""
    fell = any(after.values.get(name, 0) < before.values.get(name, 0) for name in ("queries", "hits"))
    created = [scrape.values.get("created") for scrape in (before, after)]
    again = None not in created and created[0] != created[1]
    return fell or again or before.places["queries"] != after.places["queries"]


def increase(engine: int, before: Scrape, after: Scrape, *, anew: bool = False) -> Increase:
    """Return what was counted between two scrapes of one engine; an empty ``before`` is the start at 0."""

    def grown(name: str) -> int:
        # A counter that fell alone (a worker's page) is read as one that began at 0.
        step = after.count(name) - before.count(name)
        return step if step >= 0 else after.count(name)

    sources = {
        name: max(round(value - before.by_source.get(name, 0)), 0) for name, value in after.by_source.items()
    }
    external = grown("external_hits")
    if "external_hits" not in after.values:
        external = sum(count for name, count in sources.items() if name != "device")
    return Increase(
        engine=engine,
        from_s=before.time_s,
        to_s=after.time_s,
        queried=grown("queries"),
        hit=grown("hits"),
        external_hit=external,
        preemptions=grown("preemptions"),
        prompt_tokens=grown("prompt_tokens") if "prompt_tokens" in after.values else None,
        finished=grown("finished") if "finished" in after.values else None,
        by_source=sources,
        began_anew=anew,
    )


def check(increases: Sequence[Increase]) -> None:
    """Raise ``InputError`` where hits exceed queries in all: a rate above 1 is another fault, and is never clipped.

    Between two scrapes they can: one that falls between the two counters sees a lookup and not yet its hit.
    """
    queried, hit, external = (
        sum(getattr(one, name) for one in increases) for name in ("queried", "hit", "external_hit")
    )
    if hit + external > queried:
        beyond = f" and {external:,} external ones" if external else ""
        raise InputError(
            f"the metrics count {hit:,} hits{beyond} of {queried:,} queried: more than all; check that the two "
            "are not swapped, and that external hits are those beyond the engine's own."
        )


def spread(increases: Sequence[Increase], engines: int) -> list[tuple[int, int, int]]:
    """Return queried, hit and external hit of each engine."""
    sums = [[0, 0, 0] for _ in range(engines)]
    for one in increases:
        for place, value in enumerate((one.queried, one.hit, one.external_hit)):
            sums[one.engine][place] += value
    return [(queried, hit, external) for queried, hit, external in sums]
