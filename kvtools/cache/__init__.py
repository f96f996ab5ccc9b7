"""vLLM's prefix cache: which tokens of a log it hits, at one size and at every size."""

from kvtools.cache.intern import Interner
from kvtools.cache.study import CacheStudy, Prompts, study_cache

__all__ = ["CacheStudy", "Interner", "Prompts", "study_cache"]
