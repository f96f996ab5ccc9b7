"""What ``plan routing`` and ``plan sizing`` read of a log: keys, sessions, routing keys, times. No text is kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from kvtools.cache import Interner, Prompts
from kvtools.model import CacheSpec
from kvtools.plan.routing_keys import LADDER_TOKENS, RoutingKeys
from kvtools.profile import Counts, RequestColumns, replay_order
from kvtools.report.model import Settings
from kvtools.report.plan_routing import PlanCache
from kvtools.sessions import NAMED, find_sessions
from kvtools.table import Ragged, concat_ragged, digest64, integer_column, offsets_of, text_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.flow.intake import Intake
    from kvtools.heat.log import HeatLog
    from kvtools.profile import Keyed
    from kvtools.readers import Chunk
from kvtools.sessions import Sessions

UNKNOWN = -1
_INTEGERS = ("arrival_us", "output_tokens", "latency_us")


@dataclass(slots=True)
class PlanLog:
    """Takes a log chunk by chunk.

    ``prefix_tokens``: a length of routing keys besides the usual ones. ``heat`` takes what classes need. ``key_tokens``
    are the lengths of the routing keys in tokens, settled by the first chunk: whole blocks where the log lists block
    ids (``in_blocks``).
    """

    prefix_tokens: int | None = None
    heat: HeatLog | None = None
    counts: Counts = field(default_factory=Counts)
    key_tokens: tuple[int, ...] = ()
    in_blocks: bool = False
    block_size: int = 1
    _keying: RoutingKeys | None = None
    _columns: list[RequestColumns] = field(default_factory=list)
    _session_hash: list[NDArray[np.uint32]] = field(default_factory=list)

    def add(self, chunk: Chunk, keyed: Keyed, duplicates: int, block_size: int) -> None:
        """Add a chunk, ``duplicates`` of whose calls were dropped before it was keyed."""
        self.counts.add(Counts.of(chunk, keyed, duplicates))
        if self.heat is not None:
            self.heat.add(chunk.requests, keyed)
        if not len(keyed.rows):
            return
        self.block_size = block_size
        if self._keying is None:
            self._settle(block_size if keyed.tokens is None else 1)
        if self._keying is not None:
            self._keying.add(keyed.keys if keyed.tokens is None else keyed.tokens)
        table, rows = chunk.requests, keyed.rows
        names = text_column(table, "session_id")
        hash_of = {name: crc32((name or "").encode()) for name in set(names)}
        self._session_hash.append(np.array([hash_of[names[row]] for row in rows.tolist()], dtype=np.uint32))
        integers = {name: integer_column(table, name, UNKNOWN)[rows] for name in _INTEGERS}
        nothing = np.full(len(rows), UNKNOWN, dtype=np.int64)
        self._columns.append(
            RequestColumns(
                **integers,
                prompt_tokens=keyed.prompt_tokens,
                route=_digests(text_column(table, "route"), rows),
                namespace=_digests(text_column(table, "namespace"), rows),
                cached_tokens=nothing,
                observed_tokens=nothing,
                observed_id=[""] * len(rows),
                samples=integer_column(table, "samples", 1)[rows],
                skip_lookup=integer_column(table, "skip_lookup", 0)[rows] > 0,
                session=_digests(names, rows),
                keys=keyed.keys,
            )
        )

    def _settle(self, unit: int) -> None:
        """Choose the lengths of routing keys: multiples of ``unit`` tokens."""
        self.in_blocks = unit > 1
        asked = () if self.prefix_tokens is None else (self.prefix_tokens,)
        values = sorted({max(tokens // unit, 1) for tokens in (*LADDER_TOKENS, *asked)})
        if self.in_blocks:
            values = sorted({*values, 2, 4, 8, 16})
        self.key_tokens = tuple(count * unit for count in values)
        self._keying = RoutingKeys(tuple(values))

    def built(self) -> PlannedRequests:
        """Return all requests in replay order; there is at least one."""
        parts = self._columns
        logged = RequestColumns(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in RequestColumns.__slots__
                if name not in ("keys", "observed_id")
            },
            observed_id=[name for part in parts for name in part.observed_id],
            keys=concat_ragged([part.keys for part in parts], np.uint64),
        )
        order = replay_order(logged.arrival_us)
        at = np.arange(len(logged.prompt_tokens)) if order is None else order
        requests = logged if order is None else logged.take(order)
        sessions = find_sessions(_of_full_blocks(requests, self.block_size), requests.session)
        keying = RoutingKeys(()) if self._keying is None else self._keying
        number = np.empty(len(at), dtype=np.int64)
        number[at] = sessions.number
        return PlannedRequests(
            requests=requests,
            places=at,
            logged=logged,
            order="log" if order is None else "arrival",
            sessions=sessions,
            session_hash=_session_hashes(np.concatenate(self._session_hash)[at], sessions),
            prefix_keys=keying.keys()[at],
            first_difference=keying.first_difference(number),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRequests:
    """The requests of a log in replay order; ``logged``: in log order, in which ``places`` say where each stands.

    ``session_hash``: CRC-32 of what a router hashes to keep a session together; ``prefix_keys`` [requests, lengths]:
    routing keys. ``first_difference``: the shortest key that tells any two sessions apart, in tokens or blocks.
    """

    requests: RequestColumns
    places: NDArray[np.int64]
    logged: RequestColumns
    order: str
    sessions: Sessions
    session_hash: NDArray[np.uint32]
    prefix_keys: NDArray[np.uint64]
    first_difference: int | None

    def lookups(self) -> tuple[Prompts, NDArray[np.int64]]:
        """Return every lookup (n answers are n), and the request that each is of."""
        owner = np.repeat(np.arange(len(self.requests.samples)), self.requests.samples)
        ids = Interner().intern(self.requests.keys.values)
        blocks = Ragged(ids, self.requests.keys.offsets)
        if len(owner) != len(self.requests.samples):
            blocks = blocks.take(owner)
        prompts = Prompts(
            self.requests.prompt_tokens[owner],
            blocks.values,
            blocks.offsets,
            self.requests.skip_lookup[owner],
        )
        return prompts, owner


def plan_log(
    intake: Intake, prefix_tokens: int | None = None, heat: HeatLog | None = None
) -> tuple[PlanLog, PlannedRequests, CacheSpec]:
    """Read a log once; return what was counted, its requests, and a cache of its block size and rules without limit.

    Raises:
        InputError: the log cannot be read, or no request in it has a prompt.
    """
    log = PlanLog(prefix_tokens, heat)
    requests = 0
    for chunk, keyed, dropped in intake.chunks():
        log.add(chunk, keyed, dropped, intake.keying.block_size or 1)
        requests += len(keyed.rows)
    block_size, rules = intake.settled(log.counts, requests)
    return log, log.built(), CacheSpec(block_size, None, rules)


def plan_settings(intake: Intake, order: str) -> Settings:
    """Return what two plans have to have in common to be comparable."""
    has_text = intake.keying.kind == "prompts"
    return Settings(
        tokenizer=intake.tokenizer.name if has_text else "none (block ids given)",
        tokenizer_check=intake.tokenizer_check() if has_text else "not needed",
        chat_template=intake.template.name,
        order=order,
        measure_from=0.0,
    )


def plan_cache(spec: CacheSpec) -> PlanCache:
    """Return the cache as it stands in a report."""
    return PlanCache(
        block_size=spec.block_size,
        capacity_blocks=spec.capacity_blocks,
        rules=spec.rules,
        outputs=spec.outputs,
    )


def _of_full_blocks(requests: RequestColumns, block_size: int) -> RequestColumns:
    """Return the requests without last blocks that are not full, which traces list: no later turn repeats those."""
    lengths = requests.keys.lengths()
    full = np.minimum(lengths, requests.prompt_tokens // block_size)
    if (full == lengths).all():
        return requests
    places = np.arange(len(requests.keys.values)) - np.repeat(requests.keys.offsets[:-1], lengths)
    keep = places < np.repeat(full, lengths)
    return replace(requests, keys=Ragged(requests.keys.values[keep], offsets_of(full)))


def _session_hashes(named: NDArray[np.uint32], sessions: Sessions) -> NDArray[np.uint32]:
    """Return the routing hash of each session: of its id, or of a made-up one where it was found by its prompts."""
    hashes = named.copy()
    for row in np.flatnonzero(sessions.basis != NAMED).tolist():
        previous = sessions.previous[row]
        hashes[row] = hashes[previous] if previous >= 0 else crc32(b"found-%d" % sessions.number[row])
    return hashes


def _digests(names: list[str | None], rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    digest_of = {name: digest64(name) for name in set(names)}
    return np.array([digest_of[names[row]] for row in rows.tolist()], dtype=np.uint64)
