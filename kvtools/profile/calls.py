"""Calls beside their lookups: which failed, which were streamed, which were sent again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from kvtools.table import arrow_column, digest64, integer_column, present, text_column

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

UNKNOWN = -1

RETRY_WITHIN_US = 120_000_000
"""A retry comes at most two minutes after the end of the call that failed (its arrival, where no latency is logged)."""

_FAILURES = ("error", "fail", "timeout", "timed out", "timed_out", "cancel", "abort", "exception")
_HTTP_FAILURES = range(400, 600)
_CONTENT = ("namespace", "messages", "tools", "prompt", "token_ids", "block_keys")


def failed(status: str | None) -> bool:
    """Return whether a status says that a call failed: HTTP 400 to 599, or a word like error, failed, timeout."""
    if status is None:
        return False
    if status.isdecimal():
        return len(status) < 4 and int(status) in _HTTP_FAILURES
    return any(word in status.lower() for word in _FAILURES)


@dataclass(frozen=True, slots=True, eq=False)
class Tries:
    """Calls whose status or try is logged, in log order. ``prompt`` is a digest of namespace and prompt, 0: none."""

    prompt: NDArray[np.uint64]
    arrival_us: NDArray[np.int64]
    latency_us: NDArray[np.int64]
    attempt: NDArray[np.int64]
    failed: NDArray[np.bool_]
    sent: NDArray[np.bool_]


@dataclass(slots=True)
class Calls:
    """The state of the fold. ``with_status`` and ``with_stream`` are requests whose log says so, of those sent."""

    with_status: int = 0
    failed: int = 0
    with_stream: int = 0
    streamed: int = 0
    tries: list[Tries] = field(default_factory=list)

    @classmethod
    def of(cls, table: pd.DataFrame, sent: NDArray[np.bool_]) -> Calls:
        """Count one chunk; ``sent`` says which of its calls reached an engine."""
        named = present(table, "status")
        streamed = integer_column(table, "streamed", UNKNOWN)[sent]
        statuses = text_column(table, "status") if named.any() else []
        fate = {status: failed(status) for status in set(statuses)}
        lost = np.array([fate[s] for s in statuses], dtype=np.bool_) if statuses else np.zeros_like(named)
        calls = cls(
            with_status=int((named & sent).sum()),
            failed=int((lost & sent).sum()),
            with_stream=int((streamed != UNKNOWN).sum()),
            streamed=int((streamed > 0).sum()),
        )
        rows = np.flatnonzero(named | present(table, "attempt"))
        if len(rows):
            calls.tries.append(_tries(table, rows, lost, sent))
        return calls

    def add(self, later: Calls) -> None:
        """Append the calls of the stretch that follows in the log."""
        self.with_status += later.with_status
        self.failed += later.failed
        self.with_stream += later.with_stream
        self.streamed += later.streamed
        self.tries += later.tries

    def retries(self) -> int | None:
        """Return how many sent calls were retries, ``None`` where the log cannot say (no try, or no status and time).

        A retry is marked as one, or follows a failed call of the same namespace and prompt: the next one of it,
        ``RETRY_WITHIN_US`` after its end at most.
        """
        if not self.tries:
            return None
        whole = [np.concatenate([getattr(part, name) for part in self.tries]) for name in Tries.__slots__]
        prompt, arrival_us, latency_us, attempt, lost, sent = whole
        if (attempt == UNKNOWN).all() and (arrival_us == UNKNOWN).all():
            return None
        again = attempt > 0
        order = np.lexsort((arrival_us, prompt))
        before, after = order[:-1], order[1:]
        end_us = arrival_us[before] + np.maximum(latency_us[before], 0)
        follows = (
            (prompt[before] == prompt[after])
            & (prompt[after] != 0)
            & lost[before]
            & (arrival_us[before] != UNKNOWN)
            & (arrival_us[after] <= end_us + RETRY_WITHIN_US)
        )
        again[after[follows]] = True
        return int((again & sent).sum())


def _tries(
    table: pd.DataFrame, rows: NDArray[np.int64], lost: NDArray[np.bool_], sent: NDArray[np.bool_]
) -> Tries:
    return Tries(
        prompt=_digests(table, rows),
        arrival_us=integer_column(table, "arrival_us", UNKNOWN)[rows],
        latency_us=integer_column(table, "latency_us", UNKNOWN)[rows],
        attempt=integer_column(table, "attempt", UNKNOWN)[rows],
        failed=lost[rows],
        sent=sent[rows],
    )


def _digests(table: pd.DataFrame, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    # Always the same columns: a digest must not depend on what else stands in the chunk.
    namespaces, *prompts = (arrow_column(table, name).take(rows).to_pylist() for name in _CONTENT)
    digests = [
        digest64(repr((namespace, content))) if any(part is not None for part in content) else 0
        for namespace, *content in zip(namespaces, *prompts, strict=True)
    ]
    return np.array(digests, dtype=np.uint64)
