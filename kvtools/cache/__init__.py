"""vLLM's prefix cache: which tokens of a log it hits, at one size and at every size."""

from kvtools.cache.intern import Interner
from kvtools.cache.scheduler import Simulation, StepTime, Workload, simulate
from kvtools.cache.study import CacheStudy, Prompts, study_cache, trace_hits

__all__ = [
    "CacheStudy",
    "Interner",
    "Prompts",
    "Simulation",
    "StepTime",
    "Workload",
    "simulate",
    "study_cache",
    "trace_hits",
]
