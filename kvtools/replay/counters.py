"""What a server's own counters have come to, as a replay compares them before and after."""

from __future__ import annotations

from dataclasses import dataclass

from kvtools.errors import EngineError, InputError
from kvtools.readers.prometheus import Snapshot, read_snapshot


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the server started, summed over its engines. ``queried_tokens`` and ``hit_tokens`` in tokens.

    A hit is what the engine's own cache or one behind a KV connector held: ``cached_tokens`` of an answer counts
    both (``PrefillStats.set``, vLLM 0.32).
    """

    queried_tokens: int
    hit_tokens: int
    preemptions: int


def read_page(page: str) -> Snapshot:
    """Return what a metrics page of the server says.

    Raises:
        EngineError: it counts more hits than queries.
    """
    try:
        return read_snapshot(page)
    except InputError as error:
        raise EngineError(str(error)) from None


def counters_of(snapshot: Snapshot) -> Counters | None:
    """Return the totals, ``None`` where the page has none or, as the first versions did, counts blocks."""
    if not snapshot.local or snapshot.unit == "blocks":
        return None
    return Counters(snapshot.queried, snapshot.local_hit + snapshot.external_hit, snapshot.preemptions or 0)
