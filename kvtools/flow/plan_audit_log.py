"""What ``plan audit`` measures on a log: hits at the line's block size and at others, lengths, requests in flight."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.blocks import chained_keys
from kvtools.cache import Interner, Prompts, replay_prompts, study_cache, unlimited_hits
from kvtools.model import CacheSpec
from kvtools.plan.audit_model import InFlight, LogFacts, Step
from kvtools.profile import replay_order
from kvtools.profile.traffic import hosted_grids
from kvtools.table import Ragged, concat_ragged, digest64, integer_column, present, text_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.flow.intake import Intake
    from kvtools.model import Rules
    from kvtools.profile import Keyed

UNKNOWN = -1
LADDER = (16, 32, 64, 128, 256)
"""Block sizes in tokens at which the log is replayed besides the line's own."""

_INTEGERS = ("arrival_us", "latency_us", "output_tokens", "cached_tokens")


@dataclass(slots=True)
class AuditLog:
    """The columns of a log's requests, and their keys at every block size of ``sizes`` (0: as the log lists them)."""

    sizes: tuple[int, ...] = ()
    keys: dict[int, list[Ragged]] = field(default_factory=dict)
    columns: dict[str, list[NDArray[np.int64]]] = field(default_factory=dict)
    priorities: set[int] = field(default_factory=set)

    def read(self, intake: Intake) -> None:
        """Read the log once more: keys at other block sizes take the tokens, which nobody keeps.

        Raises:
            ChangedInput: a file is not what it was in the first pass.
        """
        for table in intake.again():
            self._keep(table, intake.keying.key(table))

    def _keep(self, table: pd.DataFrame, keyed: Keyed) -> None:
        rows = keyed.rows
        if not len(rows):
            return
        held = {name: integer_column(table, name, UNKNOWN)[rows] for name in _INTEGERS}
        _, hosted = hosted_grids(table)
        held["cached_tokens"] = np.where(hosted[rows] > 0, UNKNOWN, held["cached_tokens"])
        held["prompt_tokens"] = keyed.prompt_tokens
        held["samples"] = integer_column(table, "samples", 1)[rows]
        held["skip_lookup"] = integer_column(table, "skip_lookup", 0)[rows]
        for name, column in held.items():
            self.columns.setdefault(name, []).append(column)
        if present(table, "priority").any():
            self.priorities |= set(np.unique(integer_column(table, "priority", 0)[rows]).tolist())
        if keyed.tokens is None:
            self.keys.setdefault(0, []).append(keyed.keys)
            return
        names = text_column(table, "namespace")
        seeds = np.array([digest64(names[row]) for row in rows.tolist()], dtype=np.uint64)
        for size in self.sizes:
            self.keys.setdefault(size, []).append(chained_keys(keyed.tokens, seeds, size, media=keyed.media))

    def measured(self, size: int, capacity_blocks: int | None, rules: Rules) -> LogFacts:
        """Return the figures in a cache of ``capacity_blocks`` blocks of ``size`` tokens."""
        column = {name: np.concatenate(parts) for name, parts in self.columns.items()}
        order = replay_order(column["arrival_us"])
        order = np.arange(len(column["arrival_us"])) if order is None else order
        column = {name: values[order] for name, values in column.items()}
        owner = np.repeat(np.arange(len(order)), column["samples"])
        prompts = {key: self._prompts(parts, order, column, owner) for key, parts in self.keys.items()}
        own = prompts.get(size) or prompts[0]
        study = study_cache(own, CacheSpec(size, capacity_blocks, rules))
        steps = [
            _step(one, key or size, _same_memory(capacity_blocks, size, key or size), rules)
            for key, one in sorted(prompts.items())
        ]
        seen = column["cached_tokens"] != UNKNOWN
        return LogFacts(
            prompt_tokens=column["prompt_tokens"],
            output_tokens=column["output_tokens"],
            block_size=size,
            queried_tokens=study.result.total_queried_tokens,
            hit_tokens=study.result.total_hit_tokens,
            ceiling_tokens=int(study.ceiling.sum()),
            refused_requests=int(study.result.refused.sum()),
            curve=study.curve,
            steps=tuple(steps),
            in_flight=in_flight(column, size),
            reported_tokens=int(column["cached_tokens"][seen].sum()) if seen.any() else None,
            priorities=len(self.priorities),
            seconds=_seconds(column["arrival_us"]),
        )

    @staticmethod
    def _prompts(
        parts: list[Ragged],
        order: NDArray[np.int64],
        column: dict[str, NDArray[np.int64]],
        owner: NDArray[np.int64],
    ) -> Prompts:
        """Return the lookups in replay order: a request for n answers is n of them."""
        keys = concat_ragged(parts, np.uint64).take(order).take(owner)
        ids = Interner().intern(keys.values)
        return Prompts(column["prompt_tokens"][owner], ids, keys.offsets, column["skip_lookup"][owner] > 0)


def _same_memory(capacity_blocks: int | None, size: int, other: int) -> int | None:
    return None if capacity_blocks is None else max(capacity_blocks * size // other, 1)


def _step(prompts: Prompts, size: int, capacity_blocks: int | None, rules: Rules) -> Step:
    spec = CacheSpec(size, capacity_blocks, rules)
    result = replay_prompts(prompts, spec, unlimited_hits(prompts, spec))
    return Step(size, capacity_blocks, result.total_hit_tokens, result.total_queried_tokens)


def in_flight(column: dict[str, NDArray[np.int64]], block_size: int) -> InFlight | None:
    """Return how many requests ran at once, ``None`` where a request lacks its arrival or its latency."""
    arrival, latency = column["arrival_us"], column["latency_us"]
    if not len(arrival) or (arrival == UNKNOWN).any() or (latency == UNKNOWN).any():
        return None
    ends = arrival + latency
    times, at = np.unique(np.concatenate((arrival, ends)), return_inverse=True)
    samples = column["samples"]
    tokens = column["prompt_tokens"] + np.maximum(column["output_tokens"], 1)
    blocks = -(-tokens // block_size) * samples
    running, held = (
        np.rint(np.cumsum(np.bincount(at, weights=np.concatenate((one, -one)), minlength=len(times)))).astype(
            np.int64
        )
        for one in (samples, blocks)
    )
    return InFlight(int(running.max()), _p99(times, running), times, running, int(held.max()))


def _p99(times: NDArray[np.int64], running: NDArray[np.int64]) -> int:
    """Return the least number that is not passed in 99 % of the time."""
    widths = np.diff(times)
    order = np.argsort(running[:-1], kind="stable")
    reached = np.cumsum(widths[order])
    if not len(reached) or not reached[-1]:
        return int(running.max(initial=0))
    return int(running[:-1][order][np.searchsorted(reached, 0.99 * reached[-1])])


def _seconds(arrival_us: NDArray[np.int64]) -> float:
    if not len(arrival_us) or (arrival_us == UNKNOWN).any():
        return 0.0
    return float(arrival_us.max() - arrival_us.min()) / 1e6
