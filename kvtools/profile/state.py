"""What is kept of a log: per request a few integers and its block keys; of its text, two sketches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kvtools.profile.calls import Calls
from kvtools.profile.keying import sent_rows
from kvtools.profile.traffic import TrafficLog, hosted_grids, map_traffic
from kvtools.profile.truncation import Cuts
from kvtools.similarity.consecutive import ConsecutiveText, Group
from kvtools.similarity.seen import SeenText
from kvtools.similarity.shingles import distinct_shingles
from kvtools.similarity.variable import TokenSample
from kvtools.table import Ragged, concat_ragged, digest64, integer_column, present, text_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.profile.keying import Keyed
    from kvtools.readers import Chunk

N = TypeVar("N", bound=np.generic)

UNKNOWN = -1
"""Stands for NA in the integer columns of a profile."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestColumns:
    """One entry per request that has a prompt, in log order.

    ``route``, ``namespace`` and ``session`` are 64-bit digests of the name (0: none); ``arrival_us`` is
    ``UNKNOWN`` where the log has no clock. ``cached_tokens`` and ``observed_tokens`` are the hits and prompt
    tokens that the server reported, where it counts as vLLM does; ``observed_id`` names those requests, empty for
    others. ``samples`` is how many lookups a request is (OpenAI's ``n``); a request with ``skip_lookup`` fills the
    cache without reading it.
    """

    arrival_us: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    latency_us: NDArray[np.int64]
    route: NDArray[np.uint64]
    namespace: NDArray[np.uint64]
    cached_tokens: NDArray[np.int64]
    observed_tokens: NDArray[np.int64]
    observed_id: list[str]
    samples: NDArray[np.int64]
    skip_lookup: NDArray[np.bool_]
    session: NDArray[np.uint64]
    keys: Ragged

    def take(self, order: NDArray[np.int64]) -> RequestColumns:
        """The requests ``order``, in that order."""
        return RequestColumns(
            arrival_us=self.arrival_us[order],
            prompt_tokens=self.prompt_tokens[order],
            output_tokens=self.output_tokens[order],
            latency_us=self.latency_us[order],
            route=self.route[order],
            namespace=self.namespace[order],
            cached_tokens=self.cached_tokens[order],
            observed_tokens=self.observed_tokens[order],
            observed_id=[self.observed_id[index] for index in order.tolist()],
            samples=self.samples[order],
            skip_lookup=self.skip_lookup[order],
            session=self.session[order],
            keys=self.keys.take(order),
        )


@dataclass(slots=True)
class Counts:
    """Where the records of a log went.

    ``records`` is all of them; ``repaired`` counts lines that were read although something was wrong with them.
    ``with_media``, ``bad_arguments``, ``calls`` and ``cuts`` say more of requests that were used.
    """

    records: int = 0
    without_prompt: int = 0
    duplicates: int = 0
    not_sent: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    with_media: int = 0
    bad_arguments: int = 0
    calls: Calls = field(default_factory=Calls)
    cuts: Cuts = field(default_factory=Cuts)

    @classmethod
    def of(cls, chunk: Chunk, keyed: Keyed, duplicates: int = 0) -> Counts:
        """Count one chunk, ``duplicates`` of whose calls were dropped before it was keyed."""
        reasons = Counter(text_column(chunk.rejects, "reason")) + Counter(
            reason for _, reason, _ in keyed.rejects
        )
        return cls(
            records=chunk.records,
            without_prompt=len(chunk.requests) - len(keyed.rows) - len(keyed.rejects) - keyed.not_sent,
            not_sent=keyed.not_sent,
            duplicates=duplicates,
            rejected=Counter({reason or "": count for reason, count in reasons.items()}),
            repaired=Counter(chunk.repaired),
            with_media=keyed.with_media,
            bad_arguments=keyed.bad_arguments,
            calls=Calls.of(chunk.requests, sent_rows(chunk.requests)),
            cuts=Cuts.of(chunk.requests, keyed),
        )

    def add(self, other: Counts) -> None:
        """Add another stretch of the log."""
        self.records += other.records
        self.without_prompt += other.without_prompt
        self.duplicates += other.duplicates
        self.not_sent += other.not_sent
        self.rejected += other.rejected
        self.repaired += other.repaired
        self.with_media += other.with_media
        self.bad_arguments += other.bad_arguments
        self.calls.add(other.calls)
        self.cuts.add(other.cuts)


