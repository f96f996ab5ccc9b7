"""The report of a replay: what each engine counted, and where they agree. Figures: docs/metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kvtools.report.compare import Compare
from kvtools.report.model import Coverage, Input, Settings
from kvtools.report.shape import Window, windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from kvtools.model import ReplayResult
    from kvtools.replay.log import ReplayLog


class Fragmentation(msgspec.Struct, frozen=True, kw_only=True):
    """1 - block utilization (0..1), over the engine's steps."""

    p50: float
    p95: float


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine counted. ``None`` is what it does not tell. ``prefill_tokens`` = queried - hit.

    ``over_time``: windows in UTC as in the report of a log; none where the engine tells only a total.
    """

    engine: str
    start_state: str
    block_size: int
    capacity_blocks: int | None
    requests: int
    refused_requests: int
    queried_tokens: int
    hit_tokens: int
    hit_rate: float | None
    prefill_tokens: int
    evictions: int | None
    preemptions: int | None
    block_utilization: float | None
    memory_fragmentation: Fragmentation | None
    notes: list[str]
    over_time: list[Window] = []


class Scheduler(msgspec.Struct, frozen=True, kw_only=True):
    """How the requests were brought in and the engine stepped; ``step_time`` states the clock of ``--arrivals log``."""

    arrivals: str
    outputs: str
    rules: str
    policy: str
    free_partial_blocks: str
    commit: str
    max_num_seqs: int
    max_num_batched_tokens: int
    step_time: str | None


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that ``kvtools replay`` found out."""

    schema_version: int
    kvtools_version: str
    inputs: list[Input]
    settings: Settings
    coverage: Coverage
    requests: int
    log_requests: int
    scheduler: Scheduler
    replays: list[Replay]
    compare: Compare | None

    def to_json(self) -> str:
        """Return the report as indented JSON with a final line feed."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode() + "\n"


def replay_figures(result: ReplayResult, arrival_us: NDArray[np.int64]) -> Replay:
    """Return what one engine counted of requests that arrived at ``arrival_us``, as it stands in the report."""
    occupancy = result.occupancy
    return Replay(
        engine=result.engine,
        start_state=result.start_state,
        block_size=result.spec.block_size,
        capacity_blocks=result.spec.capacity_blocks,
        requests=len(result.queried_tokens) - int(result.refused.sum()),
        refused_requests=int(result.refused.sum()),
        queried_tokens=result.total_queried_tokens,
        hit_tokens=result.total_hit_tokens,
        hit_rate=result.hit_rate,
        prefill_tokens=result.total_queried_tokens - result.total_hit_tokens,
        evictions=result.evictions,
        preemptions=result.preemptions,
        block_utilization=None if occupancy is None else occupancy.utilization,
        memory_fragmentation=None
        if occupancy is None
        else Fragmentation(p50=occupancy.fragmentation_p50, p95=occupancy.fragmentation_p95),
        notes=list(result.notes),
        over_time=[] if result.counted_hit_tokens is not None else windows(arrival_us, result, 0),
    )


def request_lines(log: ReplayLog, result: ReplayResult) -> Iterator[str]:
    """Yield a JSON line per request: ``{"id","queried_tokens","hit_tokens","preemptions"}``, ``null`` where unknown."""
    preemptions = result.request_preemptions
    for index, name in enumerate(log.request_id):
        line = {
            "id": name,
            "queried_tokens": int(result.queried_tokens[index]),
            "hit_tokens": int(result.hit_tokens[index]) if result.counted_hit_tokens is None else None,
            "refused": bool(result.refused[index]),
            "preemptions": None if preemptions is None else int(preemptions[index]),
        }
        yield msgspec.json.encode(line).decode() + "\n"
