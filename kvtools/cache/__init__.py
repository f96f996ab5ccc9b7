"""vLLM's prefix cache: which tokens of a log it hits, at one size and at every size."""

from kvtools.cache.intern import Interner
from kvtools.cache.scheduler import Simulation, simulate
from kvtools.cache.study import CacheStudy, Prompts, replay_prompts, study_cache, trace_hits, unlimited_hits
from kvtools.cache.workload import StepTime, Workload, without_needless_blocks

__all__ = [
    "CacheStudy",
    "Interner",
    "Prompts",
    "Simulation",
    "StepTime",
    "Workload",
    "replay_prompts",
    "simulate",
    "study_cache",
    "trace_hits",
    "unlimited_hits",
    "without_needless_blocks",
]
