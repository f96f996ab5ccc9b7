"""The engine that needs none: vLLM's scheduler and prefix cache, simulated exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kvtools.cache import Simulation, StepTime, simulate, trace_hits, without_needless_blocks
from kvtools.errors import UsageError
from kvtools.model import Occupancy, ReplayResult
from kvtools.replay.engine import Needs
from kvtools.replay.workload import workload

if TYPE_CHECKING:
    from kvtools.replay.engine import Run
    from kvtools.replay.log import ReplayLog


@dataclass(frozen=True, slots=True)
class SimulatorEngine:
    """``step_time`` drives the clock with ``--arrivals log``."""

    step_time: StepTime | None = None
    name: ClassVar[str] = "simulator"
    needs: ClassVar[Needs] = Needs()

    def replay(self, log: ReplayLog, run: Run) -> ReplayResult:
        """Simulate the log; see ``Engine.replay``."""
        if run.cache.rules == "trace":
            return _by_trace_rules(log, run)
        work = workload(log, run.cache)
        cache = without_needless_blocks(work, run.cache, run.scheduler)
        simulation = simulate(work, cache, run.scheduler, self.step_time)
        return ReplayResult(
            engine=self.name,
            spec=run.cache,
            start_state="cold",
            queried_tokens=simulation.queried_tokens,
            hit_tokens=np.where(simulation.queried_tokens > 0, simulation.hit_tokens, 0),
            refused=simulation.refused,
            evictions=simulation.evictions,
            preemptions=int(simulation.preemptions.sum()),
            request_preemptions=simulation.preemptions,
            occupancy=_occupancy(simulation),
        )


def _by_trace_rules(log: ReplayLog, run: Run) -> ReplayResult:
    if run.scheduler.arrivals != "sequential" or run.cache.outputs != "one":
        raise UsageError(
            "trace rules know one request at a time and no outputs: replay with --rules vllm, "
            "or with --arrivals sequential --outputs one."
        )
    return trace_hits(log.prompt_tokens, log.keys, run.cache)


def _occupancy(simulation: Simulation) -> Occupancy | None:
    """Return utilization and fragmentation over the steps, ``None`` where nothing ran."""
    utilization = simulation.block_utilization
    median, low = simulation.utilization_quantile(0.5), simulation.utilization_quantile(0.05)
    if utilization is None or median is None or low is None:
        return None
    # The 95th percentile of fragmentation is the 5th of utilization.
    return Occupancy(utilization, 1 - median, 1 - low)
