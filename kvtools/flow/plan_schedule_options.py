"""What ``plan schedule`` can be told, and how limits are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kvtools.errors import UsageError
from kvtools.flow.intake import IntakeOptions
from kvtools.flow.plan_schedule_clock import ClockOptions
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule_figures import COLD, HOT
from kvtools.plan.schedule_policies import POLICIES, PolicyLimits, policy_of
from kvtools.plan.schedule_search import SEARCHED
from kvtools.plan.schedule_whatif import WhatIf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kvtools.flow.sizing import CacheMemory

TTFT_LIMITS_MS = {"chat": (80.0, 200.0), "search": (120.0, 300.0), "summaries": (150.0, 500.0)}
"""P50 and P99 by kind of use (SEEDS: article B). The article says latency; an answer takes longer: TTFT is meant."""

SCENARIOS = {"hot-led chat": 0.05, "batch reports": 0.9, "mixed": 0.2, "extreme": 0.3}
"""Article B's four mixes. It gives the cold share of the last two; that of the first two is ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions(IntakeOptions):
    """What ``plan schedule`` can be told besides how to read.

    ``rules_file``: who is hot (default: rules learnt from the log). ``limits_ms``: P50 and P99 of TTFT of each class.
    ``sweep``: cold shares to run; ``scenarios``: the article's mixes; ``tries``: how many limits a search draws.
    """

    policies: tuple[str, ...] = tuple(POLICIES)
    rules_file: Path | None = None
    capacity_blocks: int | None = None
    memory: CacheMemory | None = None
    scheduler: SchedulerSpec = field(default_factory=lambda: SchedulerSpec(arrivals="log"))
    limits: PolicyLimits = field(default_factory=PolicyLimits)
    limits_ms: Mapping[str, tuple[float, float]] = field(
        default_factory=lambda: {HOT: TTFT_LIMITS_MS["chat"], COLD: TTFT_LIMITS_MS["summaries"]}
    )
    clock: ClockOptions = field(default_factory=ClockOptions)
    what_if: WhatIf = field(default_factory=WhatIf)
    sweep: tuple[float, ...] = ()
    scenarios: bool = False
    tries: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.policies:
            policy_of(name, self.limits, self.scheduler.max_num_seqs)
        if not self.policies or len(set(self.policies)) < len(self.policies):
            raise UsageError(f"--policy: one or more different ones of {', '.join(POLICIES)}.")
        if min(self.scheduler.max_num_seqs, self.scheduler.max_num_batched_tokens) < 1:
            raise UsageError("--max-num-seqs and --max-num-batched-tokens are at least 1.")
        if self.tries and not set(SEARCHED) & set(self.policies):
            raise UsageError(f"--search is for a policy with limits: {', '.join(SEARCHED)}.")
        CacheSpec(1 if self.block_size is None else self.block_size, self.capacity_blocks)

    @classmethod
    def of(cls, limits_ms: Mapping[str, str] | None = None, **options: Any) -> ScheduleOptions:
        """Return options whose limits are written as ``80/200`` (P50/P99 in ms) or as a kind of use.

        Raises:
            UsageError: a limit is neither.
        """
        limits = {HOT: "chat", COLD: "summaries"} | dict(limits_ms or {})
        return cls(limits_ms={name: _limit(name, text) for name, text in limits.items()}, **options)


def _limit(name: str, text: str) -> tuple[float, float]:
    if text in TTFT_LIMITS_MS:
        return TTFT_LIMITS_MS[text]
    try:
        p50, p99 = (float(part) for part in text.split("/"))
    except ValueError:
        p50 = p99 = 0.0
    if not 0 < p50 <= p99 < float("inf"):
        raise UsageError(
            f"--limits {name}={text}: give P50/P99 in ms such as 80/200, or one of {', '.join(TTFT_LIMITS_MS)}."
        )
    return p50, p99


def scheduler_of(settings: Mapping[str, Any]) -> SchedulerSpec:
    """Return the engine's settings, by vLLM's names, for arrivals by the log's clock."""
    return SchedulerSpec(arrivals="log", **settings)


def limits_of(settings: Mapping[str, Any], *, ends: bool) -> PolicyLimits:
    """Return the limits of the policies; ``ends``: a timeout ends a cold request instead of promoting it.

    Raises:
        UsageError: a limit is out of range.
    """
    return PolicyLimits(timeout_ends=ends, **settings)


def what_if_of(settings: Mapping[str, Any]) -> WhatIf:
    """Return what is to be different from the engine as it is.

    Raises:
        UsageError: a setting is out of range.
    """
    return WhatIf(**settings)
