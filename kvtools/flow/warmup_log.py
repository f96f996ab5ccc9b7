"""The log as a warm-up set is made of it: block keys of every request, and where each request stands in its chunk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.blocks import block_keys
from kvtools.cache import Interner, Prompts
from kvtools.errors import InputError
from kvtools.profile import Counts, replay_order
from kvtools.table import Ragged, concat_ragged, integer_column, text_column
from kvtools.warmup.time_of_day import DAY_US
from kvtools.warmup.tree import History

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from kvtools.flow.intake import Intake
    from kvtools.flow.warmup_ahead import Bursts
    from kvtools.model import CacheSpec
    from kvtools.profile import Keyed

_UNKNOWN = -1

LEAST_DAYS = 2


@dataclass(slots=True)
class Gathering:
    """Collects the chunks of one pass; ``bursts`` collects what their forecast takes, where one is asked for."""

    counts: Counts = field(default_factory=Counts)
    keys: list[Ragged] = field(default_factory=list)
    columns: list[NDArray[np.int64]] = field(default_factory=list)
    whole: list[NDArray[np.uint64]] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    order: str = "log"
    bursts: Bursts | None = None

    def read(self, intake: Intake) -> int:
        """Take in all chunks; return how many requests have a prompt."""
        for number, (chunk, keyed, dropped) in enumerate(intake.chunks()):
            self.counts.add(Counts.of(chunk, keyed, dropped))
            if self.bursts is not None:
                self.bursts.add(chunk, keyed, dropped)
            names = text_column(chunk.requests, "namespace")
            own = [names[row] for row in keyed.rows.tolist()]
            self.names += own
            self.keys.append(keyed.keys)
            self.columns.append(_columns(chunk.requests, keyed, number))
            self.whole.append(_whole(keyed, own, intake.keying.block_size or 1))
        return len(self.names)

    def log(self, spec: CacheSpec) -> WarmupLog:
        """Return the requests in replay order."""
        arrival, tokens, skip, media, chunk, row, samples = np.concatenate(self.columns, axis=1)
        keys, whole = concat_ragged(self.keys, np.uint64), np.concatenate(self.whole)
        order = replay_order(arrival)
        names = self.names
        if order is not None:
            self.order = "arrival"
            arrival, tokens, skip, media, chunk, row, samples = (
                column[order] for column in (arrival, tokens, skip, media, chunk, row, samples)
            )
            keys, whole, names = keys.take(order), whole[order], [self.names[one] for one in order.tolist()]
        interner = Interner()
        prompts = Prompts(tokens, interner.intern(keys.values), keys.offsets, skip > 0)
        several = samples if (samples > 1).any() else None
        history = History(prompts.ids, keys.offsets, prompts.lookups(spec), tokens, whole, skip > 0, several)
        return WarmupLog(history, interner, arrival, names, np.stack((chunk, row)), media > 0)


@dataclass(frozen=True, slots=True, eq=False)
class WarmupLog:
    """Requests in replay order. ``where[:, request]`` are its chunk and row; ``interner`` gives further keys ids."""

    history: History
    interner: Interner
    arrival_us: NDArray[np.int64]
    namespaces: list[str | None]
    where: NDArray[np.int64]
    media: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.namespaces)

    def with_clock(self) -> WarmupLog:
        """Return the log with its clock given to the history: the time of day then counts.

        Raises:
            InputError: it has no clock, or spans less than two days.
        """
        if (self.arrival_us == _UNKNOWN).any():
            raise InputError("--time-of-day: the log does not say when each request came; leave it out.")
        span_us = int(np.ptp(self.arrival_us))
        if span_us < LEAST_DAYS * DAY_US:
            raise InputError(
                f"--time-of-day: the log spans {span_us / 3.6e9:.1f} h; what a time of day asks for is seen in "
                f"{LEAST_DAYS} days or more: leave it out."
            )
        return replace(self, history=replace(self.history, arrival_us=self.arrival_us))

    def requests_within(self, seconds: float, stop: int) -> int | None:
        """Return how many requests come in ``seconds`` at the rate of the first ``stop``, ``None`` without a clock."""
        if stop < 2 or (self.arrival_us[:stop] == _UNKNOWN).any():
            return None
        span_us = int(self.arrival_us[stop - 1] - self.arrival_us[0])
        return max(1, round(seconds * 1e6 * (stop - 1) / span_us)) if span_us else None


def _columns(table: pd.DataFrame, keyed: Keyed, number: int) -> NDArray[np.int64]:
    rows = keyed.rows
    media = np.zeros(len(rows), dtype=np.int64)
    if keyed.media is not None:
        media[keyed.media.request] = 1
    return np.stack(
        (
            integer_column(table, "arrival_us", _UNKNOWN)[rows],
            keyed.prompt_tokens,
            integer_column(table, "skip_lookup", 0)[rows],
            media,
            np.full(len(rows), number, dtype=np.int64),
            rows,
            np.maximum(integer_column(table, "samples", 1)[rows], 1),
        )
    )


def _whole(keyed: Keyed, names: list[str | None], block_size: int) -> NDArray[np.uint64]:
    """Return a digest of each whole prompt, its last tokens included."""
    keys = keyed.keys
    if keyed.tokens is not None:
        keys = block_keys(keyed.tokens, names, block_size, partial=True, media=keyed.media)
    digests = keyed.prompt_tokens.astype(np.uint64)
    some = np.flatnonzero(keys.lengths() > 0)
    digests[some] ^= keys.values[keys.offsets[some + 1] - 1]
    return digests
