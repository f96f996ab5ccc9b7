"""vLLM's own counters from its ``/metrics`` page: what was asked of the prefix cache, and how the engine is set up."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>[^\s]+)", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# Names by version: before 0.10 the counters carried "gpu_"; Prometheus clients append "_total".
_NAMES = {
    "queried_tokens": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    "hit_tokens": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    "preemptions": ("vllm:num_preemptions",),
}


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the server started, summed over its engines. ``queried_tokens`` and ``hit_tokens`` in tokens."""

    queried_tokens: int
    hit_tokens: int
    preemptions: int


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """What the server says of its cache; ``None`` where it does not."""

    block_size: int | None = None
    num_gpu_blocks: int | None = None
    enable_prefix_caching: bool | None = None


def read_counters(page: str) -> Counters | None:
    """Return the prefix-cache counters of a metrics page, ``None`` where it has none."""
    totals: dict[str, float] = {}
    for match in _SAMPLE.finditer(page):
        name = match["name"].removesuffix("_total")
        totals[name] = totals.get(name, 0.0) + float(match["value"])
    found = {
        short: next((totals[name] for name in names if name in totals), None)
        for short, names in _NAMES.items()
    }
    if found["queried_tokens"] is None or found["hit_tokens"] is None:
        return None
    return Counters(int(found["queried_tokens"]), int(found["hit_tokens"]), int(found["preemptions"] or 0))


def read_cache_config(page: str) -> CacheConfig:
    """Return the settings that the page carries as labels of ``vllm:cache_config_info``."""
    for match in _SAMPLE.finditer(page):
        if match["name"] == "vllm:cache_config_info":
            labels = dict(_LABEL.findall(match["labels"] or ""))
            return CacheConfig(
                block_size=_integer(labels.get("block_size")),
                num_gpu_blocks=_integer(labels.get("num_gpu_blocks")),
                enable_prefix_caching={"True": True, "False": False}.get(
                    labels.get("enable_prefix_caching", "")
                ),
            )
    return CacheConfig()


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
