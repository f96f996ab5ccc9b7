"""What-ifs that vLLM has no switch for: cheaper cold blocks, a tier of copies in CPU memory, a GPU that fails.

Each only says what the schedule would be. What 8-bit KV does to answers is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kvtools.errors import UsageError
from kvtools.table import offsets_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvtools.cache import Workload
    from kvtools.plan.schedule_state import Clock

INT8_TOKENS = 2
"""A block of the same bytes holds twice the tokens in 8 bits as in 16."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What is different; nothing, unless it is said.

    ``cold_int8``: KV of cold requests in half the bytes. ``tier_blocks`` in CPU memory (0: none), each brought back in
    ``reload_ms``. ``failure``: seconds after the log's first arrival, how long, and the part of the speed that is left
    (0..1); policies that know cold requests then send them to a CPU of ``cpu_tokens_per_s`` and ``cpu_step_ms``.
    """

    cold_int8: bool = False
    tier_blocks: int = 0
    reload_ms: float = 0.1
    failure: tuple[float, float, float] | None = None
    cpu_tokens_per_s: float = 200.0
    cpu_step_ms: float = 200.0

    def __post_init__(self) -> None:
        if self.failure is not None and not (
            self.failure[0] >= 0 and self.failure[1] > 0 and 0 < self.failure[2] <= 1
        ):
            raise UsageError(
                "--gpu-failure: seconds from 0, for more than 0, with more than 0 and at most 1 left."
            )
        if (
            self.tier_blocks < 0
            or self.reload_ms < 0
            or not (self.cpu_tokens_per_s > 0 and self.cpu_step_ms > 0)
        ):
            raise UsageError("--cpu-blocks and --reload-ms are at least 0, the CPU's speed above 0.")

    def told(self) -> list[str]:
        """Return a sentence for each thing that is different."""
        told = []
        if self.cold_int8:
            told.append(
                "what if: KV of cold requests takes half the bytes; what 8 bits do to answers is not known."
            )
        if self.tier_blocks:
            told.append(
                f"what if: {self.tier_blocks:,} blocks in CPU memory copy every block, {self.reload_ms:g} ms to bring "
                "one back; the oldest copy goes first."
            )
        if self.failure is not None:
            at, lasts, left = self.failure
            told.append(
                f"what if: from {at:g} s on, for {lasts:g} s, {100 * left:g} % of the speed is left; but for fcfs and "
                f"priority, cold requests go to a CPU of {self.cpu_tokens_per_s:g} tokens/s, {self.cpu_step_ms:g} ms a "
                "step."
            )
        return told

    def clock(self, clock: Clock, begin_us: int) -> Clock:
        """Return the clock of a log that begins at ``begin_us``."""
        clock = clock._replace(reload_ns=round(1e6 * self.reload_ms) if self.tier_blocks else 0)
        if self.failure is None:
            return clock
        fails_us = begin_us + round(1e6 * self.failure[0])
        return clock._replace(
            fails_us=fails_us,
            mended_us=fails_us + round(1e6 * self.failure[1]),
            left=max(1, round(1000 * self.failure[2])),
            cpu_token_ns=round(1e9 / self.cpu_tokens_per_s),
            cpu_step_us=max(1, round(1000 * self.cpu_step_ms)),
        )

    def blocks(
        self, work: Workload, hot: NDArray[np.bool_], block_size: int
    ) -> tuple[Workload, NDArray[np.int64] | None]:
        """Return the requests with the blocks that they take, and how many tokens a block of each holds."""
        if not self.cold_int8:
            return work, None
        # 8-bit and 16-bit blocks of one text are not the same block: a key of its own for every second one.
        lengths = np.diff(work.offsets)
        places = np.arange(len(work.block_ids)) - np.repeat(work.offsets[:-1], lengths)
        cold = np.repeat(~hot, lengths)
        keep = ~cold | (places % INT8_TOKENS == INT8_TOKENS - 1)
        own = int(work.block_ids.max(initial=-1)) + 1
        _, dense = np.unique((work.block_ids + np.where(cold, own, 0))[keep], return_inverse=True)
        kept = np.where(hot, lengths, lengths // INT8_TOKENS)
        changed = replace(work, block_ids=dense.astype(np.int64), offsets=offsets_of(kept))
        return changed, np.where(hot, block_size, INT8_TOKENS * block_size)