@dataclass(slots=True)
class LogProfile:
    """The state of the fold: what a stretch of the log came to."""

    counts: Counts = field(default_factory=Counts)
    columns: list[RequestColumns] = field(default_factory=list)
    traffic: TrafficLog = field(default_factory=TrafficLog)
    route_names: dict[int, str] = field(default_factory=dict)
    utc_offset_min: int | None = None
    text: ConsecutiveText = field(default_factory=ConsecutiveText)
    sample: TokenSample = field(default_factory=TokenSample)
    seen: SeenText = field(default_factory=SeenText)

    def merge(self, later: LogProfile) -> LogProfile:
        """Append ``later``, the stretch that follows in the log, and return the whole. Both are used up."""
        self.counts.add(later.counts)
        self.columns += later.columns
        self.traffic.parts += later.traffic.parts
        self.route_names |= later.route_names
        if self.utc_offset_min is None:
            self.utc_offset_min = later.utc_offset_min
        self.text.merge(later.text)
        self.sample.merge(later.sample)
        self.seen.merge(later.seen)
        return self

    @property
    def prompts(self) -> int:
        """How many requests have a prompt."""
        return sum(len(part.prompt_tokens) for part in self.columns)

    @property
    def has_text(self) -> bool:
        """Whether any prompt was tokens (given, or made of text) and not just block ids."""
        return bool(self.text.runs)

    def requests(self) -> RequestColumns:
        """Return the columns of all requests as one, which takes the place of the parts: the keys are most of a log."""
        parts = self.columns
        if len(parts) == 1:
            return parts[0]
        whole = RequestColumns(
            arrival_us=_joined([p.arrival_us for p in parts], np.int64),
            prompt_tokens=_joined([p.prompt_tokens for p in parts], np.int64),
            output_tokens=_joined([p.output_tokens for p in parts], np.int64),
            latency_us=_joined([p.latency_us for p in parts], np.int64),
            route=_joined([p.route for p in parts], np.uint64),
            namespace=_joined([p.namespace for p in parts], np.uint64),
            cached_tokens=_joined([p.cached_tokens for p in parts], np.int64),
            observed_tokens=_joined([p.observed_tokens for p in parts], np.int64),
            observed_id=[name for p in parts for name in p.observed_id],
            samples=_joined([p.samples for p in parts], np.int64),
            skip_lookup=_joined([p.skip_lookup for p in parts], np.bool_),
            session=_joined([p.session for p in parts], np.uint64),
            keys=concat_ragged([p.keys for p in parts], np.uint64),
        )
        self.columns = [whole]
        return whole


def _joined(parts: list[NDArray[N]], dtype: type[N]) -> NDArray[N]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def map_chunk(chunk: Chunk, keyed: Keyed, duplicates: int = 0, seen_level: int = 0) -> LogProfile:
    """Return the profile of one chunk; ``duplicates`` of its calls were dropped before it was keyed.

    ``seen_level`` is the first sights' ``level`` of what it will be merged with, or less: the whole keeps no more.
    """
    table = chunk.requests
    profile = LogProfile(Counts.of(chunk, keyed, duplicates), seen=SeenText(level=seen_level))
    routes = _digests(table, "route", keyed.rows)
    names = text_column(table, "route")
    profile.route_names = {int(d): names[row] or "" for d, row in zip(routes, keyed.rows, strict=True) if d}
    zoned = np.flatnonzero(present(table, "utc_offset_min"))
    if len(zoned):
        profile.utc_offset_min = int(integer_column(table, "utc_offset_min")[zoned[0]])
    namespaces = _digests(table, "namespace", keyed.rows)
    profile.traffic.parts.append(map_traffic(table, keyed, sent_rows(table)))
    cached = _cached_by_blocks(table)[keyed.rows]
    arrival = integer_column(table, "arrival_us", UNKNOWN)[keyed.rows]
    profile.columns.append(
        RequestColumns(
            arrival_us=arrival,
            prompt_tokens=keyed.prompt_tokens,
            output_tokens=integer_column(table, "output_tokens", UNKNOWN)[keyed.rows],
            latency_us=integer_column(table, "latency_us", UNKNOWN)[keyed.rows],
            route=routes,
            namespace=namespaces,
            cached_tokens=cached,
            observed_tokens=integer_column(table, "prompt_tokens", UNKNOWN)[keyed.rows],
            observed_id=_observed_ids(table, keyed.rows, cached),
            samples=integer_column(table, "samples", 1)[keyed.rows],
            skip_lookup=integer_column(table, "skip_lookup", 0)[keyed.rows] > 0,
            session=_digests(table, "session_id", keyed.rows),
            keys=keyed.keys,
        )
    )
    if keyed.tokens is None:
        profile.seen.add_without_text(arrival)
    else:
        profile.seen.add(keyed.tokens, namespaces, arrival)
        _add_text(profile, table, keyed, keyed.tokens, routes, namespaces)
    return profile


def _add_text(
    profile: LogProfile,
    table: pd.DataFrame,
    keyed: Keyed,
    tokens: Ragged,
    routes: NDArray[np.uint64],
    namespaces: NDArray[np.uint64],
) -> None:
    sets = distinct_shingles(tokens)
    route_list, namespace_list = routes.tolist(), namespaces.tolist()
    profile.text.add(sets, [Group(None, namespace) for namespace in namespace_list])
    named = np.flatnonzero(routes)
    if len(named):
        profile.text.add(
            sets.take(named) if len(named) < len(routes) else sets,
            [Group(route_list[row], namespace_list[row]) for row in named],
        )
    profile.text.settle()
    places = text_column(table, "source")
    hashes = np.array([digest64(places[row]) for row in keyed.rows], dtype=np.uint64)
    profile.sample.add(tokens, route_list, hashes)


def _cached_by_blocks(table: pd.DataFrame) -> NDArray[np.int64]:
    """Return the reported hits, ``UNKNOWN`` for services with another grid: theirs say nothing of vLLM's."""
    _, step = hosted_grids(table)
    return np.where(step > 0, UNKNOWN, integer_column(table, "cached_tokens", UNKNOWN))


def _observed_ids(table: pd.DataFrame, rows: NDArray[np.int64], cached: NDArray[np.int64]) -> list[str]:
    if (cached == UNKNOWN).all():
        return [""] * len(rows)
    ids, places = text_column(table, "request_id"), text_column(table, "source")
    return [
        "" if hits == UNKNOWN else ids[row] or places[row] or ""
        for row, hits in zip(rows, cached.tolist(), strict=True)
    ]


def _digests(table: pd.DataFrame, column: str, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    names = text_column(table, column)
    digest_of = {name: digest64(name) for name in set(names)}
    return np.array([digest_of[names[row]] for row in rows], dtype=np.uint64)
