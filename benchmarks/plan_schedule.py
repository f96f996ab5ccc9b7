"""CPU time of ``plan schedule``: 100,000 requests of the project's mixed traffic, under each policy.

    python benchmarks/plan_schedule.py      (issue 13 allows 60 CPU seconds for a policy)

The traffic is ``kvtools.samples.mixed_traffic`` (seed 7, 15 % cold). Every hot request begins with its route's 160
tokens, so that the cache has something to hit. The simulation is compiled before it is measured.
"""

from __future__ import annotations

import sys
import time
from itertools import accumulate

import numpy as np

from kvtools.cache import Workload
from kvtools.model import CacheSpec, SchedulerSpec
from kvtools.plan.schedule import schedule
from kvtools.plan.schedule_policies import POLICIES, PolicyLimits, policy_of
from kvtools.plan.schedule_state import Clock
from kvtools.samples.mixed_traffic import MixedRequest, mixed_requests

REQUESTS, BLOCK, HEAD_BLOCKS, LIMIT_S = 100_000, 16, 10, 60
SCHEDULER = SchedulerSpec(max_num_seqs=256)
CACHE = CacheSpec(BLOCK, 6_000)
CLOCK = Clock(step_us=15_000, token_ns=50_000, context_ns=0, overlap=False)


def workload(requests: list[MixedRequest]) -> Workload:
    """Return the requests as blocks: a head for each hot route, everything else unique."""
    heads = {
        route: place * HEAD_BLOCKS for place, route in enumerate(sorted({one.route for one in requests}))
    }
    fresh, rows = len(heads) * HEAD_BLOCKS, []
    for one in requests:
        full = (one.prompt_tokens + one.output_tokens - 1) // BLOCK
        shared = 0 if one.cold else min(HEAD_BLOCKS, one.prompt_tokens // BLOCK)
        head = np.arange(heads[one.route], heads[one.route] + shared)
        rows.append(np.concatenate((head, np.arange(fresh, fresh + full - shared))))
        fresh += full - shared
    return Workload(
        prompt_tokens=np.array([one.prompt_tokens for one in requests]),
        output_tokens=np.array([one.output_tokens for one in requests]),
        block_ids=np.concatenate(rows),
        offsets=np.array([0, *accumulate(map(len, rows))]),
        arrival_us=np.array([1000 * one.arrival_ms for one in requests]),
        priority=np.zeros(len(requests), np.int64),
        skip_lookup=np.zeros(len(requests), np.bool_),
    )


def main() -> None:
    """Print CPU seconds and engine steps of each policy; exit 1 where one takes too long."""
    requests = mixed_requests(REQUESTS)
    hot = np.array([not one.cold for one in requests])
    work, limits, slow = workload(requests), PolicyLimits(), False
    small = workload(requests[:100])
    schedule(small, hot[:100], CACHE, SCHEDULER, CLOCK, policy_of("fcfs", limits, 256), limits)
    for name in POLICIES:
        begun = time.process_time()
        done = schedule(work, hot, CACHE, SCHEDULER, CLOCK, policy_of(name, limits, 256), limits)
        took = time.process_time() - begun
        slow |= took > LIMIT_S
        running = done.computed_tokens / max(done.steps, 1)
        print(f"{name:12} {took:6.2f} CPU s · {done.steps:,} steps · {running:.0f} tokens a step")
    sys.exit(int(slow))


if __name__ == "__main__":
    main()
