"""Frozen types that cross rooms: what a cache is, what a scheduler is, what a replay returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from kvtools.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rules: TypeAlias = Literal["vllm", "trace"]
Outputs: TypeAlias = Literal["one", "lengths", "text"]
Arrivals: TypeAlias = Literal["sequential", "closed", "log"]
FreePartialBlocks: TypeAlias = Literal["first", "last"]
Commit: TypeAlias = Literal["scheduled", "finished"]
Policy: TypeAlias = Literal["fcfs", "priority"]
StartState: TypeAlias = Literal["cold", "warm", "unknown"]

DEFAULT_BLOCK_TOKENS = 16
"""vLLM's own default block size, in tokens."""

TRACE_BLOCK_TOKENS = 512
"""Block size of Mooncake-style hash traces that do not name theirs, in tokens."""


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """The prefix cache that a log is replayed through.

    ``block_size`` is in tokens. ``capacity_blocks`` counts usable blocks (vLLM's ``num_gpu_blocks``
    is one more: its null block holds no tokens); ``None`` is a cache without limit.

    ``rules`` says how hits are counted. ``vllm``: full blocks only and at most n-1 tokens of a prompt
    of n. ``trace``: every id that the log lists is a block, the last one with its own tokens.
    ``outputs`` says what a request leaves behind besides its prompt: ``one`` generated token, the
    recorded ``lengths`` with unique ids, or the recorded answer's own ``text``.

    ``free_partial_blocks``: blocks that are not full are reused ``first`` (vLLM since May 2026, pull request
    42656) or ``last`` (before). ``commit``: a block can be hit as soon as it is ``scheduled`` (vLLM), or when
    its request is ``finished`` (other engines).
    """

    block_size: int = DEFAULT_BLOCK_TOKENS
    capacity_blocks: int | None = None
    rules: Rules = "vllm"
    outputs: Outputs = "one"
    model: str = "full attention"
    free_partial_blocks: FreePartialBlocks = "first"
    commit: Commit = "scheduled"

    def __post_init__(self) -> None:
        if self.block_size < 1:
            raise UsageError(
                f"a block holds at least 1 token, not {self.block_size}: give --block-size 1 or more."
            )
        if self.capacity_blocks is not None and self.capacity_blocks < 1:
            raise UsageError(
                f"a cache holds at least 1 block, not {self.capacity_blocks}: give --capacity-blocks 1 or more."
            )


@dataclass(frozen=True, slots=True)
class SchedulerSpec:
    """How the engine admits and steps, by vLLM's own names (``SchedulerConfig`` of vLLM 0.32).

    ``max_num_seqs`` requests run at once; a step computes at most ``max_num_batched_tokens`` tokens;
    ``long_prefill_token_threshold`` caps one request's share of a step in tokens (0: no cap);
    ``watermark_share`` of the pool is kept free on admission (0..1).
    """

    arrivals: Arrivals = "sequential"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int | None = None
    policy: Policy = "fcfs"
    long_prefill_token_threshold: int = 0
    enable_chunked_prefill: bool = True
    reserve_full_isl: bool = True
    watermark_share: float = 0.0
    async_scheduling: bool = False


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How full the blocks were that requests held: filled tokens / (blocks held * block size), shares of 0..1.

    ``utilization`` weighs each step by the blocks it held; fragmentation is 1 - utilization of a step, ``p50``
    and ``p95`` over the steps.
    """

    utilization: float
    fragmentation_p50: float
    fragmentation_p95: float


@dataclass(frozen=True, slots=True, eq=False)
class ReplayResult:
    """What an engine counted. The arrays have one entry per request, in replay order, in tokens.

    A request that the engine refused has ``queried_tokens`` 0 and ``refused`` true; one that does no lookup
    has ``queried_tokens`` 0. ``evictions`` counts blocks that lost their key because the pool took them for
    other tokens. ``counted_hit_tokens`` is set where the engine told only the total: ``hit_tokens`` are then
    0. ``None`` is what this engine does not tell. ``notes`` are sentences for the reader.
    """

    engine: str
    spec: CacheSpec
    start_state: StartState
    queried_tokens: NDArray[np.int64]
    hit_tokens: NDArray[np.int64]
    refused: NDArray[np.bool_]
    evictions: int | None
    preemptions: int | None = 0
    request_preemptions: NDArray[np.int64] | None = None
    occupancy: Occupancy | None = None
    counted_hit_tokens: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def total_queried_tokens(self) -> int:
        """Prompt tokens of all requests that did a lookup."""
        return int(self.queried_tokens.sum())

    @property
    def total_hit_tokens(self) -> int:
        """Prompt tokens that were found in the cache."""
        return int(self.hit_tokens.sum()) if self.counted_hit_tokens is None else self.counted_hit_tokens

    @property
    def hit_rate(self) -> float | None:
        """Hit tokens over queried tokens (0..1), as vLLM counts; ``None`` where nothing was queried."""
        return share(self.total_hit_tokens, self.total_queried_tokens)


def share(part: int, whole: int) -> float | None:
    """Return ``part / whole`` (0..1), or ``None`` where there is no whole to take a part of."""
    return part / whole if whole else None
